"""Public URLs of functions, and which host serves what.

Without a host of their own, functions share that of the console. With SLESS_FUNCTIONS_URL they share another one; with a wildcard in it, or
SLESS_INGRESS_HOST, each has its own, `{name}-{namespace}.DOMAIN`.
"""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from sless.config import Settings
from sless.errors import ConfigError

_WILDCARD = "*."


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionUrls:
    """`template` has {namespace} and {name}. Each host below `domain` serves a single function. `shared_host` serves all functions. With
    `exclusive`, no other host serves any function. `console_url` serves the rest."""

    template: str
    domain: str = ""
    shared_host: str = ""
    exclusive: bool = False
    console_url: str = ""

    def of(self, namespace: str, name: str) -> str:
        return self.template.replace("{namespace}", namespace).replace("{name}", name)


def function_urls_of(settings: Settings) -> FunctionUrls:
    """Raises ConfigError for an invalid SLESS_FUNCTIONS_URL."""
    console_url = settings.base_url()
    if settings.functions_url:
        url = _parsed(settings.functions_url, console_url)
        host = url.hostname or ""
        if host.startswith(_WILDCARD):
            template = f"{url.scheme}://{{name}}-{{namespace}}.{url.netloc.removeprefix(_WILDCARD)}"
            return FunctionUrls(template=template, domain=host.removeprefix(_WILDCARD), exclusive=True, console_url=console_url)
        template = f"{url.scheme}://{url.netloc}/fn/{{namespace}}/{{name}}"
        return FunctionUrls(template=template, shared_host=host, exclusive=True, console_url=console_url)
    if settings.ingress_host and not settings.external_url:
        scheme = "https" if settings.ingress_tls_secret else "http"
        template = f"{scheme}://{{name}}-{{namespace}}.{settings.ingress_host}"
        return FunctionUrls(template=template, domain=settings.ingress_host, console_url=console_url)
    return FunctionUrls(template=f"{console_url}/fn/{{namespace}}/{{name}}", console_url=console_url)


def _parsed(text: str, console_url: str) -> SplitResult:
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
    except ValueError as error:
        raise _invalid(text) from error
    if url.scheme not in ("http", "https") or not host or url.path not in ("", "/") or url.query or url.fragment or "@" in url.netloc:
        raise _invalid(text)
    if "*" in host.removeprefix(_WILDCARD):
        raise _invalid(text)
    # Another port is not enough: browsers send cookies to all ports of a host.
    if host == urlsplit(console_url).hostname:
        raise ConfigError(f"SLESS_FUNCTIONS_URL: expected another host than that of the console ({console_url}), found {host}")
    return url


def _invalid(text: str) -> ConfigError:
    return ConfigError(f"SLESS_FUNCTIONS_URL: expected https://HOST or https://*.DOMAIN without a path, found {text!r}")
