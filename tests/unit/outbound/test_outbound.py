"""Names are resolved once; only checked addresses are returned."""

import socket
from collections.abc import Sequence

import pytest

from sless.domain.addresses import parse_allowed
from sless.errors import ConfigError
from sless.outbound import AddressRefused, HostUnknown, Outbound, outbound_of


def outbound(*addresses: str, allowed: Sequence[str] = ()) -> tuple[Outbound, list[tuple[str, int]]]:
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return addresses

    return Outbound(allowed=parse_allowed(allowed), resolve=resolve), asked


def test_a_name_resolves_to_one_of_its_public_addresses() -> None:
    door, asked = outbound("93.184.216.34", "2606:4700::1111")
    assert door.address_of("example.com", 443) == "93.184.216.34"
    assert asked == [("example.com", 443)]


@pytest.mark.parametrize("bad", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%lo", "64:ff9b::a00:1"])
@pytest.mark.parametrize("first", [True, False])
def test_a_name_with_any_private_address_is_refused(bad: str, first: bool) -> None:
    door, _ = outbound(*([bad, "8.8.8.8"] if first else ["8.8.8.8", bad]))
    with pytest.raises(AddressRefused, match=r"an address of evil\.example is not a public .*SLESS_OUTBOUND_ALLOW"):
        door.address_of("evil.example", 80)


def test_an_allowed_range_passes_only_at_its_port() -> None:
    door, _ = outbound("10.0.0.1", allowed=["10.0.0.0/8:5672"])
    assert door.address_of("broker.internal", 5672) == "10.0.0.1"
    with pytest.raises(AddressRefused, match=r"port 5673"):
        door.address_of("broker.internal", 5673)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "0x7f.1", "2130706433", "169.254.169.254", "[::ffff:10.0.0.1]"])
def test_an_address_literal_is_refused_without_resolving(host: str) -> None:
    door, asked = outbound("8.8.8.8")
    with pytest.raises(AddressRefused):
        door.address_of(host, 80)
    assert asked == []


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
def test_a_name_without_addresses_is_refused(error: Exception) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise error

    with pytest.raises(HostUnknown, match=r'host "nowhere" has no address: (Name|label)'):
        Outbound(resolve=resolve).address_of("nowhere", 80)
    with pytest.raises(HostUnknown, match="has no address"):
        outbound()[0].address_of("nowhere", 80)


def test_names_are_resolved_by_the_system() -> None:
    assert Outbound(allowed=parse_allowed(["127.0.0.0/8", "::1"])).address_of("localhost", 80) in ("127.0.0.1", "::1")


def test_an_invalid_setting_stops_the_server() -> None:
    assert outbound_of(["10.0.0.0/8"]).allowed == parse_allowed(["10.0.0.0/8"])
    with pytest.raises(ConfigError, match=r"SLESS_OUTBOUND_ALLOW: expected CIDR .*found 'ten'"):
        outbound_of(["ten"])
