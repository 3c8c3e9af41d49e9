"""All addresses of a name are checked at each lookup, and only checked addresses are connected to."""

import asyncio
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import Destination
from sandbox.egress.addresses import AddressKind, kind_of, parse
from sandbox.egress.resolve import NameNotResolved, Refused, SystemResolver, pin
from sandbox.egress.rules import EgressRules
from tests.sandbox.egress.parts import Names
from tests.sandbox.egress.test_addresses import NOT_PUBLIC

pytestmark = pytest.mark.spec("BOX-10")
API = Destination("api.test", 443)
RULES = EgressRules()


async def _pinned(*answers: str, rules: EgressRules = RULES) -> list[str]:
    return [str(address) for address in await pin(API, rules, Names({"api.test": [list(answers)]}))]


async def test_public_answers_are_pinned_in_their_order() -> None:
    assert await _pinned("8.8.8.8", "2606:4700::1111", "8.8.8.8") == ["8.8.8.8", "2606:4700::1111"]
    assert await _pinned("::ffff:8.8.8.8") == ["8.8.8.8"]


@pytest.mark.parametrize("answer", NOT_PUBLIC)
@pytest.mark.parametrize("others", [(), ("8.8.8.8",)])
async def test_one_address_that_is_not_public_causes_a_refusal(answer: str, others: tuple[str, ...]) -> None:
    with pytest.raises(Refused, match=r"api\.test is at"):
        await _pinned(*others, answer)


@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=4))
def test_only_public_addresses_are_pinned(answers: list[str]) -> None:
    async def judged() -> list[str]:
        try:
            return await _pinned(*answers)
        except Refused:
            return []

    pinned = asyncio.run(judged())
    assert all(kind_of(parse(address)) is AddressKind.PUBLIC for address in pinned)
    assert bool(pinned) == all(kind_of(parse(answer)) is AddressKind.PUBLIC for answer in answers)


async def test_each_lookup_is_checked_again() -> None:
    names = Names({"api.test": [["8.8.8.8"], ["127.0.0.1"]]})
    assert [str(a) for a in await pin(API, RULES, names)] == ["8.8.8.8"]
    with pytest.raises(Refused, match="loopback"):
        await pin(API, RULES, names)


@pytest.mark.parametrize("answers", [["not an address"], ["127.1"], ["8.8.8.8", "0x7f.1"], ["8.8.8.8"] * 0])
async def test_an_answer_that_is_not_an_address_is_refused(answers: list[str]) -> None:
    with pytest.raises((Refused, NameNotResolved)):
        await _pinned(*answers)


async def test_too_many_answers_are_refused() -> None:
    with pytest.raises(Refused, match="17 addresses"):
        await _pinned(*(f"8.8.8.{i}" for i in range(17)))


async def test_a_literal_address_is_checked_without_a_lookup() -> None:
    names = Names()
    with pytest.raises(Refused):
        await pin(Destination("10.0.0.1", 80), RULES, names)
    assert [str(a) for a in await pin(Destination("8.8.8.8", 80), RULES, names)] == ["8.8.8.8"]
    assert names.asked == []


async def test_a_name_without_an_address_says_so() -> None:
    with pytest.raises(NameNotResolved, match="does not resolve"):
        await pin(API, RULES, Names())


async def test_a_resolver_that_never_answers_times_out() -> None:
    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(NameNotResolved, match="within"):
        await pin(API, EgressRules(resolve_s=0.01), silent)


async def test_the_system_resolver_knows_localhost_and_it_is_refused() -> None:
    resolver = SystemResolver()
    try:
        assert set(await resolver("localhost", 80)) <= {"127.0.0.1", "::1"}
        with pytest.raises(Refused, match="loopback"):
            await pin(Destination("localhost", 80), RULES, resolver)
        for number in ("2130706433", "127.1", "0x7f.0.0.1"):  # getaddrinfo accepts these as addresses
            with pytest.raises((Refused, NameNotResolved)):
                await pin(Destination(number, 80), RULES, resolver)
    finally:
        resolver.close()


async def test_a_public_address_of_this_machine_is_refused() -> None:
    """Connect to this machine's own address, as on a server with a public one: its services would trust the box."""
    from sandbox.egress.resolve import _is_this_machine

    assert _is_this_machine(parse("127.0.0.1"))
    assert not _is_this_machine(parse("192.0.2.77"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
        except OSError:
            return  # a machine without a route has no such address
        assert _is_this_machine(parse(probe.getsockname()[0]))
