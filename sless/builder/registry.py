"""Client of the image registry (OCI distribution API v2): finds and deletes images. Also creates Harbor projects."""

import base64
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import requests

from sless.builder.references import Reference, RegistryName, registry_of
from sless.config import Settings

TIMEOUT_SEC = (5, 20)
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_PUSH, _DELETE = "pull,push", "pull,delete"
"""Scope for reading. It includes `push`, because some registries answer 404 for a new repository only to clients that may push, and 401
to others."""


class RegistryFailed(Exception):
    """The registry is unreachable or refuses the request. The text names the registry and its reason."""


class DeletionNotAllowed(RegistryFailed):
    """The registry has deletion disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    user: str
    password: str


def find_credentials(docker_config: str, registry: RegistryName) -> Credentials | None:
    """The credentials for this registry in a dockerconfigjson, None if it has none. Raises RegistryFailed if it is malformed."""
    try:
        auths = json.loads(docker_config)["auths"]
        entries = {str(key).rstrip("/"): value for key, value in auths.items()}
        entry = next((entries[key.rstrip("/")] for key in registry.credential_keys if key.rstrip("/") in entries), None)
        if entry is None:
            return None
        user, password = entry.get("username", ""), entry.get("password", "")
        if not user and entry.get("auth"):
            user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        return Credentials(user=user, password=password) if user else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistryFailed(f"the registry secret: expected a .dockerconfigjson with auths, found something else ({error})") from error


@dataclass(slots=True, kw_only=True)
class Registry:
    """`read_config` returns the current dockerconfigjson (the Secret may change), None if there is none. Thread-safe."""

    name: RegistryName
    insecure: bool
    read_config: Callable[[], str | None]
    _tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find_digest(self, image: Reference) -> str | None:
        """The digest of the manifest, None if the image does not exist. Raises RegistryFailed."""
        answer = self._ask("HEAD", image.repository, f"manifests/{image.tag}", _PUSH)
        if answer.status_code == 404:
            return None
        self._check(answer, image)
        return answer.headers.get("Docker-Content-Digest", "")

    def delete(self, image: Reference) -> bool:
        """Returns whether the image existed. The registry's garbage collection deletes the blobs later. Raises RegistryFailed,
        DeletionNotAllowed."""
        digest = self.find_digest(image)
        if digest is None:
            return False
        if not digest:
            raise RegistryFailed(f"{self.name.host} did not return the digest of {image}")
        answer = self._ask("DELETE", image.repository, f"manifests/{digest}", _DELETE)
        if answer.status_code == 404:
            return False
        if answer.status_code == 405:
            raise DeletionNotAllowed(f"the registry {self.name.host} does not allow deleting images")
        self._check(answer, image)
        return True

    def _ask(self, method: str, repository: str, path: str, actions: str) -> requests.Response:
        """Sends a known token; without one, the first request fails with 401 and names the token server."""
        url = f"{'http' if self.insecure else 'https'}://{self.name.api_host}/v2/{repository}/{path}"
        with self._lock:
            known = self._tokens.get((repository, actions))
        answer = self._send(method, url, known)
        if answer.status_code == 401:
            token = self._authorization_of(answer.headers.get("WWW-Authenticate", ""), repository, actions)
            with self._lock:
                self._tokens[(repository, actions)] = token
            answer = self._send(method, url, token)
        return answer

    def _send(self, method: str, url: str, authorization: str | None) -> requests.Response:
        headers = {"Accept": MANIFESTS, **({"Authorization": authorization} if authorization else {})}
        return _request(method, url, headers=headers)

    def _authorization_of(self, challenge: str, repository: str, actions: str) -> str:
        """Answers the challenge of a 401: Basic, or a Bearer token from the server it names."""
        config = self.read_config()
        credentials = find_credentials(config, self.name) if config else None
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if credentials is None:
                raise RegistryFailed(f"the registry {self.name.host} requires a password, but the registry secret has none for it")
            return _basic_of(credentials)
        wanted = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or not wanted.get("realm"):
            raise RegistryFailed(f"the registry {self.name.host} refused without a usable challenge: {challenge[:200] or '401'}")
        query = {"scope": f"repository:{repository}:{actions}", **({"service": wanted["service"]} if "service" in wanted else {})}
        headers = {"Authorization": _basic_of(credentials)} if credentials else {}
        answer = _request("GET", wanted["realm"], headers=headers, params=query)
        if answer.status_code != 200:
            raise RegistryFailed(f"the registry {self.name.host} rejected the registry secret: {answer.status_code} from {wanted['realm']}")
        parsed = _json_of(answer)
        if not (token := parsed.get("token") or parsed.get("access_token")):
            raise RegistryFailed(f"the registry {self.name.host}: expected a token from {wanted['realm']}, found none")
        return f"Bearer {token}"

    def _check(self, answer: requests.Response, image: Reference) -> None:
        if answer.status_code < 300:
            return
        with self._lock:
            self._tokens.clear()
        reason = {401: "rejected the registry secret", 403: "denied access"}
        raise RegistryFailed(f"the registry {reason.get(answer.status_code, f'answered {answer.status_code}')} for {image}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Harbor:
    url: str
    user: str
    password: str

    def ensure_project(self, project: str) -> None:
        """Creates a private project; leaves an existing one unchanged. Raises RegistryFailed."""
        base = f"{self.url.rstrip('/')}/api/v2.0/projects"
        headers = {"Authorization": _basic_of(Credentials(user=self.user, password=self.password))}
        found = _request("HEAD", base, headers=headers, params={"project_name": project})
        if found.status_code == 200:
            return
        body = {"project_name": project, "metadata": {"public": "false"}}
        answer = _request("POST", base, headers=headers, json=body)
        if answer.status_code not in (201, 409):
            raise RegistryFailed(f"Harbor {self.url}: cannot create project {project}: {answer.status_code} {answer.text[:200]}")


def make_registry(settings: Settings, read_config: Callable[[], str | None]) -> Registry | None:
    """None if no registry is configured. Raises ConfigError."""
    name = registry_of(settings)
    return Registry(name=name, insecure=settings.registry_insecure, read_config=read_config) if name else None


def make_harbor(settings: Settings) -> Harbor | None:
    if not settings.harbor_url:
        return None
    return Harbor(url=settings.harbor_url, user=settings.harbor_user, password=settings.harbor_password)


def _basic_of(credentials: Credentials) -> str:
    return "Basic " + base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()


def _request(method: str, url: str, *, headers: Mapping[str, str], **more: Any) -> requests.Response:
    """Sends a request. Also follows redirects of a HEAD, and ignores .netrc, because the credentials come from the Secret."""
    try:
        with requests.Session() as session:
            session.trust_env = True
            session.auth = _no_auth
            return session.request(method, url, headers=dict(headers), timeout=TIMEOUT_SEC, allow_redirects=True, **more)
    except requests.RequestException as error:
        raise RegistryFailed(f"{quote(url.split('?')[0], safe=':/@')} does not answer: {type(error).__name__}") from error


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _json_of(answer: requests.Response) -> dict[str, Any]:
    try:
        parsed = answer.json()
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
