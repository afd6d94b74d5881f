"""The provider's configuration: the server's URL and the caller's token, and a check of both."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf.types import Unknown

from sless.client import Client, ClientError, Unreachable, connect
from sless.client.transport import Transport
from sless.terraform.failure import Failure
from sless.terraform.fields import Field, Values

ENVIRONMENT = {
    "endpoint": ("SLESS_ENDPOINT", "NUBES_ENDPOINT"),
    "token": ("SLESS_API_TOKEN",),
    "auth_check_url": ("SLESS_AUTH_CHECK_URL",),
}
FIELDS = (
    Field(name="endpoint", text="URL of the sless server. Falls back to `SLESS_ENDPOINT`, then `NUBES_ENDPOINT`."),
    Field(name="token", text="Token of the tenant. Falls back to `SLESS_API_TOKEN`.", sensitive=True),
    Field(
        name="auth_check_url",
        text="URL that checks the token before anything else: a GET with it; 401, 403 or no answer stops the run. Falls back to "
        "`SLESS_AUTH_CHECK_URL`.",
    ),
    Field(
        name="nubes_endpoint",
        text="Former name: `endpoint` when that is not set, `auth_check_url` when it is.",
        deprecated=True,
    ),
)


@dataclass(frozen=True)
class Target:
    """`auth_check_url` may be empty."""

    endpoint: str
    token: str
    auth_check_url: str


class Connection:
    """The configured server. Each thread has its own client, as an HTTP session belongs to one thread."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._target: Target | None = None
        self._clients = threading.local()
        self.hides_write_only = False
        """Whether this version of Terraform does not store write-only attributes."""

    def configure(self, config: Values) -> None:
        """Raises Failure or ClientError. A configuration with unknown values, as during a plan, is not checked."""
        if any(config.get(item.name) is Unknown for item in FIELDS):
            self._target = None
            return
        target = target_of(config, self._environ)
        if target.auth_check_url:
            _check_token(target)
        with connect(target.endpoint, target.token) as client:
            client.whoami()
            client.ensure_namespace()
        self._target = target

    def client(self) -> Client:
        """Raises Failure while the provider is not configured."""
        target = self._target
        if target is None:
            raise Failure("Provider not configured", "The provider's `endpoint` or `token` is not known yet.")
        if getattr(self._clients, "target", None) is not target:
            self._clients.target, self._clients.client = target, connect(target.endpoint, target.token)
        return self._clients.client


def target_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> Target:
    """Configuration first, then the environment. Raises Failure for what is missing."""
    found = {name: config.get(name) or _first(environ, names) for name, names in ENVIRONMENT.items()}
    former = config.get("nubes_endpoint")
    if former and not found["endpoint"]:
        found["endpoint"] = former
    elif former and not found["auth_check_url"]:
        found["auth_check_url"] = former
    for name in ("endpoint", "token"):
        if not found[name]:
            raise Failure(f"Missing {name}", f"Set the provider's `{name}` or {ENVIRONMENT[name][0]}.", (name,))
    return Target(**found)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _check_token(target: Target) -> None:
    """Raises Failure if the address rejects the token or does not respond; any other answer counts as accepted."""
    path = ("auth_check_url",)
    try:
        answer = Transport(target.auth_check_url, target.token).answer("GET", "")
    except Unreachable as error:
        raise Failure("Cannot check the token", f"{error}.", path) from error
    except ClientError as error:
        raise Failure("Cannot check the token", str(error), path) from error
    if answer.status in (401, 403):
        raise Failure(
            "Token refused", f"{target.auth_check_url} answered {answer.status}: the token is invalid or has expired.", ("token",)
        )
