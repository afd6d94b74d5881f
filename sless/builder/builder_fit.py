"""Settings of builder pods and their namespace."""

import json
import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from sless.builder.references import RegistryName, registry_of
from sless.config import Settings
from sless.domain.addresses import Allowed, parse_allowed
from sless.domain.durations import Durations
from sless.errors import ConfigError
from sless.kube.pods import Placement, placement_of

Json = dict[str, Any]

IMAGES = {
    # The original kaniko was archived in June 2025; this fork is maintained and publishes images.
    "kaniko": "ghcr.io/osscontainertools/kaniko:v1.28.5",
    "buildah": "quay.io/buildah/stable:v1.43.0",
}
_QUANTITY = re.compile(r"(\d+)([A-Za-z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderFit:
    """`images` by runtime; `push_secret` and `pull_secret` (for base images) name dockerconfigjson Secrets in sless's own namespace ("" for
    none); `insecure_registry` is a registry without TLS ("" for none); `pod` is merged over the spec of builder pods."""

    installation: str
    namespace: str
    pod_namespace: str
    builder: str
    image: str
    images: dict[str, str]
    args: tuple[str, ...] = ()
    registry: RegistryName | None = None
    push_secret: str = ""
    pull_secret: str = ""
    insecure_registry: str = ""
    memory: str = "2Gi"
    cpu: str = "2"
    at_once: int = 2
    timeout_sec: int = 300
    egress_allow: tuple[Allowed, ...] = ()
    addresses: tuple[Allowed, ...] = ()
    """Private addresses of the registry or of S3 in the settings."""
    service_namespaces: tuple[str, ...] = ()
    """Namespaces of Services in the settings."""
    pod: Json = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)
    placement: Placement = field(default_factory=Placement)
    """Nodes for the trial import: the same as for the function."""


def builder_fit_of(settings: Settings, installation: str, durations: Durations | None = None) -> BuilderFit:
    """Raises ConfigError naming the wrong setting."""
    registry = registry_of(settings)
    return BuilderFit(
        installation=installation,
        namespace=settings.builder_namespace or f"{settings.pod_namespace}-builds",
        pod_namespace=settings.pod_namespace,
        builder=settings.builder,
        image=settings.builder_image or IMAGES[settings.builder],
        images={
            "python3.11": settings.runtime_image_python311,
            "nodejs20": settings.runtime_image_nodejs20,
            "go1.23": settings.runtime_image_go123,
        },
        args=settings.builder_args,
        registry=registry,
        push_secret=settings.registry_secret,
        pull_secret=settings.builder_pull_secret,
        insecure_registry=registry.host if registry and settings.registry_insecure else "",
        memory=_quantity(settings.builder_memory, "SLESS_BUILDER_MEMORY"),
        cpu=_quantity(settings.builder_cpu, "SLESS_BUILDER_CPU"),
        at_once=settings.builds_at_once,
        timeout_sec=settings.build_timeout_sec,
        egress_allow=_allowed_of(settings),
        addresses=tuple(filter(None, map(_address_of, _hosts_of(settings)))),
        service_namespaces=tuple(sorted(filter(None, map(_service_namespace_of, _hosts_of(settings))))),
        pod=_pod_of(settings.builder_pod),
        durations=durations or Durations(),
        placement=placement_of(settings),
    )


def times(quantity: str, factor: int) -> str:
    """`2Gi` × 3 → `6Gi`."""
    found = _QUANTITY.fullmatch(quantity)
    assert found is not None, quantity
    return f"{int(found[1]) * factor}{found[2]}"


def _quantity(text: str, setting: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise ConfigError(f"{setting}: expected a whole number with an optional unit such as 2Gi or 500m, found {text!r}")
    return text


def _allowed_of(settings: Settings) -> tuple[Allowed, ...]:
    try:
        return parse_allowed(settings.builder_egress_allow)
    except ValueError as error:
        raise ConfigError(f"SLESS_BUILDER_EGRESS_ALLOW: {error}") from error


def _hosts_of(settings: Settings) -> set[str]:
    """Hosts to which builds connect besides package indexes."""
    given = (settings.registry_host, settings.s3_endpoint, settings.harbor_url)
    return {urlsplit(text if "://" in text else f"//{text}").hostname or "" for text in given if text}


def _address_of(host: str) -> Allowed | None:
    try:
        return Allowed(network=ip_network(host), port=None)
    except ValueError:
        return None


def _service_namespace_of(host: str) -> str:
    """The namespace in `name.namespace.svc…`; else ""."""
    labels = host.split(".")
    return labels[1] if len(labels) >= 3 and labels[2] == "svc" else ""


def _pod_of(text: str) -> Json:
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"SLESS_BUILDER_POD: expected a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"SLESS_BUILDER_POD: expected a JSON object, found {text[:100]!r}")
    return found
