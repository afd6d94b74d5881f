"""The real Flask application on a real store and code folder, with Flask's test client. Every JSON response is checked against
its schema in the OpenAPI document."""

import io
import json
import re
import stat
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

from sless.code import open_code_store
from sless.config import Settings
from sless.domain.model import Kind, Version, VersionState
from sless.http import create_app
from sless.ids import namespace_of
from sless.store import Store
from sless.tokens import TokenVerifier, issue_token
from sless.usecases import Usecases
from sless.validators import make_validator

SUB = "alice"
OPERATOR = "root@example.org"
HANDLER = "def handle(event):\n    return event\n"


@dataclass
class FakeWaker:
    topics: list[str] = field(default_factory=list)

    def wake(self, topic: str) -> None:
        self.topics.append(topic)


class Rest:
    """Paths that do not start with / are relative to the caller's namespace."""

    def __init__(self, store: Store, data_dir: Path, **settings: Any) -> None:
        self.settings = Settings(
            **{"data_dir": data_dir, "auth_mode": "local", "backend": "local", "operator_subs": (OPERATOR,), "rules_mode": "off"} | settings
        )
        self.store = store
        self.waker = FakeWaker()
        self.code = open_code_store(self.settings)
        self.routes_settled = True
        self.usecases = Usecases(
            settings=self.settings, store=store, code=self.code, waker=self.waker, routes_settled=lambda: self.routes_settled,
            validator=make_validator(self.settings, store.verdicts),
        )  # fmt: skip
        self.app = create_app(self.usecases, TokenVerifier(self.settings), self.settings)
        self.client: FlaskClient = self.app.test_client()
        self.namespace = namespace_of(SUB)
        self.document = self.client.get("/openapi.json").json
        self._tokens: dict[str, str] = {}

    def token(self, sub: str = SUB) -> str:
        if sub not in self._tokens:
            self._tokens[sub] = issue_token(self.settings, sub, 3600)
        return self._tokens[sub]

    def call(self, method: str, path: str, *, sub: str | None = SUB, headers: dict[str, str] | None = None, **options: Any) -> TestResponse:
        sent = {"Authorization": f"Bearer {self.token(sub)}"} if sub else {}
        full = path if path.startswith("/") else f"/v1/namespaces/{self.namespace}/{path}"
        response = self.client.open(full, method=method, headers=sent | (headers or {}), buffered=True, **options)
        self.check_shape(method, full, response)
        return response

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        return self.call("POST", path, **({"json": body} if body is not None else {}) | options)

    def put(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("PUT", path, json=body, **options)

    def patch(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("PATCH", path, json=body, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.call("DELETE", path, **options)

    def check_shape(self, method: str, path: str, response: TestResponse) -> None:
        assert response.headers["X-Request-Id"]
        if response.mimetype != "application/json" or method == "HEAD":
            return
        schema = {"$ref": "#/components/schemas/Error"}
        if response.status_code < 400:
            schema = self._schema_of(method, path, response.status_code)
        Draft202012Validator(schema | {"components": self.document["components"]}).validate(response.json)

    def _schema_of(self, method: str, path: str, status: int) -> dict[str, Any]:
        for pattern, methods in self.document["paths"].items():
            if re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path.partition("?")[0]) and method.lower() in methods:
                reply = methods[method.lower()]["responses"].get(str(status))
                assert reply is not None, f"{method} {pattern} answers an undocumented {status}"
                return dict(reply["content"]["application/json"]["schema"])
        raise AssertionError(f"{method} {path} is not documented")

    # --- steps ---------------------------------------------------------------------------------------------------------------------------

    def function(self, name: str = "hello", kind: str = "function", **fields: Any) -> dict[str, Any]:
        response = self.post(f"{kind}s", {"name": name, "runtime": "python3.11"} | fields)
        assert response.status_code == 201, response.text
        return dict(response.json)

    def upload(self, name: str = "hello", kind: str = "function", files: dict[str, Any] | None = None, **more: Any) -> TestResponse:
        return self.post(f"{kind}s/{name}/upload", {"files": files or {"handler.py": HANDLER}} | more)

    def built(
        self, name: str = "hello", kind: str = "function", state: VersionState = VersionState.READY, message: str = "", **more: Any
    ) -> Version:
        """Uploads and finishes the build as the builder would."""
        number = self.upload(name, kind, **more).json["version"]
        return self.finish(name, kind, number, state, message)

    def finish(
        self, name: str, kind: str = "function", number: int = 1, state: VersionState = VersionState.READY, message: str = ""
    ) -> Version:
        workload = self.store.workloads.get(self.namespace, Kind(kind), name)
        version = self.store.versions.get(workload.id, number)
        assert self.store.versions.claim(version.id, "builder")
        assert self.store.versions.finish(version.id, state=state, message=message)
        return self.store.versions.get(workload.id, number)

    def gone(self, name: str, kind: str = "function") -> None:
        """Removes a deleted workload as the reconciler does once none of its instances are left."""
        workload = self.store.workloads.get(self.namespace, Kind(kind), name)
        assert workload.deleted_at is not None
        self.store.workloads.remove(workload.id)


def zip_of(files: dict[str, str | bytes], **modes: int) -> bytes:
    """`modes` are file modes by name, with _ for . and /."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = modes.get(re.sub(r"[./]", "_", name), stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def fields_of(response: TestResponse) -> set[str]:
    assert response.status_code == 400, response.text
    return {detail["field"] for detail in json.loads(response.text)["details"]}
