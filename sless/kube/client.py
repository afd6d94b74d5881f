"""The Kubernetes API with plain dicts: apply, create, find, list, delete, logs. Raises only KubeError, within the time-outs below."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from sless.config import Settings
from sless.errors import ConfigError
from sless.kube.edits import FIELD_MANAGER, find_taken_over
from sless.kube.errors import KubeError, Unavailable, error_of
from sless.kube.kinds import KindOf, Use, kind_of

CONNECT_SEC = 5.0
READ_SEC = 30.0
LOG_BYTES = 16 * 2**20
"""Maximum size of a container's log in memory. A node keeps about 10 MB, but checks only every few seconds, in which a container can write
hundreds of megabytes."""
CHUNK_BYTES = 1 << 16
_JSON = "application/json, */*"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
_METADATA_EVENTS = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
PAGE_ITEMS = 500
CONNECTIONS = 32
"""Connections kept open; each watch has its own."""

Manifest = dict[str, Any]
Manifests = list[Manifest]  # inside the class below, `list` is a method


class Kube:
    """One API server. Thread-safe. `on_use` is called with the right that each request needs."""

    def __init__(self, api: Any, on_use: Callable[[Use], None] | None = None) -> None:
        """`api`: a `kubernetes.client.ApiClient`; only its configuration, credentials and connection pool are used."""
        self._api = api
        self.on_use = on_use

    @classmethod
    def connect(cls, settings: Settings) -> "Kube":
        """Uses SLESS_KUBECONFIG, else the pod's service account, else ~/.kube/config. Makes no request. Raises ConfigError when none can be
        read."""
        # Imported here: it costs 0.7 s and 40 MB.
        from kubernetes import client, config

        configuration = client.Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS
        try:
            if settings.kubeconfig != Path():
                config.load_kube_config(config_file=str(settings.kubeconfig), client_configuration=configuration)
            else:
                _load_found(config, configuration)
        except (config.ConfigException, OSError) as error:
            where = str(settings.kubeconfig) if settings.kubeconfig != Path() else "~/.kube/config"
            raise ConfigError(f"SLESS_BACKEND=kubernetes: no cluster: {where}: {error}") from error
        return cls(client.ApiClient(configuration))

    def close(self) -> None:
        self._api.rest_client.pool_manager.clear()

    def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply: sets what the manifest names and removes what it no longer names, including fields that others added (except
        metadata)."""
        made = self._apply(manifest)
        if (taken_over := find_taken_over(made)) is None:
            return made
        kind, metadata = manifest["kind"], made["metadata"]
        changes = {"managedFields": taken_over, "resourceVersion": metadata["resourceVersion"]}
        self.patch(kind, metadata["name"], metadata.get("namespace"), {"metadata": changes})
        return self._apply(manifest)

    def _apply(self, manifest: Manifest) -> Manifest:
        kind, name, namespace = _target_of(manifest)
        # An apply may create the object, so the API requires both rights.
        self._used(kind, "create", namespace)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._json("PATCH", kind.path(namespace, name), Use(verb="patch", group=kind.group, resource=kind.plural,
                          namespace=namespace or ""), query=query, body=manifest, content_type="application/apply-patch+yaml")  # fmt: skip

    def create(self, manifest: Manifest) -> Manifest:
        """Raises Exists."""
        kind, _, namespace = _target_of(manifest)
        use = Use(verb="create", group=kind.group, resource=kind.plural, namespace=namespace or "")
        return self._json("POST", kind.path(namespace), use, query={"fieldManager": FIELD_MANAGER}, body=manifest)

    def patch(self, kind: str, name: str, namespace: str | None, changes: Manifest) -> Manifest:
        """JSON merge patch of an existing object: null removes, lists are replaced. Raises KubeError 404 if it does not exist."""
        target = kind_of(kind)
        use = Use(verb="patch", group=target.group, resource=target.plural, namespace=namespace or "")
        query = {"fieldManager": FIELD_MANAGER}
        return self._json(
            "PATCH", target.path(namespace, name), use, query=query, body=changes, content_type="application/merge-patch+json"
        )

    def find(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        target = kind_of(kind)
        use = Use(verb="get", group=target.group, resource=target.plural, namespace=namespace or "")
        try:
            return self._json("GET", target.path(namespace, name), use)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, kind: str, *, namespace: str | None = None, selector: str = "", fields: str = "", metadata_only: bool = False
    ) -> Manifests:
        """All objects of a kind that match the label selector, in all namespaces unless one is given. `fields`: a field selector;
        `metadata_only`: without the content, for example of Secrets."""
        return self.list_versioned(kind, namespace=namespace, selector=selector, fields=fields, metadata_only=metadata_only)[0]

    def list_versioned(
        self, kind: str, *, namespace: str | None = None, selector: str = "", fields: str = "", metadata_only: bool = False
    ) -> tuple[Manifests, str]:
        """Like `list`, with the version from which to watch."""
        target = kind_of(kind)
        use = Use(verb="list", group=target.group, resource=target.plural, namespace=namespace or "")
        query = {"limit": str(PAGE_ITEMS), "labelSelector": selector, "fieldSelector": fields}
        path = target.path(namespace)
        try:
            return self._pages(path, use, query, _METADATA if metadata_only else _JSON)
        except KubeError as error:
            if error.status != 410:
                raise
            # The snapshot behind the page token has expired: start over once.
            return self._pages(path, use, query, _METADATA if metadata_only else _JSON)

    def open_watch(
        self, kind: str, *, selector: str, metadata_only: bool, version: str, timeout_sec: float, silent_sec: float
    ) -> Any:  # fmt: skip
        """The unread answer of a watch (`kube.watching`); reading it fails after `silent_sec` without data."""
        target = kind_of(kind)
        use = Use(verb="watch", group=target.group, resource=target.plural)
        query = {
            "watch": "true", "allowWatchBookmarks": "true", "labelSelector": selector, "resourceVersion": version,
            "timeoutSeconds": str(max(1, round(timeout_sec))),
        }  # fmt: skip
        accept = _METADATA_EVENTS if metadata_only else _JSON
        return self._send("GET", target.path(None), use, query=query, accept=accept, stream=True, read_sec=silent_sec)

    def check_alive(self) -> None:
        """Raises KubeError if the API does not respond."""
        self._send("GET", "/version", None)

    def delete(self, kind: str, name: str, namespace: str | None = None, *, propagation: str = "Background",
               grace_sec: int | None = None) -> None:  # fmt: skip
        """Requests the deletion, including owned objects. A missing object is not an error. `grace_sec` replaces the pod's own."""
        target = kind_of(kind)
        use = Use(verb="delete", group=target.group, resource=target.plural, namespace=namespace or "")
        body: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_sec is not None:
            body["gracePeriodSeconds"] = grace_sec
        try:
            self._json("DELETE", target.path(namespace, name), use, body=body)
        except KubeError as error:
            if error.status != 404:
                raise

    def pod_logs(
        self, namespace: str, pod: str, *, container: str | None = None, previous: bool = False,
        tail_lines: int | None = None, since_time: str | None = None, timestamps: bool = False, limit_bytes: int | None = None,
    ) -> str:  # fmt: skip
        """The log of one container, at most its last LOG_BYTES, or the first `limit_bytes` of what is asked for; `since_time` in RFC 3339.
        Raises KubeError 400 before the container has started, 404 when the pod is gone."""
        query = _log_query(
            container=container, previous=previous, tailLines=tail_lines, sinceTime=since_time, timestamps=timestamps,
            limitBytes=limit_bytes,
        )  # fmt: skip
        response = self._send("GET", _log_path(namespace, pod), _log_use(namespace), query=query, stream=True)
        try:
            return _end_of(response.stream(CHUNK_BYTES)).decode(errors="replace")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(0, "Disconnected", f"the log of {pod} broke off: {error}") from error
        finally:
            response.release_conn()

    def _pages(self, path: str, use: Use, query: dict[str, str], accept: str) -> tuple[Manifests, str]:
        found: Manifests = []
        proceed = ""
        while True:
            page = self._json("GET", path, use, query={**query, "continue": proceed}, accept=accept)
            found += page.get("items") or []
            metadata = page.get("metadata") or {}
            proceed = metadata.get("continue") or ""
            if not proceed:
                return found, str(metadata.get("resourceVersion") or "")

    def _json(self, method: str, path: str, use: Use, *, query: Mapping[str, str] | None = None, body: Manifest | None = None,
              content_type: str = "application/json", accept: str = _JSON) -> Manifest:  # fmt: skip
        response = self._send(method, path, use, query=query, body=body, content_type=content_type, accept=accept)
        try:
            parsed = json.loads(response.data)
        except ValueError as error:
            raise Unavailable(response.status, "NotJson", f"{method} {path}: the API's answer is not JSON") from error
        return parsed if isinstance(parsed, dict) else {}

    def _send(self, method: str, path: str, use: Use | None, *, query: Mapping[str, str] | None = None, body: Manifest | None = None,
              content_type: str = "application/json", accept: str = _JSON, stream: bool = False,
              read_sec: float = READ_SEC) -> Any:  # fmt: skip
        """Sends every request. Reads the whole answer unless `stream`. Raises KubeError for any status other than 2xx."""
        if self.on_use and use is not None:
            self.on_use(use)
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "sless"}
        try:
            self._api.update_params_for_auth(headers, {}, ["BearerToken"])
            response = self._api.rest_client.pool_manager.request(
                method,
                self._api.configuration.host.rstrip("/") + path + _query_of(query or {}),
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
                # A request may have been executed although its answer was lost, so only failed connections are retried.
                retries=urllib3.Retry(total=None, connect=1, read=False, redirect=0, status=0, other=0),
                timeout=urllib3.Timeout(connect=CONNECT_SEC, read=read_sec),
                preload_content=not stream,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(0, "NoAnswer", f"the Kubernetes API does not answer: {_cause_of(error)}") from error
        if not 200 <= response.status < 300:
            with suppress(urllib3.exceptions.HTTPError, OSError):
                raise error_of(response.status, bytes(response.data))
            raise Unavailable(response.status, "NoAnswer", f"the Kubernetes API cut off its answer {response.status}")
        return response

    def _used(self, kind: KindOf, verb: str, namespace: str | None) -> None:
        if self.on_use:
            self.on_use(Use(verb=verb, group=kind.group, resource=kind.plural, namespace=namespace or ""))


def _load_found(config: Any, configuration: Any) -> None:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        config.load_kube_config(client_configuration=configuration)


def _target_of(manifest: Manifest) -> tuple[KindOf, str, str | None]:
    kind = kind_of(str(manifest.get("kind")))
    metadata = manifest["metadata"]
    if manifest.get("apiVersion") != kind.api_version:
        raise ValueError(f"{manifest.get('kind')}: expected apiVersion {kind.api_version}, found {manifest.get('apiVersion')}")
    return kind, metadata.get("name", ""), metadata.get("namespace")


def _log_path(namespace: str, pod: str) -> str:
    return kind_of("Pod").path(namespace, pod) + "/log"


def _log_use(namespace: str) -> Use:
    return Use(verb="get", group="", resource="pods/log", namespace=namespace)


def _log_query(**values: Any) -> dict[str, str]:
    return {name: "true" if value is True else str(value) for name, value in values.items() if value not in (None, False)}


def _query_of(query: Mapping[str, str]) -> str:
    text = urlencode({name: value for name, value in query.items() if value})
    return f"?{text}" if text else ""


def _end_of(chunks: Iterator[bytes]) -> bytes:
    kept: deque[bytes] = deque()
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= LOG_BYTES:
            size -= len(kept.popleft())
    return b"".join(kept)


def _cause_of(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    return str(reason if reason is not None else error)[:300]
