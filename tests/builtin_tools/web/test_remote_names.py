"""Hosts that a proxy resolves are refused if they are private by their name, in every spelling."""

import ipaddress
import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.download_rules import is_public
from builtin_tools.web.route.remote_names import check_remote_name
from builtin_tools.web.route.routes import Route
from engine.contract.failure import ToolFailure

pytestmark = pytest.mark.spec("WEB-1")
TOR = Route("tor")
SPELLINGS: dict[str, Callable[[ipaddress.IPv4Address], str]] = {
    "number": lambda address: str(int(address)),
    "hexadecimal": lambda address: hex(int(address)),
    "octal parts": lambda address: ".".join(f"0{part:o}" for part in address.packed),
    "hexadecimal parts": lambda address: ".".join(hex(part) for part in address.packed),
    "two parts": lambda address: f"{address.packed[0]}.{int(address) & 0xFFFFFF}",
    "three parts": lambda address: f"{address.packed[0]}.{address.packed[1]}.{int(address) & 0xFFFF}",
}


def accepted(host: str, route: Route = TOR, allow: tuple[str, ...] = ()) -> bool:
    try:
        check_remote_name(host, route, allow)
    except ToolFailure as failure:
        return failure.reason != "address_refused"
    return True


@given(st.ip_addresses())
def test_an_address_is_accepted_exactly_if_it_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert accepted(str(address)) == is_public(address)
    assert accepted(f"{address}.") == is_public(address)


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(address=st.ip_addresses(v=4))
def test_no_other_spelling_of_an_address_is_accepted(spelling: str, address: ipaddress.IPv4Address) -> None:
    host = SPELLINGS[spelling](address)
    assert socket.inet_aton(host) == address.packed  # resolvers accept it
    assert not accepted(host) or host == str(address)


@pytest.mark.parametrize(
    "host",
    ["example.org", "xn--bcher-kva.example.org", "a-b.example.org", "local.example.org", "1.example.org", "x.onion"],
)
def test_public_names_are_accepted(host: str) -> None:
    assert accepted(host)


@given(st.text(max_size=300))
def test_whatever_is_accepted_is_a_name_with_a_domain_or_an_address(host: str) -> None:
    if accepted(host):
        assert "." in host.rstrip(".") or ":" in host
        assert not any(each in host for each in "/@ \r\n\0#?%")


def test_a_person_may_allow_a_private_name() -> None:
    assert accepted("wiki.internal", allow=("wiki.internal",))
    assert accepted("wiki", Route("http://proxy:3128", named=True))
    assert not accepted("wiki", Route("tor", named=True))
    assert not accepted("wiki", Route("http://proxy:3128"))
