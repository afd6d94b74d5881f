"""Decides where sless may connect on behalf of a tenant: callback URLs and brokers.

Callers ask for an address and connect to exactly that address. A name is resolved once, all its addresses are checked, and one is
returned. Nothing resolves the name again, so a different answer a moment later (DNS rebinding) has no effect.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from sless.domain.addresses import Address, Allowed, find_literal, may_reach, parse_allowed
from sless.errors import ConfigError

Resolve = Callable[[str, int], Sequence[str]]
"""Addresses of a host name. Raises OSError."""


class OutboundError(Exception):
    """The text is for the tenant."""


class AddressRefused(OutboundError):
    """The address is not allowed."""


class HostUnknown(OutboundError):
    """The name does not resolve at the moment."""


def resolve(host: str, port: int) -> list[str]:
    """Uses the system resolver; blocks."""
    return [str(item[4][0]) for item in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """`allowed` are ranges in addition to public addresses."""

    allowed: tuple[Allowed, ...] = ()
    resolve: Resolve = resolve

    def address_of(self, host: str, port: int) -> str:
        """Returns an address of `host` to connect to. Blocks while resolving. Raises HostUnknown or AddressRefused."""
        literal = find_literal(host)
        found = [literal] if literal is not None else self._resolved(host, port)
        for address in found:
            self._check(host, address, port)
        return str(found[0])

    def _resolved(self, host: str, port: int) -> list[Address]:
        try:
            found = [ip_address(text) for text in self.resolve(host, port)]
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise HostUnknown(f'host "{host}" has no address: {reason}') from error
        if not found:
            raise HostUnknown(f'host "{host}" has no address')
        return found

    def _check(self, host: str, address: Address, port: int) -> None:
        if not may_reach(address, port, self.allowed):
            known = f"{host} (its address is {address})" if str(address) != host else host
            raise AddressRefused(f"{known} is not a public address; expected one, or an address in SLESS_OUTBOUND_ALLOW (port {port})")


def outbound_of(allowed: Iterable[str]) -> Outbound:
    """From SLESS_OUTBOUND_ALLOW. Raises ConfigError."""
    try:
        return Outbound(allowed=parse_allowed(allowed))
    except ValueError as error:
        raise ConfigError(f"SLESS_OUTBOUND_ALLOW: {error}") from error
