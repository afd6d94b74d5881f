"""Manifests of one build: the Job and the Secret with its build_env. Pure.

Three containers run one after the other. The first downloads the context from a URL that expires, so the later ones need no credentials for
the store. The builder runs as root, and the Dockerfile's commands as 65532; it writes the image as an OCI layout. The last container pushes
the layout.

Decision: credentials are only mounted in the last container. A Dockerfile's command can leave a process behind that swaps files of the
context for links while the builder, as root, copies them; so it can read everything that the builder can. The last container does not run
the tenant's code.
"""

import base64
import inspect
import shlex
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from sless.builder import fetch_context, push_image
from sless.builder.builder_fit import BuilderFit
from sless.builder.builder_namespace import PULL_SECRET, PUSH_SECRET
from sless.builder.context import ENV_FOLDER, ENV_KEY, env_file_of
from sless.kube.names import BUILD, INSTALLATION, NAME, NAMESPACE, ROLE_BUILD, VERSION, WORKLOAD, build_of, labels_of
from sless.kube.pods import CONTAINER_SECURITY, DISK_REQUEST, UID, pull_policy_of

Json = dict[str, Any]

TAG_LABEL = "sless.dev/tag"
ARTIFACT = "sless.dev/artifact"
"""Annotation with the image that the Job builds, for a server that did not create the Job."""
FETCHER = "fetch"
BUILDER = "builder"
PUSHER = "push"
STEPS = (FETCHER, BUILDER, PUSHER)
WORKSPACE = "/workspace"
IMAGE = "/image"
PUSH_CONFIG = "/sless-registry"
WORKSPACE_SIZE = "2Gi"
IMAGE_SIZE = "8Gi"
STORAGE_SIZE = "24Gi"
"""Size for buildah, whose vfs driver keeps a whole copy of the file system for each layer."""
DISK_SIZES = {"kaniko": "24Gi", "buildah": "48Gi"}
"""Disk space of a builder pod: its volumes, and for kaniko the file system that it builds in its own container."""
BACKOFF_LIMIT = 2
KEPT_SEC = 3600
"""How long a finished Job is kept, in case the server is down."""
_PULL_CONFIGS = {"kaniko": "/kaniko/.docker", "buildah": "/sless-pull"}
_STORAGE = "/var/lib/containers"
_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID", "SYS_CHROOT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """`reference` is the image to build; `url` and `sha256` describe its context; `env` is the environment of the installers."""

    id: str
    workload_id: str
    namespace: str
    name: str
    version: int
    reference: str
    url: str
    sha256: str
    build_args: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


def job_of(fit: BuilderFit, build: BuildJob) -> Json:
    labels = job_labels_of(fit, build)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": build_of(build.id),
            "namespace": fit.namespace,
            "labels": labels,
            "annotations": {ARTIFACT: build.reference},
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "activeDeadlineSeconds": fit.timeout_sec,
            "ttlSecondsAfterFinished": KEPT_SEC,
            "template": {"metadata": {"labels": labels}, "spec": {**_pod_spec_of(fit, build), **fit.pod}},
        },
    }


def env_secret_of(fit: BuilderFit, build: BuildJob) -> Json:
    """Contains one file for a shell to source."""
    text = env_file_of(build.env)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": build_of(build.id), "namespace": fit.namespace, "labels": job_labels_of(fit, build)},
        "type": "Opaque",
        "data": {ENV_KEY: base64.b64encode(text.encode()).decode()},
    }


def job_labels_of(fit: BuilderFit, build: BuildJob) -> dict[str, str]:
    more = {
        BUILD: build.id, WORKLOAD: build.workload_id, NAMESPACE: build.namespace, NAME: build.name, VERSION: str(build.version),
    }  # fmt: skip
    return labels_of(fit.installation, ROLE_BUILD, more)


def _pod_spec_of(fit: BuilderFit, build: BuildJob) -> Json:
    volumes: list[Json] = [
        {"name": "workspace", "emptyDir": {"sizeLimit": WORKSPACE_SIZE}},
        {"name": "tmp", "emptyDir": {"sizeLimit": WORKSPACE_SIZE}},
        {"name": "image", "emptyDir": {"sizeLimit": IMAGE_SIZE}},
        {"name": "build-env", "secret": {"secretName": build_of(build.id), "defaultMode": 0o444}},  # 65532 runs the installers
    ]
    if fit.builder == "buildah":
        volumes.append({"name": "storage", "emptyDir": {"sizeLimit": STORAGE_SIZE}})
    for name, secret in (("registry", PUSH_SECRET if fit.push_secret else ""), ("base", PULL_SECRET if fit.pull_secret else "")):
        if secret:
            items = [{"key": ".dockerconfigjson", "path": "config.json"}]
            volumes.append({"name": name, "secret": {"secretName": secret, "items": items, "defaultMode": 0o400}})
    spec: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {} if fit.builder == "buildah" else {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_fetcher(fit, build), _builder(fit, build)],
        "containers": [_pusher(fit, build)],
        "volumes": volumes,
    }
    if fit.push_secret:
        spec["imagePullSecrets"] = [{"name": PUSH_SECRET}]
    return spec


def _fetcher(fit: BuilderFit, build: BuildJob) -> Json:
    image = fit.images["python3.11"]
    return {
        "name": FETCHER,
        "image": image,
        "imagePullPolicy": pull_policy_of(image),
        "command": _python(fetch_context, build.url, build.sha256, WORKSPACE),
        "resources": _small_resources(fit),
        "securityContext": {**CONTAINER_SECURITY, "runAsUser": UID, "runAsGroup": UID, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "workspace", "mountPath": WORKSPACE}],
    }


