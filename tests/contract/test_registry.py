"""The registry client against Debian's docker-registry, and against a small server for the token flow and Harbor."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from sless.builder.references import Reference, RegistryName
from sless.builder.registry import Credentials, DeletionNotAllowed, Harbor, Registry, RegistryFailed, find_credentials
from tests.services.registry import PASSWORD, USER, RegistryServer, push_empty

NAME = RegistryName(host="r.example:5000", path="p")


def config(host: str, user: str = USER, password: str = PASSWORD) -> str:
    return json.dumps({"auths": {host: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}})


def registry(host: str, text: str | None) -> Registry:
    return Registry(name=RegistryName(host=host, path=""), insecure=True, read_config=lambda: text)


# --- credentials -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["r.example:5000", "https://r.example:5000", "https://r.example:5000/v2/", "r.example:5000/p"])
def test_credentials_are_found_under_each_form_of_the_host(key):
    assert find_credentials(config(key), NAME) == Credentials(user=USER, password=PASSWORD)
    plain = json.dumps({"auths": {key: {"username": "u", "password": "p:q"}}})
    assert find_credentials(plain, NAME) == Credentials(user="u", password="p:q")


def test_credentials_for_other_hosts_are_ignored():
    assert find_credentials(config("other.example"), NAME) is None
    assert find_credentials(json.dumps({"auths": {"r.example:5000": {}}}), NAME) is None


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"auths": {"r.example:5000": {"auth": "%%%"}}}'])
def test_malformed_secret_is_named(text):
    with pytest.raises(RegistryFailed, match="registry secret"):
        find_credentials(text, NAME)


# --- a real registry with a password -----------------------------------------------------------------------------------------------------


def test_an_image_is_found_and_deleted(registry_server: RegistryServer):
    digest = push_empty(registry_server.host, "unit/a", "t1", (USER, PASSWORD))
    client = registry(registry_server.host, config(registry_server.host))
    image = Reference(host=registry_server.host, repository="unit/a", tag="t1")
    assert client.find_digest(image) == digest
    assert client.delete(image) and registry_server.tags("unit/a") == []
    assert client.find_digest(image) is None and client.delete(image) is False


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "has none for it"), (config("elsewhere"), "has none for it")],
)
def test_missing_password_is_reported(registry_server: RegistryServer, text, words):
    with pytest.raises(RegistryFailed, match=words):
        registry(registry_server.host, text).find_digest(Reference(host=registry_server.host, repository="unit/a", tag="t1"))


def test_wrong_password_is_reported_and_a_new_one_is_used(registry_server: RegistryServer):
    texts = [config(registry_server.host, password="wrong"), config(registry_server.host)]
    client = Registry(name=RegistryName(host=registry_server.host, path=""), insecure=True, read_config=lambda: texts.pop(0))
    image = Reference(host=registry_server.host, repository="unit/none", tag="t1")
    with pytest.raises(RegistryFailed, match="rejected the registry secret"):
        client.find_digest(image)
    assert client.find_digest(image) is None, "the secret is read anew"


def test_a_registry_that_does_not_answer():
    with pytest.raises(RegistryFailed, match="does not answer"):
        registry("127.0.0.1:9", None).find_digest(Reference(host="127.0.0.1:9", repository="a", tag="t"))


# --- tokens, Harbor ----------------------------------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Requires a Bearer token, as Harbor and Docker Hub do; also serves Harbor's projects."""

    seen: ClassVar[list[tuple[str, str, str]]] = []
    projects: ClassVar[set[str]] = set()
    base = ""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.seen.append((self.command, self.path, ""))
        self.reply(405, {})

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        authorization = self.headers.get("Authorization", "")
        type(self).seen.append((self.command, self.path, authorization))
        path = self.path.partition("?")[0]
        if path == "/token":
            good = authorization == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            return self.reply(200 if good else 401, {"token": "opened"} if good else {})
        if path == "/api/v2.0/projects":
            return self.project(body)
        if authorization != "Bearer opened":
            challenge = f'Bearer realm="{self.base}/token",service="harbor",scope="repository:p/a:pull"'
            return self.reply(401, {}, {"WWW-Authenticate": challenge})
        return self.reply(200, {}, {"Docker-Content-Digest": "sha256:1"})

    def project(self, body: bytes) -> None:
        if self.command == "HEAD":
            return self.reply(200 if self.path.partition("=")[2] in self.projects else 404, {})
        name = json.loads(body)["project_name"]
        if name == "forbidden":
            return self.reply(403, {"errors": []})
        status = 409 if name == "raced" else 201
        self.projects.add(name)
        return self.reply(status, {})

    def reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        content = json.dumps(body).encode()
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    Handler.base, Handler.seen, Handler.projects = f"http://127.0.0.1:{server.server_port}", [], set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bearer_token_is_fetched_with_the_credentials_and_kept(server: str):
    client = registry(server, config(server))
    image = Reference(host=server, repository="p/a", tag="t")
    assert client.find_digest(image) == client.find_digest(image) == "sha256:1"
    assert [path for _, path, _ in Handler.seen] == [
        "/v2/p/a/manifests/t",
        "/token?scope=repository%3Ap%2Fa%3Apull%2Cpush&service=harbor",
        "/v2/p/a/manifests/t",
        "/v2/p/a/manifests/t",
    ]


def test_disabled_deletion_is_reported(server: str):
    with pytest.raises(DeletionNotAllowed, match="does not allow deleting images"):
        registry(server, config(server)).delete(Reference(host=server, repository="p/a", tag="t"))


def test_refused_token_names_the_server(server: str):
    client = registry(server, config(server, password="wrong"))
    with pytest.raises(RegistryFailed, match=f"rejected the registry secret: 401 from http://{server}/token"):
        client.find_digest(Reference(host=server, repository="p/a", tag="t"))


def test_harbor_project_is_created_once(server: str):
    harbor = Harbor(url=f"http://{server}/", user=USER, password=PASSWORD)
    for project in ("functions", "functions", "raced"):
        harbor.ensure_project(project)
    assert [method for method, _, _ in Handler.seen] == ["HEAD", "POST", "HEAD", "HEAD", "POST"]
    with pytest.raises(RegistryFailed, match="cannot create project forbidden: 403"):
        harbor.ensure_project("forbidden")
