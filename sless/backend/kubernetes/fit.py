"""Settings that shape the objects of functions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from sless.config import Settings
from sless.domain.runtimes import RUNTIMES
from sless.kube.pods import Placement, placement_of
from sless.kube.stamp import hash_of

FORMAT = 1
"""Increase it to rewrite all objects although no setting has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressFit:
    """Ingresses are in the namespace of sless's own Service, because an Ingress can only refer to Services of its namespace."""

    host: str
    class_name: str
    tls_secret: str
    namespace: str
    service: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`images`: by runtime, for small code. `address`: where runtimes listen; "" is their default, IPv4 only."""

    installation: str
    placement: Placement = field(default_factory=Placement)
    images: Mapping[str, str] = field(default_factory=dict)
    ingress: IngressFit | None = None
    address: str = ""
    template_hash: str = field(init=False)
    """Hash that changes when the same function would result in different objects."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "template_hash", "")
        object.__setattr__(self, "template_hash", hash_of([FORMAT, asdict(self)]))


def fit_of(settings: Settings, installation: str) -> Fit:
    """Raises ConfigError naming the wrong setting."""
    return Fit(
        installation=installation,
        placement=placement_of(settings),
        images={name: image_of(settings, name) for name in RUNTIMES},
        ingress=_ingress_of(settings),
        # If sless itself must listen on IPv6, pods have only IPv6 addresses.
        address="::" if ":" in settings.host else "",
    )


def image_of(settings: Settings, runtime: str) -> str:
    """SLESS_RUNTIME_IMAGE_… of `python3.11`, `nodejs20` or `go1.23`."""
    return str(getattr(settings, "runtime_image_" + runtime.replace(".", "")))


def _ingress_of(settings: Settings) -> IngressFit | None:
    if not settings.ingress_host or settings.external_url or settings.functions_url:
        return None
    url = urlsplit(settings.internal_url or f"http://sless.{settings.pod_namespace}.svc:{settings.port}")
    return IngressFit(
        host=settings.ingress_host,
        class_name=settings.ingress_class,
        tls_secret=settings.ingress_tls_secret,
        namespace=settings.pod_namespace,
        service=(url.hostname or "sless").split(".")[0],
        port=url.port or 80,
    )