def _pusher(fit: BuilderFit, build: BuildJob) -> Json:
    """Runs as root, which owns the files of the layout, but without capabilities."""
    assert fit.registry is not None
    image = fit.images["python3.11"]
    url = f"{'http' if fit.insecure_registry else 'https'}://{fit.registry.api_host}"
    words = [IMAGE, build.reference, url, f"{PUSH_CONFIG}/config.json", ",".join(fit.registry.credential_keys)]
    mounts: list[Json] = [{"name": "image", "mountPath": IMAGE, "readOnly": True}]
    if fit.push_secret:
        mounts.append({"name": "registry", "mountPath": PUSH_CONFIG, "readOnly": True})
    security = {**CONTAINER_SECURITY, "runAsNonRoot": False, "runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "name": PUSHER,
        "image": image,
        "imagePullPolicy": pull_policy_of(image),
        "command": _python(push_image, *words),
        "resources": _small_resources(fit),
        "securityContext": security,
        "volumeMounts": mounts,
    }


def _small_resources(fit: BuilderFit) -> Json:
    """Resources of the other containers, whose volumes count as those of the builder."""
    return {
        "limits": {"cpu": fit.cpu, "ephemeral-storage": "1Gi", "memory": "256Mi"},
        "requests": {"cpu": "50m", "ephemeral-storage": DISK_REQUEST, "memory": "64Mi"},
    }


def _builder(fit: BuilderFit, build: BuildJob) -> Json:
    mounts: list[Json] = [
        {"name": "build-env", "mountPath": ENV_FOLDER, "readOnly": True},
        {"name": "workspace", "mountPath": WORKSPACE},
        {"name": "image", "mountPath": IMAGE},
    ]
    if fit.builder == "buildah":
        mounts.append({"name": "storage", "mountPath": _STORAGE})
    if fit.pull_secret:
        mounts.append({"name": "base", "mountPath": _PULL_CONFIGS[fit.builder], "readOnly": True})
    return {
        "name": BUILDER,
        "image": fit.image,
        "imagePullPolicy": pull_policy_of(fit.image),
        **(_kaniko(fit, build) if fit.builder == "kaniko" else _buildah(fit, build)),
        "resources": {
            "limits": {"cpu": fit.cpu, "ephemeral-storage": DISK_SIZES[fit.builder], "memory": fit.memory},
            "requests": {"cpu": "100m", "ephemeral-storage": DISK_REQUEST, "memory": "256Mi"},
        },
        "volumeMounts": mounts,
    }


def _kaniko(fit: BuilderFit, build: BuildJob) -> Json:
    args = [
        # kaniko detects that it is in a container by a service account token, which we do not mount, or an overlay at /, which some nodes
        # lack.
        "--force",
        f"--context={WORKSPACE}",
        f"--dockerfile={WORKSPACE}/Dockerfile",
        f"--destination={build.reference}",
        "--no-push",
        f"--oci-layout-path={IMAGE}/{push_image.LAYOUT}",
        *(f"--build-arg={name}={value}" for name, value in sorted(build.build_args.items())),
        *image_labels_of(fit, build),
        "--log-format=text",
        *([f"--insecure-registry={fit.insecure_registry}"] if fit.insecure_registry else []),
        *fit.args,
    ]
    security = {"allowPrivilegeEscalation": False, "runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": _CAPABILITIES}}
    return {"args": _literal(args), "securityContext": security}


def _buildah(fit: BuilderFit, build: BuildJob) -> Json:
    """With chroot isolation, buildah mounts file systems. That needs CAP_SYS_ADMIN, which every default seccomp profile blocks.

    SETPCAP lets buildah drop capabilities for the Dockerfile's commands. buildah grants NET_BIND_SERVICE to a RUN by root, so it needs that
    one itself. On nodes with user namespaces, SLESS_BUILDER_POD={"hostUsers": false} confines its root user to the pod.
    """
    verify = f"--tls-verify={'false' if fit.insecure_registry else 'true'}"
    auth = [f"--authfile={_PULL_CONFIGS['buildah']}/config.json"] if fit.pull_secret else []
    bud = [
        "buildah", "--storage-driver=vfs", "bud", "--isolation=chroot", verify, *auth, f"--volume={ENV_FOLDER}:{ENV_FOLDER}:ro",
        *(f"--build-arg={name}={value}" for name, value in sorted(build.build_args.items())), *image_labels_of(fit, build),
        *fit.args, f"--file={WORKSPACE}/Dockerfile", f"--tag={build.reference}", WORKSPACE,
    ]  # fmt: skip
    save = ["buildah", "--storage-driver=vfs", "push", build.reference, f"oci:{IMAGE}/{push_image.LAYOUT}:image"]
    security = {
        "allowPrivilegeEscalation": True,
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": sorted([*_CAPABILITIES, "MKNOD", "NET_BIND_SERVICE", "SETPCAP", "SYS_ADMIN"])},
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    }
    return {"command": _literal(["sh", "-c", f"{shlex.join(bud)} && {shlex.join(save)}"]), "securityContext": security}


def image_labels_of(fit: BuilderFit, build: BuildJob) -> list[str]:
    """A registry deletes an image by its digest, with all of its tags. The labels give each tag a digest of its own, even if the builder
    makes reproducible images, so no other version and no other installation loses its image."""
    return [f"--label={INSTALLATION}={fit.installation}", f"--label={TAG_LABEL}={build.reference.rpartition(':')[2]}"]


def _python(module: ModuleType, *arguments: str) -> list[str]:
    """Runs the source of a module that imports only the standard library."""
    return _literal(["python3", "-E", "-c", inspect.getsource(module), *arguments])


def _literal(words: list[str]) -> list[str]:
    """Escapes `$(NAME)`, which Kubernetes would expand."""
    return [word.replace("$(", "$$(") for word in words]
