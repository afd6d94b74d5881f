"""The registry client against Debian's docker-registry, and against a small server for the token flow and Harbor."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from werkzeug import Request, Response

from sless.builder.references import Reference, RegistryName
from sless.builder.registry import Credentials, DeletionNotAllowed, Harbor, Registry, RegistryFailed, find_credentials
from tests.services.fake_http import serving
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


@dataclass
class HarborFake:
    """Requires a Bearer token, as Harbor and Docker Hub do; also serves Harbor's projects."""

    seen: list[tuple[str, str, str]] = field(default_factory=list)
    projects: set[str] = field(default_factory=set)
    url: str = ""

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def answer(self, request: Request) -> Response:
        authorization = request.headers.get("Authorization", "")
        self.seen.append((request.method, request.full_path.rstrip("?"), authorization))
        if request.method == "DELETE":
            return reply(405)
        if request.path == "/token":
            good = authorization == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            return reply(200, {"token": "opened"}) if good else reply(401)
        if request.path == "/api/v2.0/projects":
            return self.project(request)
        if authorization != "Bearer opened":
            return reply(401, WWW_Authenticate=f'Bearer realm="{self.url}/token",service="harbor",scope="repository:p/a:pull"')
        return reply(200, Docker_Content_Digest="sha256:1")

    def project(self, request: Request) -> Response:
        if request.method == "HEAD":
            return reply(200 if request.args["project_name"] in self.projects else 404)
        name = request.get_json()["project_name"]
        if name == "forbidden":
            return reply(403, {"errors": []})
        status = 409 if name == "raced" else 201
        self.projects.add(name)
        return reply(status)


def reply(status: int, body: object = (), **headers: str) -> Response:
    return Response(json.dumps(body or {}), status, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.fixture
def harbor() -> Iterator[HarborFake]:
    made = HarborFake()
    with serving(made.answer) as made.url:
        yield made


def test_a_bearer_token_is_fetched_with_the_credentials_and_kept(harbor: HarborFake):
    client = registry(harbor.host, config(harbor.host))
    image = Reference(host=harbor.host, repository="p/a", tag="t")
    assert client.find_digest(image) == client.find_digest(image) == "sha256:1"
    assert [path for _, path, _ in harbor.seen] == [
        "/v2/p/a/manifests/t",
        "/token?scope=repository%3Ap%2Fa%3Apull%2Cpush&service=harbor",
        "/v2/p/a/manifests/t",
        "/v2/p/a/manifests/t",
    ]


def test_disabled_deletion_is_reported(harbor: HarborFake):
    with pytest.raises(DeletionNotAllowed, match="does not allow deleting images"):
        registry(harbor.host, config(harbor.host)).delete(Reference(host=harbor.host, repository="p/a", tag="t"))


def test_refused_token_names_the_server(harbor: HarborFake):
    client = registry(harbor.host, config(harbor.host, password="wrong"))
    with pytest.raises(RegistryFailed, match=f"rejected the registry secret: 401 from {harbor.url}/token"):
        client.find_digest(Reference(host=harbor.host, repository="p/a", tag="t"))


def test_harbor_project_is_created_once(harbor: HarborFake):
    client = Harbor(url=f"{harbor.url}/", user=USER, password=PASSWORD)
    for project in ("functions", "functions", "raced"):
        client.ensure_project(project)
    assert [method for method, _, _ in harbor.seen] == ["HEAD", "POST", "HEAD", "HEAD", "POST"]
    with pytest.raises(RegistryFailed, match="cannot create project forbidden: 403"):
        client.ensure_project("forbidden")
