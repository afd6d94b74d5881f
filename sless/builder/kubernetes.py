"""KubernetesBuilder: builds uploads into images (small code into ConfigMaps) with Jobs, then imports the entrypoint in a Job."""

import logging
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from sless import clock
from sless.builder.build_steps import Steps
from sless.builder.builder_fit import builder_fit_of
from sless.builder.builder_namespace import docker_config_of
from sless.builder.failures import BuildFailed
from sless.builder.references import find_reference
from sless.builder.registry import DeletionNotAllowed, RegistryFailed, make_harbor, make_registry
from sless.builder.work import BuildCancelled, Work
from sless.builder.works import Works
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.model import Version
from sless.domain.ports import BuilderUnavailable, BuildSpec, BuildStatus, CodeStore, ContextStore
from sless.errors import Code, SlessError
from sless.kube import Conflict, Kube, KubeError, Unavailable
from sless.kube.code_map import MAX_ARCHIVE_BYTES
from sless.kube.names import BUILD, ROLE_BUILD, ROLE_CODE, find_code_map, selector_of
from sless.kube.tenant import ensure_tenant, tenant_policy_of

_log = logging.getLogger(__name__)

Json = dict[str, Any]

AWAY_SEC = 1.0


def make_kubernetes_builder(
    settings: Settings, kube: Kube, installation: str, code: CodeStore, contexts: ContextStore, *, durations: Durations | None = None,
    ensure_namespace: Callable[[str], None] | None = None,
) -> "KubernetesBuilder":  # fmt: skip
    """`ensure_namespace` creates a tenant's namespace and skips objects that it has written before; without it, every build writes them.
    Raises ConfigError naming the wrong setting."""
    fit = builder_fit_of(settings, installation, durations)
    policy = tenant_policy_of(settings, installation)
    if settings.registry_secret and not settings.registry_pull_secret:
        _log.warning(
            "SLESS_REGISTRY_PULL_SECRET is not set: nodes pull from %s without a password; if it asks for one, name the Secret of "
            "an account that can only pull",
            settings.registry_host,
        )

    def read_config() -> str | None:
        if not fit.push_secret:
            return None
        secret = kube.find("Secret", fit.push_secret, fit.pod_namespace)
        if secret is None:
            where = f"which does not exist in namespace {fit.pod_namespace!r}"
            raise RegistryFailed(f"SLESS_REGISTRY_SECRET names Secret {fit.push_secret!r}, {where}")
        return docker_config_of(secret)

    steps = Steps(
        fit=fit,
        kube=kube,
        code=code,
        contexts=contexts,
        registry=make_registry(settings, read_config),
        harbor=make_harbor(settings),
        ensure_tenant=ensure_namespace or (lambda namespace: ensure_tenant(kube, policy, namespace)),
        small_bytes=MAX_ARCHIVE_BYTES if settings.image_build == "auto" else 0,
    )
    return KubernetesBuilder(steps, settings.build_timeout_sec)


