"""Reads the objects and the code of the earlier operator."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sless.code.earlier import zip_of_context
from sless.config import Settings
from sless.domain.earlier import ImportPlan, order_of, plan_of
from sless.errors import ConfigError
from sless.kube import Kube, KubeError
from sless.kube.kinds import EARLIER


def read_plans(settings: Settings, kubeconfig: Path) -> list[ImportPlan]:
    """Plans in the order in which to execute them. Skips kinds that the cluster does not know. Raises ConfigError."""
    kube = Kube.connect(replace(settings, kubeconfig=kubeconfig))
    try:
        return sorted((plan_of(item) for kind in EARLIER for item in _objects(kube, kind)), key=order_of)
    except KubeError as error:
        raise ConfigError(f"{kubeconfig}: the cluster cannot be read: {error}") from error
    finally:
        kube.close()


def read_code(settings: Settings, plan: ImportPlan) -> bytes | None:
    """The user's files as a zip; None without code. Raises SlessError."""
    if plan.code is None:
        return None
    from sless.code.s3 import read_object

    bucket, key = plan.code
    return zip_of_context(read_object(settings, bucket or settings.s3_bucket, key))


def _objects(kube: Kube, kind: str) -> Iterator[dict[str, object]]:
    try:
        found = kube.list(kind)
    except KubeError as error:
        if error.status == 404:
            return
        raise
    for item in found:
        # Items of a list do not have their kind.
        yield {"kind": kind.removeprefix("Earlier"), **item} | {"kind": kind.removeprefix("Earlier")}
