"""The resources of contract §3, one method per operation. Values are JSON objects as received."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any
from urllib.parse import quote

from sless.client.transport import CallAnswer, Transport

UPLOAD_TIMEOUT = (10.0, 600.0)
"""Connect, read: 32 MB over a slow connection, then the server's checks."""
CALL_TIMEOUT = (10.0, 3700.0)
"""Connect, read: a service without a time limit may take an hour; the server enforces limits, not the client."""

Json = dict[str, Any]


def connect(url: str, token: str, namespace: str = "") -> "Client":
    return Client(Transport(url, token), namespace)


class Client:
    """One caller at one server. Without `namespace`, the caller's own is looked up once (`whoami`)."""

    def __init__(self, transport: Transport, namespace: str = "") -> None:
        self.transport = transport
        self._namespace = namespace

    def namespaces(self) -> Iterator[Json]:
        """All tenants; for operators."""
        return self.transport.pages("/v1/namespaces", {})

    def tenants(self, **filters: Any) -> Iterator[Json]:
        """All tenants with counts and usage; for operators. Filter: `suspended`."""
        return self.transport.pages("/v1/operator/tenants", _given(filters))

    def suspend(self, *path: str, reason: str = "") -> Json:
        """The namespace, or with `path` (`functions`, NAME) one workload of it; for operators."""
        return self.transport.json("POST", "/".join(("/v1/operator/tenants", self.namespace, *path, "suspend")), json={"reason": reason})

    def resume(self, *path: str) -> Json:
        return self.transport.json("POST", "/".join(("/v1/operator/tenants", self.namespace, *path, "resume")))

    def operator_list(self, what: str, **filters: Any) -> Iterator[Json]:
        """`failing-builds`, `reconcile-errors`, `queues`, `revoked-tokens` or `allowed-code`, from all pages; for operators. `limit` is the
        page size."""
        return self.transport.pages(f"/v1/operator/{what}", _given(filters))

    def revoke_token(self, body: Json) -> Json:
        """`body` has `token` or `jti`, and `reason`; for operators."""
        return self.transport.json("POST", "/v1/operator/revoked-tokens", json=body)

    def allow_code(self, sha256: str, reason: str = "") -> Json:
        """Exempts one content from the code checks; for operators."""
        return self.transport.json("PUT", f"/v1/operator/allowed-code/{quote(sha256, safe='')}", json={"reason": reason})

    def disallow_code(self, sha256: str) -> None:
        self.transport.json("DELETE", f"/v1/operator/allowed-code/{quote(sha256, safe='')}")

    def billing(self, params: Json, *, everyone: bool) -> Any:
        """Usage per day: of all tenants (for operators), or of the namespace. `params` are `from` and `to`, dates."""
        path = "/v1/operator/usage" if everyone else f"{self.path}/usage/days"
        return self.transport.json("GET", path, params=params)

    def billing_csv(self, params: Json) -> bytes:
        return self.transport.content("/v1/operator/usage", params=params, headers={"Accept": "text/csv"})

    def notifications(self) -> Json:
        """{"notify_url"}: URL that receives notices of failures in the namespace."""
        return self.transport.json("GET", f"{self.path}/notifications")

    def set_notify_url(self, url: str | None) -> Json:
        return self.transport.json("PUT", f"{self.path}/notifications", json={"notify_url": url})

    def import_run(self, job: str, run_id: int, result: str | None) -> Json:
        """Records a run of a job that took place elsewhere; for operators."""
        path = f"/v1/operator/tenants/{self.namespace}/jobs/{quote(job, safe='')}/imported-run"
        return self.transport.json("POST", path, json={"run_id": run_id, "result": result})

    def within(self, namespace: str) -> "Client":
        """A client for the same caller in another namespace; closing one closes both."""
        return Client(self.transport, namespace)

    def whoami(self) -> Json:
        return self.transport.json("GET", "/v1/whoami")

    @cached_property
    def _call_url(self) -> str:
        # Servers that do not report it serve functions below their own URL.
        return str(self.whoami().get("function_url") or f"{self.transport.url}/fn/{{namespace}}/{{name}}")

    def call_url(self, namespace: str, name: str) -> str:
        """The URL to call a function or service, which need not exist yet."""
        return self._call_url.replace("{namespace}", namespace).replace("{name}", name)

    def runtimes(self) -> list[Json]:
        return self.transport.json("GET", "/v1/runtimes")

    @cached_property
    def namespace(self) -> str:
        return self._namespace or str(self.whoami()["namespace"])

    @property
    def path(self) -> str:
        return f"/v1/namespaces/{quote(self.namespace, safe='')}"

    def ensure_namespace(self) -> Json:
        return self.transport.json("POST", f"{self.path}/ensure")

    def usage(self) -> Json:
        return self.transport.json("GET", f"{self.path}/usage")

    def audit(self, *, everyone: bool = False, **filters: Any) -> Iterator[Json]:
        """Newest first, from all pages; of everything for operators. Filters: `since`, `name`; `limit` is the page size."""
        return self.transport.pages("/v1/operator/audit" if everyone else f"{self.path}/audit", _given(filters))

    def limits(self) -> Json:
        """Limits of the namespace; for operators."""
        return self.transport.json("GET", self._limits_path)

    def set_limits(self, limits: Json) -> Json:
        """Replaces the limits set for the namespace; missing or null ones return to their defaults. For operators."""
        return self.transport.json("PUT", self._limits_path, json=limits)

    @property
    def _limits_path(self) -> str:
        return f"/v1/operator/tenants/{quote(self.namespace, safe='')}/limits"

    def callback_key(self) -> Json:
        """The key that signs callbacks: {"key", "created_at", "previous_until"}."""
        return self.transport.json("GET", f"{self.path}/callback-key")

    def rotate_callback_key(self) -> Json:
        return self.transport.json("POST", f"{self.path}/callback-key/rotate")

    @cached_property
    def functions(self) -> "Workloads":
        return Workloads(self, "function")

    @cached_property
    def services(self) -> "Workloads":
        return Workloads(self, "service")

    @cached_property
    def triggers(self) -> "Triggers":
        return Triggers(self, "trigger")

    @cached_property
    def jobs(self) -> "Jobs":
        return Jobs(self, "job")

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Resources:
    """Operations on all kinds of resources. `kind` is the singular."""

    def __init__(self, client: Client, kind: str) -> None:
        self.client = client
        self.kind = kind

    def list(self, **params: Any) -> Iterator[Json]:
        return self.client.transport.pages(self._path(), _given(params))

    def create(self, spec: Json) -> Json:
        return self._json("POST", self._path(), json=spec)

    def get(self, name: str) -> Json:
        return self._json("GET", self._path(name))

    def fetch(self, name: str) -> tuple[Json, str]:
        """The resource and its ETag, to pass as `etag` to `replace` and `merge`."""
        return self.client.transport.fetch(self._path(name))

    def replace(self, name: str, spec: Json, etag: str = "") -> Json:
        return self._json("PUT", self._path(name), json=spec, headers=_if_match(etag))

    def merge(self, name: str, fields: Json, etag: str = "") -> Json:
        return self._json("PATCH", self._path(name), json=fields, headers=_if_match(etag))

    def delete(self, name: str) -> Any:
        return self._json("DELETE", self._path(name))

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return self.client.transport.json(method, path, **options)

    def _path(self, *parts: object) -> str:
        return "/".join([self.client.path, f"{self.kind}s", *(quote(str(part), safe="") for part in parts)])

    def _upload(self, name: str, package: bytes, code_hash: str | None) -> Json:
        body: Json = {"data": package, "headers": {"Content-Type": "application/zip"}}
        if code_hash is not None:
            body = {"files": {"code": ("code.zip", package, "application/zip")}, "data": {"code_hash": code_hash}}
        return self._json("POST", self._path(name, "upload"), timeout=UPLOAD_TIMEOUT, **body)


