"""Image references. Pure."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sless.config import Settings
from sless.domain.ports import BuildSpec
from sless.errors import ConfigError

_HOST = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?")
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com"})
_DOCKER_HUB_API = "registry-1.docker.io"
_DOCKER_HUB_CREDENTIALS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryName:
    """`host` is `host[:port]`; `path` is the prefix of our repositories, such as the user in `host/user`, followed by the project."""

    host: str
    path: str
    project: str = ""

    @property
    def api_host(self) -> str:
        return _DOCKER_HUB_API if self.host in _DOCKER_HUB else self.host

    @property
    def credential_keys(self) -> tuple[str, ...]:
        """Keys under which a dockerconfigjson may have the credentials, the most specific first."""
        if self.host in _DOCKER_HUB:
            return _DOCKER_HUB_CREDENTIALS
        whole = f"{self.host}/{self.path}" if self.path else self.host
        return tuple(dict.fromkeys((whole, self.host, f"https://{self.host}", f"https://{self.host}/v1/", f"https://{self.host}/v2/")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`host/repository:tag`"""

    host: str
    repository: str
    tag: str

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


def registry_of(settings: Settings) -> RegistryName | None:
    """None if no registry is configured. Raises ConfigError naming the wrong setting."""
    given = settings.registry_host.strip().removeprefix("https://").removeprefix("http://").strip("/")
    if not given:
        return None
    host, _, user = given.partition("/")
    if not _HOST.fullmatch(host):
        raise ConfigError(f"SLESS_REGISTRY_HOST: expected host[:port] or host/user, found {settings.registry_host!r}")
    project = settings.registry_project.strip("/")
    path = "/".join(filter(None, [user, project]))
    for part in filter(None, path.split("/")):
        if not _PART.fullmatch(part):
            setting = "SLESS_REGISTRY_PROJECT" if part in project.split("/") else "SLESS_REGISTRY_HOST"
            raise ConfigError(f"{setting}: expected lower-case letters, digits and -._ between slashes, found {part!r}")
    return RegistryName(host=host, path=path, project=project.partition("/")[0])


def qualified_of(image: str) -> str:
    """Adds the default host as a kubelet does, because buildah does not: `golang:1.23` → `docker.io/library/golang:1.23`."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def repository_of(registry: RegistryName, namespace: str, name: str) -> str:
    return "/".join(filter(None, [registry.path, f"{namespace}-{name}"]))


def tag_of(spec: BuildSpec, recipe: Mapping[str, str]) -> str:
    """Equal tags mean equal images. The tag is a hash of the uploaded content, then of everything else in the image: `recipe` (the
    Dockerfile and its arguments), entrypoint and build_env. A rebuild appends the number of its version."""
    content = re.search(r"[0-9a-f]{64}", spec.code_key)
    digest = hashlib.sha256()
    for part in (spec.runtime, spec.entrypoint, repr(sorted(spec.build_env.items())), repr(sorted(recipe.items()))):
        digest.update(hashlib.sha256(part.encode()).digest())
    first = content[0] if content else hashlib.sha256(spec.code_key.encode()).hexdigest()
    fresh = f"-v{spec.version}" if spec.rebuild else ""
    return f"{first[:16]}-{digest.hexdigest()[:12]}{fresh}"


def find_reference(artifact: str, registry: RegistryName) -> Reference | None:
    """Parses an artifact. None if it is not an image in this registry, since we never delete images elsewhere."""
    prefix = f"{registry.host}/"
    repository, colon, tag = artifact.removeprefix(prefix).rpartition(":")
    if not artifact.startswith(prefix) or not colon or "/" in tag:
        return None
    return Reference(host=registry.host, repository=repository, tag=tag)
