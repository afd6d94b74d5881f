"""Which addresses sless may connect to on behalf of a tenant. Pure; `sless.outbound` resolves names and checks each address here.

Only public Internet addresses are allowed. Excluded is everything that the provider's own network might answer on: loopback, private,
link-local (metadata services), shared (100.64/10), multicast, reserved, unspecified, documentation and benchmark ranges, and every IPv6
form that embeds an IPv4 address (mapped, NAT64, 6to4, Teredo).
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

BLOCKED_4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""IPv4 ranges that tenants cannot reach: through sless itself, from functions and, with SLESS_BUILDER_EGRESS_ALLOW, from builds.
168.63.129.16 is the platform address of Azure."""
BLOCKED_6 = ("::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
"""The same for IPv6. The first three are all but 2000::/3: private, link-local and multicast addresses, mapped IPv4, NAT64."""
_BLOCKED = tuple(map(ip_network, (*BLOCKED_4, *BLOCKED_6)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A non-public range that may be reached; `port` None means any port."""

    network: Network
    port: int | None

    def covers(self, address: Address, port: int) -> bool:
        return address.version == self.network.version and address in self.network and self.port in (None, port)


def parse_allowed(texts: Iterable[str]) -> tuple[Allowed, ...]:
    """Parses `10.0.0.0/8`, `10.1.2.3:5672`, `fd00::/8`, `[fd00::/8]:443`. Raises ValueError that quotes the text."""
    return tuple(map(_allowed_of, texts))


def is_public(address: Address) -> bool:
    # A zone (`fe80::1%eth0`) only has a meaning on this machine.
    zoned = isinstance(address, IPv6Address) and address.scope_id is not None
    return not zoned and not any(address.version == network.version and address in network for network in _BLOCKED)


def may_reach(address: Address, port: int, allowed: Iterable[Allowed]) -> bool:
    return is_public(address) or any(item.covers(address, port) for item in allowed)


def find_literal(host: str) -> Address | None:
    """The address if `host` is a literal (with or without brackets, or in a form such as `127.1` or `0x7f000001`); None for a name."""
    text = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return ip_address(text)
    except ValueError:
        pass
    try:
        # Resolvers accept a trailing dot here, too.
        return IPv4Address(socket.inet_aton(text.removesuffix(".")))
    except (OSError, UnicodeError):
        return None


def _allowed_of(text: str) -> Allowed:
    network, port = _split(text.strip())
    try:
        return Allowed(network=ip_network(network), port=None if port is None else _port_of(port))
    except ValueError as error:
        raise ValueError(
            f"expected CIDR or CIDR:port, such as 10.0.0.0/8 or 10.1.2.3:5672 or [fd00::/8]:443, found {text!r} ({error})"
        ) from None


def _split(text: str) -> tuple[str, str | None]:
    """Network and port; the port is None if missing."""
    if text.startswith("["):
        network, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return text, None
        return network, rest[1:] if rest else None
    if text.count(":") == 1:
        network, _, port = text.partition(":")
        return network, port
    return text, None


def _port_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ValueError(f"{text!r} is not a port")
    return int(text)
