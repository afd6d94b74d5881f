"""A small in-memory HTTP server that answers per contract §3, for tests of the client and the command line.

Not a model of sless: builds end at once in `build_state`. tests/e2e tests the real behaviour.
"""

import io
import json
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "sless-0123456789abcdef"
TOKEN = "tenant-token"
TIME = "2026-01-31T09:26:53.589Z"


@dataclass
class State:
    """`requests` are (method, path with query, headers, body) in order. `replies` override answers by (method, path)."""

    functions: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[str, dict[str, Any]] = field(default_factory=dict)
    triggers: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    zips: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    replies: dict[tuple[str, str], tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    build_state: str = "ready"
    build_log: str = "pip: nothing to install"
    build_message: str = ""
    warnings: tuple[str, ...] = ()
    log_lines: tuple[str, ...] = ("first", "second")
    hold_logs: bool = False
    rebuilds_fail: bool = False
    closing: threading.Event = field(default_factory=threading.Event)

    def calls(self, method: str, ending: str = "") -> list[tuple[str, dict[str, str], bytes]]:
        return [(path, headers, body) for verb, path, headers, body in self.requests if verb == method and path.endswith(ending)]


class Problem(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ContractServer:
    def __init__(self) -> None:
        self.state = State()
        handler = type("BoundHandler", (Handler,), {"state": self.state})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ContractServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.state.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    state: State
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.state.requests.append((self.command, self.path, headers, body))
        split = urlsplit(self.path)
        planned = self.state.replies.get((self.command, split.path))
        if planned:
            return self.answer(*planned)
        try:
            self.route(split.path, {name: values[-1] for name, values in parse_qs(split.query).items()}, headers, body)
        except Problem as problem:
            error = {"error": str(problem), "code": problem.code, "details": [], "request_id": "req1"}
            self.answer_json(error, problem.status)

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, value: Any, status: int = 200) -> None:
        self.answer(status, {"Content-Type": "application/json", "ETag": '"7"'}, json.dumps(value).encode())

    def answer_lines(self, lines: list[str], hold: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            data = (line + "\n").encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if hold:
            self.state.closing.wait(30)
        self.wfile.write(b"0\r\n\r\n")

    def route(self, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> None:
        if headers.get("authorization") != f"Bearer {TOKEN}":
            raise Problem(401, "token_bad_signature", "the signature of the token is invalid")
        if path == "/v1/whoami":
            return self.answer_json({"sub": "me", "namespace": NAMESPACE, "operator": False})
        if path == "/v1/namespaces":
            return self.answer_json([{"namespace": NAMESPACE}])
        parts = path.removeprefix(f"/v1/namespaces/{NAMESPACE}/").split("/")
        kind, rest = parts[0], parts[1:]
        if kind not in ("functions", "services", "triggers", "jobs"):
            raise Problem(404, "not_found", f"no such path: {path}")
        table: dict[str, dict[str, Any]] = getattr(self.state, kind)
        if not rest:
            return self.collection(kind, table, body)
        if rest[0] not in table:
            raise Problem(404, "not_found", f'{kind[:-1]} "{rest[0]}" not found')
        if len(rest) == 1:
            return self.item(table, rest[0], body)
        return self.sub_resource(table[rest[0]], rest, query, body)

    def collection(self, kind: str, table: dict[str, dict[str, Any]], body: bytes) -> None:
        if self.command == "GET":
            return self.answer_json([table[name] for name in sorted(table)])
        item = json.loads(body)
        if item["name"] in table:
            raise Problem(409, "already_exists", f'{kind[:-1]} "{item["name"]}" already exists')
        defaults: dict[str, Any] = {"enabled": True, "active": True} if kind == "triggers" else {
            "memory_mb": 128, "timeout_sec": 30, "env_vars": {}, "active_version": None, "latest_version": None, "url": None,
            "phase": "Pending", "message": "", "entrypoint": "handler.handle",
        }  # fmt: skip
        table[item["name"]] = {**defaults, **item, "namespace": NAMESPACE, "created_at": TIME, "updated_at": TIME}
        if kind == "triggers" and item["type"] == "http":
            self.state.functions[item["function_ref"]]["url"] = f"http://example.test/fn/{NAMESPACE}/{item['function_ref']}"
        return self.answer_json(table[item["name"]], 201)

    def item(self, table: dict[str, dict[str, Any]], name: str, body: bytes) -> None:
        match self.command:
            case "PATCH" | "PUT":
                table[name].update(json.loads(body))
            case "DELETE":
                return self.answer_json(table.pop(name) | {"phase": "Deleting"}, 202)
        return self.answer_json(table[name])

    def sub_resource(self, item: dict[str, Any], rest: list[str], query: dict[str, str], body: bytes) -> None:
        versions = self.state.versions.setdefault(item["name"], [])
        match rest[1:]:
            case ["upload"]:
                return self.upload(item, versions, body)
            case ["source"]:
                return self.source(item["name"])
            case ["versions"]:
                return self.answer_json(versions[::-1])
            case ["versions", number, "activate"]:
                item["active_version"] = int(number)
                return self.answer_json(item)
            case ["rebuild"]:
                made = versions[item["active_version"] - 1] | {"version": len(versions) + 1}
                if self.state.rebuilds_fail:
                    made |= {"state": "failed", "message": "no such base image"}
                else:
                    item["active_version"] = made["version"]
                versions.append(made)
                return self.answer_json(made, 202)
            case ["versions", number] if "follow" in query:
                return self.answer_lines(versions[int(number) - 1]["build_log"].splitlines(), hold=False)
            case ["versions", number]:
                return self.answer_json(versions[int(number) - 1])
            case ["invocations"]:
                return self.answer_json([])
            case ["logs"]:
                shown = [json.dumps({"text": line}) if query.get("format") == "json" else line for line in self.state.log_lines]
                return self.answer_lines(shown, hold=self.state.hold_logs and "follow" in query)
            case ["invoke"]:
                return self.answer_json({"echo": json.loads(body or b"null")})
        raise Problem(404, "not_found", "no such path")

    def upload(self, item: dict[str, Any], versions: list[dict[str, Any]], body: bytes) -> None:
        package, boundary = body, self.headers["Content-Type"].partition("boundary=")[2].encode()
        if boundary:
            package = next(part.partition(b"\r\n\r\n")[2] for part in body.split(b"--" + boundary) if b'filename="code.zip"' in part)
        if versions and self.state.zips.get(item["name"]) == package:
            return self.answer_json({"version": item["latest_version"], "sha256": "0" * 64, "phase": item["phase"], "message": ""})
        self.state.zips[item["name"]] = package
        number = len(versions) + 1
        versions.append({
            "version": number, "state": self.state.build_state, "message": self.state.build_message, "build_log": self.state.build_log,
            "runtime": item["runtime"], "entrypoint": item["entrypoint"], "sha256": "0" * 64, "created_at": TIME,
        })  # fmt: skip
        item |= {"latest_version": number, "latest_state": self.state.build_state}
        if self.state.build_state == "ready":
            item |= {"active_version": number, "phase": "Ready"}
        answer = {"version": number, "sha256": "0" * 64, "phase": "Building", "message": "", "warnings": list(self.state.warnings)}
        return self.answer_json(answer, 202)

    def source(self, name: str) -> None:
        data = self.state.zips[name]
        if self.headers.get("Accept") == "application/zip":
            return self.answer(200, {"Content-Type": "application/zip"}, data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return self.answer_json({"files": {path: archive.read(path).decode() for path in archive.namelist()}})


for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    setattr(Handler, f"do_{verb}", Handler.handle_any)