class KubernetesBuilder:
    """See ports.Builder. One thread per build follows its Jobs, which outlive this process: to start a known build means to follow its
    Job."""

    def __init__(self, steps: Steps, timeout_sec: int) -> None:
        self._steps = steps
        self._works = Works(self._build_image, timeout_sec)

    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        self._works.start(build, changed)

    def poll(self, build_id: str) -> BuildStatus | None:
        return self._works.poll(build_id)

    def cancel(self, build_id: str) -> None:
        """Also removes what an earlier process left behind of an unknown build."""
        self._works.cancel(build_id)
        self._works.begin(lambda: self._clear(build_id), f"clear-{build_id}")

    def discard(self, artifact: str) -> None:
        registry = self._steps.registry
        image = find_reference(artifact, registry.name) if registry else None
        if registry is None or image is None:
            return
        try:
            if registry.delete(image):
                _log.info("removed unused image %s", image)
        except DeletionNotAllowed as error:
            _log.warning("cannot remove unused image %s: %s", image, error)
        except (RegistryFailed, KubeError) as error:
            raise BuilderUnavailable(str(error)) from error

    def collect(self, list_kept: Callable[[], Collection[Version]], young_sec: float) -> None:
        try:
            objects = [(kind, item) for kind in ("Job", "Secret") for item in self._list(kind, ROLE_BUILD)]
            code_maps = self._list("ConfigMap", ROLE_CODE)
            context_ids = set(self._steps.contexts.list_ids())
            # Read the kept ones last: every build whose objects are in these lists was open before they were read.
            kept = list_kept()
            open_ids = {version.id for version in kept if version.state in OPEN_VERSION_STATES}
            self._collect_objects(objects, open_ids)
            self._collect_code(code_maps, {name for version in kept if (name := find_code_map(version.artifact))}, young_sec)
            for build_id in context_ids - open_ids:
                self._steps.contexts.delete(build_id)
        except (KubeError, SlessError) as error:
            raise BuilderUnavailable(str(error)) from error

    def close(self) -> None:
        self._works.cancel_all()
        self._works.join()

    def _build_image(self, work: Work) -> None:
        """Top of a build's thread. Any error becomes the message of the version."""
        try:
            work.end(ready=True, artifact=self._make(work))
        except BuildCancelled:
            return
        except BuildFailed as error:
            work.end(ready=False, message=str(error))
        except (SlessError, KubeError, RegistryFailed) as error:
            work.end(ready=False, message=f"build failed: {error}")
        except OSError as error:
            work.end(ready=False, message=f"build failed: {error.strerror or error}")
        except Exception as error:
            _log.exception("build %s failed", work.spec.id)
            work.end(ready=False, message=f"build failed: internal error ({type(error).__name__})")

    def _make(self, work: Work) -> str:
        """Retries after transient errors; each step is idempotent."""
        while True:
            try:
                return self._steps.make(work)
            except KubeError as error:
                if not _passes(error):
                    raise
                reason = error.message
            except SlessError as error:
                if error.code is not Code.UNAVAILABLE:
                    raise
                reason = error.message
            _log.warning("build %s is waiting: %s", work.spec.id, reason)
            work.log(f"waiting: {reason}")
            work.check_time()
            if work.cancelled.wait(AWAY_SEC):
                raise BuildCancelled

    def _clear(self, build_id: str) -> None:
        """Removes the objects of a build. `collect` later removes those that cannot be removed now."""
        try:
            self._steps.clear(build_id)
        except (KubeError, SlessError) as error:
            _log.warning("cannot clean up build %s now: %s", build_id, error)

    def _list(self, kind: str, role: str) -> list[Json]:
        return self._steps.kube.list(kind, selector=selector_of(self._steps.fit.installation, role), metadata_only=True)

    def _collect_objects(self, objects: list[tuple[str, Json]], open_ids: set[str]) -> None:
        for kind, item in objects:
            build_id = (item["metadata"].get("labels") or {}).get(BUILD)
            if build_id and build_id not in open_ids:
                self._steps.kube.delete(kind, item["metadata"]["name"], item["metadata"].get("namespace"))

    def _collect_code(self, code_maps: list[Json], used: set[str], young_sec: float) -> None:
        old = clock.now() - timedelta(seconds=young_sec)
        for item in code_maps:
            metadata = item["metadata"]
            if metadata["name"] not in used and clock.parse_rfc3339(metadata["creationTimestamp"]) < old:
                self._steps.kube.delete("ConfigMap", metadata["name"], metadata["namespace"])


def _passes(error: KubeError) -> bool:
    """Whether the error is transient: the API is unavailable, a concurrent change, or the tenant's old namespace is being deleted."""
    return isinstance(error, Unavailable | Conflict) or error.status == 404 or "because it is being terminated" in error.message
