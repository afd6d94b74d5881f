"""Manifests of the trial import: the Job in the tenant's namespace that imports the entrypoint at the end of a build. Pure."""

import base64
import math
from dataclasses import dataclass
from typing import Any

from sless.builder.builder_fit import BuilderFit
from sless.domain.ports import BuildSpec
from sless.kube.names import BUILD, NAME, NAMESPACE, ROLE_BUILD, VERSION, WORKLOAD, check_of, cluster_namespace_of, find_code_map, labels_of
from sless.kube.pods import CODE_DIR, Container, container_of, pod_spec_of, small_code_of

Json = dict[str, Any]

MEMORY_MB = 256
"""Memory for the import, unless the function has less: with its whole memory, a tenant near its quota could not update it."""
START_SEC = 600
"""Time to start, in addition to `Durations.import_sec`. It exceeds that of a build, since an exhausted quota may delay the pod that
long."""
KEPT_SEC = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJob:
    """`artifact` is the artifact that the version will get. `whole`: use the function's whole memory, because MEMORY_MB was too little."""

    spec: BuildSpec
    artifact: str
    whole: bool = False

    @property
    def job(self) -> str:
        return check_of(self.spec.id) + ("-whole" if self.whole else "")

    @property
    def memory_mb(self) -> int:
        return self.spec.memory_mb if self.whole else min(self.spec.memory_mb, MEMORY_MB)


def check_job_of(fit: BuilderFit, check: CheckJob) -> Json:
    spec = check.spec
    code_map = find_code_map(check.artifact)
    volumes, mounts, code_env = small_code_of(code_map) if code_map else ([], {}, {})
    env = {
        "HOME": "/tmp",
        "SLESS_MODE": "check",
        "SLESS_ENTRYPOINT": spec.entrypoint,
        "SLESS_CODE_DIR": CODE_DIR,
        "SLESS_FUNCTION_NAME": spec.name,
        "SLESS_NAMESPACE": spec.namespace,
        "SLESS_VERSION": str(spec.version),
        "SLESS_MEMORY_MB": str(spec.memory_mb),
        **code_env,
    }
    container = container_of(
        Container(
            image=fit.images[spec.runtime] if code_map else check.artifact,
            memory_mb=check.memory_mb,
            env={name: value for name, value in env.items() if name != "HOME" or "HOME" not in spec.env},
            env_secret=check_of(spec.id),
            mounts=mounts,
        ),
        fit.placement,
    )
    more = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    labels = _labels_of(fit, spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": check.job, "namespace": cluster_namespace_of(spec.namespace), "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(fit.durations.import_sec) + START_SEC,
            "ttlSecondsAfterFinished": KEPT_SEC,
            "template": {"metadata": {"labels": labels}, "spec": pod_spec_of(container, fit.placement, volumes=volumes, more=more)},
        },
    }


def check_secret_of(fit: BuilderFit, spec: BuildSpec) -> Json:
    """env_vars and secret_env, which the imported module may read."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": check_of(spec.id), "namespace": cluster_namespace_of(spec.namespace), "labels": _labels_of(fit, spec)},
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(spec.env.items())},
    }


def _labels_of(fit: BuilderFit, spec: BuildSpec) -> dict[str, str]:
    more = {BUILD: spec.id, WORKLOAD: spec.workload_id, NAMESPACE: spec.namespace, NAME: spec.name, VERSION: str(spec.version)}
    return labels_of(fit.installation, ROLE_BUILD, more)
