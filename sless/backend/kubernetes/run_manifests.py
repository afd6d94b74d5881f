"""One run → a Job and Secrets with its event and environment. Pure."""

import base64
from typing import Any

from sless.backend.kubernetes.fit import Fit
from sless.backend.kubernetes.manifests import container_of_revision, env_secret, labels_of_revision
from sless.domain.ports import RunSpec
from sless.kube.names import ROLE_RUN, RUN, VERSION, cluster_namespace_of, run_name_of
from sless.kube.pods import pod_spec_of

Json = dict[str, Any]

MAX_EVENT_BYTES = 700 * 1024
"""An object holds at most 1 MiB in all, and base64 adds a third."""
EVENT_DIR = "/app/event"
EVENT_KEY = "event.json"
START_SEC = 120
"""Time for a Job to start (scheduling, pulling) in addition to its own, in case no server watches it."""
KEPT_SEC = 24 * 3600
"""How long an ended Job is kept for a server to fetch its outcome."""
END_GRACE_SEC = 2
TIMEOUT = "sless.dev/timeout-sec"
MEMORY = "sless.dev/memory-mb"
"""Annotations of a Job, used in messages, even by servers that did not start it."""
ATTEMPT = "sless.dev/attempt"
"""Annotation of a Job: the attempt that created it."""


def event_secret(fit: Fit, run: RunSpec) -> Json:
    """Only the event, mounted as a file: a variable holds at most 128 KB."""
    secret = env_secret(fit, run.revision, f"{run_name_of(run.id)}-event", ROLE_RUN, {RUN: run.id})
    return {**secret, "data": {EVENT_KEY: base64.b64encode(run.event.encode()).decode()}}


def run_env_secret(fit: Fit, run: RunSpec) -> Json:
    return env_secret(fit, run.revision, run_name_of(run.id), ROLE_RUN, {RUN: run.id})


def job_of(fit: Fit, run: RunSpec) -> Json:
    revision = run.revision
    labels = {**labels_of_revision(fit, revision, ROLE_RUN), RUN: run.id}
    env = {
        "SLESS_MODE": "job",
        "SLESS_EVENT_FILE": f"{EVENT_DIR}/{EVENT_KEY}",
        "SLESS_INVOCATION_ID": run.id,
        "SLESS_REQUEST_ID": run.request_id,
        "SLESS_TRIGGER": str(run.trigger),
    }
    container, volumes = container_of_revision(fit, revision, run_name_of(run.id), {}, env)
    container["volumeMounts"] = [{"name": "event", "mountPath": EVENT_DIR, "readOnly": True}, *container["volumeMounts"]]
    volumes = [{"name": "event", "secret": {"secretName": f"{run_name_of(run.id)}-event"}}, *volumes]
    more = {"restartPolicy": "Never", "terminationGracePeriodSeconds": END_GRACE_SEC}
    spec: Json = {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": KEPT_SEC,
        "template": {
            "metadata": {"labels": dict(sorted({**labels, VERSION: str(revision.version)}.items()))},
            "spec": pod_spec_of(container, fit.placement, volumes=volumes, more=more),
        },
    }
    if revision.timeout_sec:
        spec["activeDeadlineSeconds"] = revision.timeout_sec + START_SEC
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": run_name_of(run.id),
            "namespace": cluster_namespace_of(revision.namespace),
            "labels": dict(sorted(labels.items())),
            "annotations": {MEMORY: str(revision.memory_mb), TIMEOUT: str(revision.timeout_sec)},
        },
        "spec": spec,
    }


def end_of_job(seconds: int) -> Json:
    """A patch that makes the cluster end the Job now. `seconds` is the age of the Job."""
    return {"spec": {"activeDeadlineSeconds": max(1, seconds)}}
