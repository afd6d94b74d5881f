"""The steps of one build in the cluster. Each step is idempotent, so a restarted server continues where the last one stopped."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sless import config
from sless.builder.builder_fit import BuilderFit
from sless.builder.builder_job import ARTIFACT, FETCHER, STEPS, BuildJob, env_secret_of, job_of
from sless.builder.builder_namespace import PULL_SECRET, PUSH_SECRET, namespace_manifests, secret_copy_manifest
from sless.builder.check_job import CheckJob, check_job_of, check_secret_of
from sless.builder.failures import BuildFailed, import_message_of
from sless.builder.image_log import is_final, message_of
from sless.builder.job_watch import End, JobRef, JobWatch
from sless.builder.packing import Context, packed
from sless.builder.references import Reference, repository_of, tag_of
from sless.builder.registry import Harbor, Registry
from sless.builder.work import Work
from sless.domain.ports import BuildSpec, CodeStore, ContextStore
from sless.kube import Exists, Kube
from sless.kube.code_map import MAX_ARCHIVE_BYTES, code_map_manifest
from sless.kube.names import BUILD, MAIN_CONTAINER, ROLE_BUILD, build_of, cluster_namespace_of, code_artifact_of, selector_of

Json = dict[str, Any]

PASSED_ON = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_NO_INDEX", "PIP_FIND_LINKS", "NPM_CONFIG_*", "npm_config_*",
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOFLAGS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""Variables of the server's environment for installers in a builder pod: proxies and indexes. No paths, which do not exist there."""
URL_SPARE_SEC = 120


