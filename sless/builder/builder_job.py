"""Manifests of one build: the Job, and the Secret with its build_env. Pure.

The init container downloads the context from a URL that expires, so the builder needs no credentials for the store. The builder then runs
as root; the Dockerfile's commands run as 65532, which can read neither the builder's secrets nor its memory.
"""

import base64
import inspect
import shlex
from dataclasses import dataclass, field
from typing import Any

from sless.builder import fetch_context
from sless.builder.builder_fit import BuilderFit
from sless.builder.builder_namespace import PUSH_SECRET
from sless.builder.context import ENV_FOLDER, ENV_KEY, env_file_of
from sless.kube.names import BUILD, NAME, NAMESPACE, ROLE_BUILD, VERSION, WORKLOAD, build_of, labels_of
from sless.kube.pods import CONTAINER_SECURITY, UID, pull_policy_of

Json = dict[str, Any]

ARTIFACT = "sless.dev/artifact"
"""Annotation: the image that the Job builds; read by a server that did not create the Job."""
FETCHER = "fetch"
BUILDER = "builder"
WORKSPACE = "/workspace"
BACKOFF_LIMIT = 2
KEPT_SEC = 3600
"""How long a finished Job is kept, in case the server is down at the moment."""
_CONFIG_FOLDERS = {"kaniko": "/kaniko/.docker", "buildah": "/sless-registry"}
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
    """One file to be sourced by a shell."""
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
        {"name": "workspace", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        # Readable by 65532, which runs the installers; only root can read the credentials.
        {"name": "build-env", "secret": {"secretName": build_of(build.id), "defaultMode": 0o444}},
    ]
    if fit.builder == "buildah":
        volumes.append({"name": "storage", "emptyDir": {}})
    if fit.push_secret:
        items = [{"key": ".dockerconfigjson", "path": "config.json"}]
        volumes.append({"name": "registry", "secret": {"secretName": PUSH_SECRET, "items": items, "defaultMode": 0o400}})
    spec: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {} if fit.builder == "buildah" else {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_fetcher(fit, build)],
        "containers": [_builder(fit, build)],
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
        "command": _literal(["python3", "-E", "-c", inspect.getsource(fetch_context), build.url, build.sha256, WORKSPACE]),
        "resources": {"limits": {"cpu": fit.cpu, "memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {**CONTAINER_SECURITY, "runAsUser": UID, "runAsGroup": UID, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "workspace", "mountPath": WORKSPACE}],
    }


def _builder(fit: BuilderFit, build: BuildJob) -> Json:
    mounts = [
        {"name": "build-env", "mountPath": ENV_FOLDER, "readOnly": True},
        {"name": "workspace", "mountPath": WORKSPACE},
    ]
    if fit.builder == "buildah":
        mounts.append({"name": "storage", "mountPath": _STORAGE})
    if fit.push_secret:
        mounts.append({"name": "registry", "mountPath": _CONFIG_FOLDERS[fit.builder], "readOnly": True})
    return {
        "name": BUILDER,
        "image": fit.image,
        "imagePullPolicy": pull_policy_of(fit.image),
        **(_kaniko(fit, build) if fit.builder == "kaniko" else _buildah(fit, build)),
        "resources": {"limits": {"cpu": fit.cpu, "memory": fit.memory}, "requests": {"cpu": "100m", "memory": "256Mi"}},
        "volumeMounts": mounts,
    }


def _kaniko(fit: BuilderFit, build: BuildJob) -> Json:
    args = [
        # kaniko detects a container by a service account token, which we do not mount, or by an overlay at /, which not every node has.
        "--force",
        f"--context={WORKSPACE}",
        f"--dockerfile={WORKSPACE}/Dockerfile",
        f"--destination={build.reference}",
        *(f"--build-arg={name}={value}" for name, value in sorted(build.build_args.items())),
        "--log-format=text",
        "--push-retry=2",
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
    auth = [f"--authfile={_CONFIG_FOLDERS['buildah']}/config.json"] if fit.push_secret else []
    bud = [
        "buildah", "--storage-driver=vfs", "bud", "--isolation=chroot", verify, *auth, f"--volume={ENV_FOLDER}:{ENV_FOLDER}:ro",
        *(f"--build-arg={name}={value}" for name, value in sorted(build.build_args.items())),
        *fit.args, f"--file={WORKSPACE}/Dockerfile", f"--tag={build.reference}", WORKSPACE,
    ]  # fmt: skip
    push = ["buildah", "--storage-driver=vfs", "push", verify, *auth, build.reference, f"docker://{build.reference}"]
    security = {
        "allowPrivilegeEscalation": True,
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": sorted([*_CAPABILITIES, "MKNOD", "NET_BIND_SERVICE", "SETPCAP", "SYS_ADMIN"])},
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    }
    return {"command": _literal(["sh", "-c", f"{shlex.join(bud)} && {shlex.join(push)}"]), "securityContext": security}


def _literal(words: list[str]) -> list[str]:
    """Escapes `$(NAME)`, which Kubernetes would expand."""
    return [word.replace("$(", "$$(") for word in words]