class Workloads(Resources):
    """Functions or services."""

    def upload(self, name: str, package: bytes, code_hash: str | None = None) -> Json:
        """`package` is a zip. Returns {"version", "sha256", "phase", "message", …}."""
        return self._upload(name, package, code_hash)

    def source(self, name: str, version: int | None = None) -> Json:
        """{path: text or {"base64": …}}"""
        return self._json("GET", self._path(name, "source"), params=_given({"version": version}))["files"]

    def source_zip(self, name: str, version: int | None = None) -> bytes:
        headers = {"Accept": "application/zip"}
        return self.client.transport.content(self._path(name, "source"), params=_given({"version": version}), headers=headers)

    def versions(self, name: str) -> Iterator[Json]:
        return self.client.transport.pages(self._path(name, "versions"), {})

    def version(self, name: str, number: int) -> Json:
        return self._json("GET", self._path(name, "versions", number))

    def follow_build(self, name: str, number: int) -> AbstractContextManager[Iterator[str]]:
        """Lines of the build log from the first, until the build ends."""
        return self.client.transport.lines(self._path(name, "versions", number), {"follow": "1"})

    def activate(self, name: str, number: int) -> Json:
        return self._json("POST", self._path(name, "versions", number, "activate"))

    def rebuild(self, name: str, number: int | None = None) -> Json:
        """Returns the new version, which is being built."""
        return self._json("POST", self._path(name, "rebuild"), params={"version": number} if number else {})

    def cancel(self, name: str, number: int) -> Json:
        return self._json("POST", self._path(name, "versions", number, "cancel"))

    def invoke(self, name: str, body: bytes = b"", headers: dict[str, str] | None = None) -> CallAnswer:
        path = self._path(name, "invoke")
        return self.client.transport.answer("POST", path, data=body, headers=headers or {}, timeout=CALL_TIMEOUT)

    def invocations(self, name: str, **filters: Any) -> Iterator[Json]:
        """Newest first, from all pages. Filters: `status`, `trigger`, `since`; `limit` is the page size."""
        return self.client.transport.pages(self._path(name, "invocations"), _given(filters))

    def invocation(self, name: str, invocation_id: str) -> Json:
        return self._json("GET", self._path(name, "invocations", invocation_id))

    def cancel_invocation(self, name: str, invocation_id: str) -> Json:
        """Asynchronous calls only."""
        return self._json("DELETE", self._path(name, "invocations", invocation_id))

    def retry_invocation(self, name: str, invocation_id: str) -> Json:
        """Asynchronous calls only. Returns {"id", "request_id", "status"}."""
        return self._json("POST", self._path(name, "invocations", invocation_id, "retry"))

    def logs(self, name: str, **params: Any) -> AbstractContextManager[Iterator[str]]:
        """Text lines. `tail` is a count, `since` an RFC 3339 time; `follow="1"` streams until the caller closes it."""
        return self.client.transport.lines(self._path(name, "logs"), _given(params))

    def stats(self, name: str, window: str = "1h") -> Any:
        return self._json("GET", self._path(name, "stats"), params={"window": window})


class Triggers(Resources):
    def fire(self, name: str, event: str | None = None) -> Json:
        """`event` is JSON text; None sends the trigger's own event."""
        body: Json = {} if event is None else {"data": event.encode(), "headers": {"Content-Type": "application/json"}}
        return self._json("POST", self._path(name, "fire"), **body)


class Jobs(Resources):
    def upload(self, name: str, package: bytes, code_hash: str | None = None) -> Json:
        return self._upload(name, package, code_hash)

    def version(self, name: str, number: int) -> Json:
        return self._json("GET", self._path(name, "versions", number))

    def logs(self, name: str, **params: Any) -> AbstractContextManager[Iterator[str]]:
        return self.client.transport.lines(self._path(name, "logs"), _given(params))


def _given(params: Json) -> Json:
    return {name: value for name, value in params.items() if value is not None}


def _if_match(etag: str) -> dict[str, str]:
    return {"If-Match": etag} if etag else {}
