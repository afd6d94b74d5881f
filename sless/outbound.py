"""Resolves and checks addresses to which sless connects for a tenant: callback URLs and brokers.

Callers connect to exactly the address that they get here. A name is resolved once, all its addresses are checked, and one is returned. So
DNS rebinding (another answer a moment later) has no effect, because the name is not resolved again.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from sless.domain.addresses import Address, Allowed, find_literal, may_reach, parse_allowed
from sless.errors import ConfigError

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host name. Raises OSError."""


class OutboundError(Exception):
    """The text is for the tenant."""


class AddressRefused(OutboundError):
    """The host has an address that is not allowed."""


class HostUnknown(OutboundError):
    """The name currently does not resolve."""


def resolve(host: str, port: int) -> list[str]:
    """Uses the system's resolver; blocks."""
    return [str(item[4][0]) for item in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """`allowed`: ranges in addition to the public ones."""

    allowed: tuple[Allowed, ...] = ()
    resolve: Resolve = resolve

    def address_of(self, host: str, port: int) -> str:
        """An address of `host` to connect to. Blocks. Raises HostUnknown, AddressRefused."""
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
            # Leave out the address, because the tenant must not learn names and addresses of the internal network.
            known = host if str(address) == host else f"an address of {host}"
            raise AddressRefused(
                f"{known} is not a public address; this server connects only to those and to SLESS_OUTBOUND_ALLOW (port {port})"
            )


def outbound_of(allowed: Iterable[str]) -> Outbound:
    """The ranges of SLESS_OUTBOUND_ALLOW. Raises ConfigError."""
    try:
        return Outbound(allowed=parse_allowed(allowed))
    except ValueError as error:
        raise ConfigError(f"SLESS_OUTBOUND_ALLOW: {error}") from error