@dataclass(slots=True, kw_only=True)
class Steps:
    """`ensure_tenant` creates the tenant's namespace. With `small_bytes` 0, all code becomes an image."""

    fit: BuilderFit
    kube: Kube
    code: CodeStore
    contexts: ContextStore
    registry: Registry | None
    harbor: Harbor | None
    ensure_tenant: Callable[[str], None]
    small_bytes: int = MAX_ARCHIVE_BYTES

    def make(self, work: Work) -> str:
        """The artifact. Raises BuildFailed, BuildCancelled, KubeError, RegistryFailed, SlessError."""
        spec = work.spec
        job = self.kube.find("Job", build_of(spec.id), self.fit.namespace)
        if job is not None:
            work.log("the build is already running: following it, log from the start")
            artifact = str(job["metadata"]["annotations"][ARTIFACT])
            work.produce(artifact)
            self._await_image(work, artifact, None)
        else:
            artifact = self._make_new(work)
        self._check(work, artifact)
        work.log(f"imported {spec.entrypoint}: version {spec.version} is ready")
        return artifact

    def clear(self, build_id: str) -> None:
        """Removes the objects and the context of a build. Raises KubeError, SlessError."""
        selector = selector_of(self.fit.installation, ROLE_BUILD, {BUILD: build_id})
        for kind in ("Job", "Secret"):
            for item in self.kube.list(kind, selector=selector, metadata_only=True):
                self.kube.delete(kind, item["metadata"]["name"], item["metadata"].get("namespace"))
        self.contexts.delete(build_id)

    def _make_new(self, work: Work) -> str:
        spec = work.spec
        with packed(self.code, spec, self.fit.images[spec.runtime], small_bytes=self.small_bytes) as context:
            for note in context.notes:
                work.log(note)
            if context.form == "code":
                return self._keep_code(work, context)
            reference = self._reference_of(spec, context)
            work.produce(str(reference))
            assert self.registry is not None
            if self.harbor is not None and self.registry.name.project:
                # This comes first, because Harbor answers 401 for any image of a project that does not exist.
                self.harbor.ensure_project(self.registry.name.project)
            if self.registry.find_digest(reference) is not None:
                work.log(f"image {reference} already exists")
                return str(reference)
            work.check_time()
            self._start_image(work, reference, context)
        self._await_image(work, str(reference), context)
        return str(reference)

    def _keep_code(self, work: Work, context: Context) -> str:
        spec = work.spec
        self.ensure_tenant(spec.namespace)
        manifest = code_map_manifest(
            self.fit.installation, cluster_namespace_of(spec.namespace), spec.workload_id, context.path.read_bytes()
        )
        try:
            self.kube.create(manifest)
        except Exists:
            pass  # named by its content, so the code is the same
        work.log(f"small code without dependencies ({context.size_bytes} bytes): stored as it is, no image needed")
        return code_artifact_of(manifest["metadata"]["name"])

    def _reference_of(self, spec: BuildSpec, context: Context) -> Reference:
        """Raises BuildFailed without a registry."""
        if self.registry is None:
            what = f"{context.manifest} lists packages" if context.manifest else "this code has to be built into an image"
            raise BuildFailed(f"{what}, but this installation has no image registry (SLESS_REGISTRY_HOST)")
        name = self.registry.name
        # Name the installation, so that another one that shares the registry does not delete this image with its own version.
        recipe = {
            "installation": self.fit.installation,
            "dockerfile": context.dockerfile,
            "args": json.dumps(context.build_args, sort_keys=True),
        }
        return Reference(host=name.host, repository=repository_of(name, spec.namespace, spec.name), tag=tag_of(spec, recipe))

    def _start_image(self, work: Work, reference: Reference, context: Context) -> None:
        spec = work.spec
        work.log(f"building image {reference}")
        self._ensure_namespace()
        url = self.contexts.put(spec.id, context.path, self.fit.timeout_sec + URL_SPARE_SEC)
        build = BuildJob(
            id=spec.id, workload_id=spec.workload_id, namespace=spec.namespace, name=spec.name, version=spec.version,
            reference=str(reference), url=url, sha256=context.sha256, build_args=context.build_args,
            env={**config.passed_on(PASSED_ON), **spec.build_env},
        )  # fmt: skip
        self.kube.apply(env_secret_of(self.fit, build))
        try:
            self.kube.create(job_of(self.fit, build))
        except Exists:
            pass  # an earlier attempt created it and the response was lost

    def _await_image(self, work: Work, artifact: str, context: Context | None) -> None:
        """Raises BuildFailed."""
        ref = JobRef(
            namespace=self.fit.namespace, job=build_of(work.spec.id), build_id=work.spec.id, installation=self.fit.installation,
            containers=STEPS, quiet=frozenset({FETCHER}), what="the build",
        )  # fmt: skip
        work.begin()
        end = JobWatch(
            kube=self.kube,
            work=work,
            ref=ref,
            start_sec=self.fit.durations.pod_start_sec,
            is_non_retryable=lambda container, ended: is_final(container, ended, work.tail()),
        ).run()
        if end.reason == "deadline":
            raise BuildFailed(f"build timed out after {self.fit.timeout_sec} s")
        if not end.ok:
            raise BuildFailed(message_of(end, work.tail(), context, work.spec.entrypoint))
        work.log(f"built image {artifact}")

    def _check(self, work: Work, artifact: str) -> None:
        """Imports the entrypoint, first with little memory. Raises BuildFailed."""
        spec = work.spec
        work.begin_import()
        self.ensure_tenant(spec.namespace)
        self.kube.apply(check_secret_of(self.fit, spec))
        check = CheckJob(spec=spec, artifact=artifact)
        end = self._import(work, check)
        if end.ended is not None and end.ended.out_of_memory and check.memory_mb < spec.memory_mb:
            work.log(f"importing {spec.entrypoint} needs more than {check.memory_mb} MB; again with {spec.memory_mb} MB")
            end = self._import(work, CheckJob(spec=spec, artifact=artifact, whole=True))
        if end.ok:
            return
        if end.reason == "deadline":
            raise BuildFailed(self._import_limit_of(spec))
        if end.ended is not None and end.ended.out_of_memory:
            raise BuildFailed(f"importing {spec.entrypoint}: out of memory: over the limit of {spec.memory_mb} MB")
        reason = end.ended.words if end.ended is not None else end.reason
        raise BuildFailed(import_message_of(spec.entrypoint, work.tail() or [reason]))

    def _import(self, work: Work, check: CheckJob) -> End:
        """Raises BuildFailed if it takes too long or cannot start."""
        spec, fit = work.spec, self.fit
        try:
            self.kube.create(check_job_of(fit, check))
        except Exists:
            pass  # created before a restart
        work.begin()
        ref = JobRef(
            namespace=cluster_namespace_of(spec.namespace), job=check.job, build_id=spec.id, installation=fit.installation,
            containers=(MAIN_CONTAINER,), what=f"the import of {spec.entrypoint}",
        )  # fmt: skip
        times, limit = fit.durations, self._import_limit_of(spec)
        return JobWatch(
            kube=self.kube, work=work, ref=ref, start_sec=times.pod_start_sec, limit_sec=times.import_sec, limit_message=limit
        ).run()  # fmt: skip

    def _import_limit_of(self, spec: BuildSpec) -> str:
        return f"importing {spec.entrypoint} took more than {self.fit.durations.import_sec:.0f} s"

    def _ensure_namespace(self) -> None:
        """Applies the objects before each build, in order to restore those deleted by hand and copy a changed password."""
        for manifest in namespace_manifests(self.fit):
            self.kube.apply(manifest)
        for setting, secret, name in (
            ("SLESS_REGISTRY_SECRET", self.fit.push_secret, PUSH_SECRET),
            ("SLESS_BUILDER_PULL_SECRET", self.fit.pull_secret, PULL_SECRET),
        ):
            if secret:
                self._copy_secret(setting, secret, name)

    def _copy_secret(self, setting: str, secret: str, name: str) -> None:
        source = self.kube.find("Secret", secret, self.fit.pod_namespace)
        if source is None:
            raise BuildFailed(f"{setting} names Secret {secret!r}, which does not exist in namespace {self.fit.pod_namespace!r}")
        self.kube.apply(secret_copy_manifest(self.fit, name, source))
