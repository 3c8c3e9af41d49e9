"""Addresses are classified as public or not. A mistake would give access to the operator's network."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.egress.addresses import AddressKind, kind_of, parse

pytestmark = pytest.mark.spec("BOX-10")

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_the_address_is_not_public(text: str) -> None:
    assert kind_of(parse(text)) is not AddressKind.PUBLIC


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"],
)
def test_the_address_is_public(text: str) -> None:
    assert kind_of(parse(text)) is AddressKind.PUBLIC


@given(st.ip_addresses(v=4))
def test_every_public_address_is_also_global_in_the_standard_library(address: ipaddress.IPv4Address) -> None:
    if kind_of(address) is AddressKind.PUBLIC:
        assert address.is_global
        assert not address.is_multicast


_NETWORKS = st.sampled_from(
    ["::/0", "::/96", "::ffff:0:0/96", "64:ff9b::/96", "2000::/3", "2001::/16", "2002::/16", "fc00::/6", "ff00::/8"]
)


@given(_NETWORKS.flatmap(lambda network: st.ip_addresses(network=network)))
def test_only_global_unicast_is_public_in_ipv6(address: ipaddress.IPv6Address) -> None:
    if kind_of(address) is not AddressKind.PUBLIC:
        return
    embedded = address.ipv4_mapped or (
        ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in ipaddress.IPv6Network("64:ff9b::/96") else None
    )
    if embedded is not None:
        assert embedded.is_global
    else:
        assert address in ipaddress.IPv6Network("2000::/3")
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None


@given(st.ip_addresses(v=4))
def test_an_embedded_ipv4_address_determines_the_kind(address: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.IPv6Address(0xFFFF << 32 | int(address))
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | int(address))
    assert kind_of(mapped) is kind_of(address)
    assert kind_of(translated) is kind_of(address)
    assert parse(str(mapped)) == address


@given(st.ip_addresses())
def test_the_spelling_of_an_address_does_not_change_its_kind(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert kind_of(parse(address.exploded)) is kind_of(parse(address.compressed)) is kind_of(address)
