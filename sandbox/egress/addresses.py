"""Classifies IP addresses: public, private, loopback and so on.

The classes follow IANA's IPv4 and IPv6 Special-Purpose Address Registries. They are stricter than
`ipaddress.is_global`, whose meaning differs between Python releases. IPv6 addresses are public only in 2000::/3, except
that an IPv4-mapped or NAT64 address has the kind of the IPv4 address in it.
"""

import ipaddress
from enum import StrEnum

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressKind(StrEnum):
    """The kind of an address, as named in a refusal."""

    PUBLIC = "public"
    LOOPBACK = "a loopback address"
    PRIVATE = "a private address"
    CARRIER = "an address behind a carrier's NAT"
    LINK_LOCAL = "a link-local address"
    MULTICAST = "a multicast address"
    UNSPECIFIED = "an unspecified address"
    DOCUMENTATION = "an address for documentation"
    BENCHMARK = "an address for benchmarks"
    RELAY = "an address of an IPv6 transition relay"
    CLOUD_HOST = "the cloud host's own address"
    RESERVED = "a reserved address"


_V4 = tuple(
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", AddressKind.UNSPECIFIED),
        ("10.0.0.0/8", AddressKind.PRIVATE),
        ("100.64.0.0/10", AddressKind.CARRIER),
        ("127.0.0.0/8", AddressKind.LOOPBACK),
        (
            "168.63.129.16/32",
            AddressKind.CLOUD_HOST,
        ),  # Azure's WireServer: a public address whose packets never leave the cloud host
        ("169.254.0.0/16", AddressKind.LINK_LOCAL),  # 169.254.169.254 serves cloud credentials
        ("172.16.0.0/12", AddressKind.PRIVATE),
        ("192.0.0.0/24", AddressKind.RESERVED),
        ("192.0.2.0/24", AddressKind.DOCUMENTATION),
        ("192.88.99.0/24", AddressKind.RELAY),
        ("192.168.0.0/16", AddressKind.PRIVATE),
        ("198.18.0.0/15", AddressKind.BENCHMARK),
        ("198.51.100.0/24", AddressKind.DOCUMENTATION),
        ("203.0.113.0/24", AddressKind.DOCUMENTATION),
        ("224.0.0.0/4", AddressKind.MULTICAST),
        ("240.0.0.0/4", AddressKind.RESERVED),
    )
)
_V6 = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::/128", AddressKind.UNSPECIFIED),
        ("::1/128", AddressKind.LOOPBACK),
        ("fc00::/7", AddressKind.PRIVATE),
        ("fec0::/10", AddressKind.PRIVATE),
        ("fe80::/10", AddressKind.LINK_LOCAL),
        ("ff00::/8", AddressKind.MULTICAST),
        ("64:ff9b:1::/48", AddressKind.PRIVATE),  # NAT64 for local use (RFC 8215): its target is unknown
        ("2001:db8::/32", AddressKind.DOCUMENTATION),
        ("3fff::/20", AddressKind.DOCUMENTATION),
        ("2001:2::/48", AddressKind.BENCHMARK),
        ("2001::/32", AddressKind.RELAY),  # Teredo
        ("2001::/23", AddressKind.RESERVED),
        ("2002::/16", AddressKind.RELAY),  # 6to4
    )
)
_V6_PUBLIC = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # what DNS64 returns for a public name on an IPv6-only host (RFC 6052)
_V4_BITS = 0xFFFFFFFF
# Kinds of addresses that a user's own hosts may have: listing such a host by name is enough to reach it.
_OF_HOSTS = frozenset({AddressKind.LOOPBACK, AddressKind.PRIVATE, AddressKind.CARRIER})


def parse(text: str) -> Address:
    """Parse an IP address. An IPv4-mapped IPv6 address (`::ffff:a.b.c.d`) becomes the IPv4 address.

    Raises:
        ValueError: The text is not an address.
    """
    return plain(ipaddress.ip_address(text))


def plain(address: Address) -> Address:
    """Return the IPv4 address in an IPv4-mapped IPv6 address, to which the system connects; return others unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def kind_of(address: Address) -> AddressKind:
    """Return the kind of an address. A mapped or NAT64 address has the kind of the IPv4 address in it."""
    address = plain(address)
    if isinstance(address, ipaddress.IPv4Address):
        return next((kind for network, kind in _V4 if address in network), AddressKind.PUBLIC)
    if address.scope_id is not None:
        return AddressKind.LINK_LOCAL
    if address in _NAT64:
        return kind_of(ipaddress.IPv4Address(int(address) & _V4_BITS))
    kind = next((kind for network, kind in _V6 if address in network), None)
    if kind is None:
        return AddressKind.PUBLIC if address in _V6_PUBLIC else AddressKind.RESERVED
    return kind


def may_be_a_listed_host(kind: AddressKind) -> bool:
    """Return whether listing a host by name permits addresses of this kind. Other kinds must be listed by address."""
    return kind in _OF_HOSTS
