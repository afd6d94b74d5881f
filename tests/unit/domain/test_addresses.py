"""Public addresses, allow-lists and parsing of hosts."""

from ipaddress import ip_address, ip_network

import pytest

from sless.domain.addresses import Allowed, find_literal, is_public, may_reach, parse_allowed

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "172.15.0.1",
    "172.32.0.1",
    "223.255.255.1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "2003::1",
]
NOT_PUBLIC = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.9", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.1", "198.51.100.7", "203.0.113.7",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1",
    "2001::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1",
    "168.63.129.16", "fd00:ec2::254", "fe80::1%eth0", "fec0::1", "ff02::1", "2606:4700::1111%1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    ("text", "network", "port"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", None),
        (" 10.1.2.3 ", "10.1.2.3/32", None),
        ("10.1.2.3:5672", "10.1.2.3/32", 5672),
        ("127.0.0.0/8:80", "127.0.0.0/8", 80),
        ("fd00::/8", "fd00::/8", None),
        ("::1", "::1/128", None),
        ("[::1]", "::1/128", None),
        ("[fd00::/8]:443", "fd00::/8", 443),
    ],
)
def test_allow_list_entries_are_parsed(text: str, network: str, port: int | None) -> None:
    assert parse_allowed([text]) == (Allowed(network=ip_network(network), port=port),)


@pytest.mark.parametrize(
    "text", ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:65536", "10.0.0.0/8:x",
             "[::1]:", "[::1]x", "[::1", "::1:x"]
)  # fmt: skip
def test_the_error_names_the_invalid_entry(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected CIDR or CIDR:port.*found"):
        parse_allowed([text])


@pytest.mark.parametrize(
    ("address", "port", "passes"),
    [
        ("8.8.8.8", 80, True),
        ("10.9.9.9", 80, True),
        ("11.0.0.1", 1, True),
        ("127.0.0.1", 8080, True),
        ("127.0.0.1", 8081, False),
        ("fd00::1", 443, True),
        ("fe80::1", 443, False),
        ("::ffff:10.9.9.9", 80, False),
        ("192.168.0.1", 80, False),
    ],
)
def test_allowed_addresses_and_ports(address: str, port: int, passes: bool) -> None:
    allowed = parse_allowed(["10.0.0.0/8", "127.0.0.1:8080", "fd00::/8"])
    assert may_reach(ip_address(address), port, allowed) is passes


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("10.0.258", "10.0.1.2"),
    ],
)
def test_address_literals_in_any_spelling(host: str, address: str) -> None:
    assert find_literal(host) == ip_address(address)


@pytest.mark.parametrize("host", ["example.com", "localhost", "1.2.3.4.5", "1.2.3.4.example.com", "", "ö.example", "256.1.1.1", "0x7g"])
def test_names_are_not_literals(host: str) -> None:
    assert find_literal(host) is None
