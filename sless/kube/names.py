"""Labels and names of all objects that sless creates in a cluster. It finds them by labels and installation id, never by name alone."""

from collections.abc import Mapping

MANAGED_BY = "app.kubernetes.io/managed-by"
INSTALLATION = "sless.dev/installation"
NAMESPACE = "sless.dev/namespace"
WORKLOAD = "sless.dev/workload"
NAME = "sless.dev/name"
KIND = "sless.dev/kind"
VERSION = "sless.dev/version"
RUN = "sless.dev/run"
BUILD = "sless.dev/build"
ROLE = "sless.dev/role"
"""Label with the purpose of an object: one of the ROLE_ values."""

ROLE_TENANT = "tenant"
ROLE_INSTANCE = "instance"
ROLE_RUN = "run"
ROLE_UNRESPONSIVE = "stuck"
"""An unresponsive instance: its ReplicaSet no longer selects it and has created another one. The value stays `stuck`, so that a new
server finds pods that an older one has labelled."""
ROLE_BUILD = "build"
ROLE_CODE = "code"
"""A ConfigMap with small code; equal code within a namespace shares one object."""
CODE_MAP_ARTIFACT = "configmap:"
"""Prefix of artifacts whose code is in a ConfigMap of the tenant's namespace and runs on the runtime image. Any other artifact is an image
reference."""

HASH = "sless.dev/hash"
"""Annotation: hash of the manifest as sent; if equal, there is nothing to do."""
GENERATION = "sless.dev/generation"
"""Annotation of a Deployment: the generation of the workload for which it was written."""

SERVER_LABEL = "sless.dev/component"
"""Label of sless's own pods, with the value `server`: only they may call functions (NetworkPolicy)."""

MAIN_CONTAINER = "function"
PULL_SECRET = "sless-pull"
SERVICE_ACCOUNT = "sless-function"
TENANT_PREFIX = "sless-fn-"


def cluster_namespace_of(namespace: str) -> str:
    """The cluster's namespace for that of a tenant: `sless-<16 hex>` → `sless-fn-<16 hex>`; other names are appended as a whole (at most 63
    characters in all)."""
    return (TENANT_PREFIX + namespace.removeprefix("sless-"))[:63].rstrip("-")


def labels_of(installation: str, role: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels of an object of this installation, sorted."""
    labels = {MANAGED_BY: "sless", INSTALLATION: installation, ROLE: role, **(more or {})}
    return dict(sorted(labels.items()))


def selector_of(installation: str, role: str = "", more: Mapping[str, str] | None = None) -> str:
    """Label selector for `Kube.list`."""
    wanted = {MANAGED_BY: "sless", INSTALLATION: installation, **({ROLE: role} if role else {}), **(more or {})}
    return ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))


def env_secret_of(name: str) -> str:
    """Secret with env_vars and secret_env of the instances of a function or service."""
    return f"{name}-env"


def code_map_of(version_key: str) -> str:
    """ConfigMap with the packed code of one version (small code), named by its content, which never changes."""
    return f"code-{version_key}"


def code_artifact_of(code_map: str) -> str:
    """Artifact of a version whose small code is in this ConfigMap."""
    return CODE_MAP_ARTIFACT + code_map


def find_code_map(artifact: str) -> str | None:
    """Name of the ConfigMap of an artifact, None if it is an image."""
    return artifact.removeprefix(CODE_MAP_ARTIFACT) if artifact.startswith(CODE_MAP_ARTIFACT) else None


def run_name_of(run_id: str) -> str:
    """Job of one run, and the Secret with its event and environment."""
    return f"run-{run_id}"


def build_of(build_id: str) -> str:
    """Builder Job of one build."""
    return f"build-{build_id}"


def check_of(build_id: str) -> str:
    """Job that imports the entrypoint at the end of a build, and the Secret with its environment."""
    return f"check-{build_id}"
