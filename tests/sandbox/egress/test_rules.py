"""Lists of destinations are validated, and converted to outlets and names in a box."""

import pytest

from sandbox.contract import Destination, Job, SandboxError
from sandbox.egress import plan
from sandbox.egress.addresses import parse
from sandbox.egress.rules import MAX_DESTINATIONS, EgressRules, canonical_host, checked
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = pytest.mark.spec("BOX-10")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("API.Example.COM.", "api.example.com"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("localhost", "localhost"),
        ("1.2.3.4", "1.2.3.4"),
        ("2606:4700:0:0::1111", "2606:4700::1111"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
    ],
)
def test_a_host_has_one_canonical_spelling(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical


@pytest.mark.parametrize(
    "host",
    [
        "*", "*.example.com", "api.*.com", "", ".", "a..b", "-a.com", "a-.com", "a b", "a/b", "a\nb", "münchen.de",
        "2130706433", "127.1", "0x7f.1", "0x7f000001", "1.2.3", "1.2.3.4.5", "example.1", "fe80::1%eth0", "user@host",
        "a" * 64 + ".com", "a." * 130 + "com",
    ],
)  # fmt: skip
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical_host(host)


def test_a_list_is_limited_and_without_duplicates() -> None:
    twice = [Destination("a.test", 443), Destination("A.test.", 443), Destination("a.test", 80)]
    assert checked(twice) == (Destination("a.test", 443), Destination("a.test", 80))
    most = [Destination(f"h{i}.test", 443) for i in range(MAX_DESTINATIONS)]
    assert len(checked(most)) == MAX_DESTINATIONS
    with pytest.raises(SandboxError, match="33 destinations; the maximum is 32"):
        checked([*most, Destination("one.more", 443)])
    with pytest.raises(SandboxError, match="not a port"):
        checked([Destination("a.test", 0)])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "fe80::1"])
def test_an_address_that_no_host_can_have_is_refused(host: str) -> None:
    with pytest.raises(SandboxError, match="no host has such an address"):
        checked([Destination(host, 80)])


async def test_a_bad_list_is_refused_before_anything_runs() -> None:
    async with NamespaceSandbox() as box:
        with pytest.raises(SandboxError, match="wildcard"):
            await box.run(Job(code="1", egress=(Destination("*.example.com", 443),)))


def test_every_name_gets_its_own_address_and_a_listed_address_is_kept() -> None:
    made = plan.make(
        checked(
            [
                Destination("a.test", 443),
                Destination("a.test", 80),
                Destination("b.test", 443),
                Destination("1.2.3.4", 443),
                Destination("2606:4700::1111", 443),
                Destination("localhost", 8080),
            ]
        )
    )
    assert made is not None
    assert made.listen == [
        (plan.PROXY_ADDRESS, plan.PROXY_PORT),
        ("127.0.1.1", 443),
        ("127.0.1.1", 80),
        ("127.0.1.2", 443),
        ("1.2.3.4", 443),
        ("2606:4700::1111", 443),
        ("127.0.0.1", 8080),
    ]
    assert made.hosts.endswith("127.0.1.1 a.test\n127.0.1.2 b.test\n")
    assert plan.environment()["https_proxy"] == "http://127.0.2.1:3128"


def test_a_name_is_not_mapped_to_an_address_that_is_itself_listed() -> None:
    made = plan.make((Destination("a.test", 80), Destination("127.0.1.1", 80)))
    assert made is not None
    assert made.listen[1:] == [("127.0.1.2", 80), ("127.0.1.1", 80)]


def test_nothing_is_set_up_for_an_empty_list() -> None:
    assert plan.make(()) is None


class TestPrivateAddresses:
    @pytest.mark.parametrize("address", ["10.0.0.5", "127.0.0.1", "100.64.1.1", "fd00::5", "::1"])
    def test_a_listed_host_may_have_a_private_address(self, address: str) -> None:
        rules = EgressRules(allow_private=frozenset({"Db.Internal"}))
        assert rules.objection("db.internal", parse(address)) == ""
        assert rules.objection("other.internal", parse(address)) != ""

    @pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "168.63.129.16"])
    def test_a_listed_host_may_not_have_other_kinds_of_addresses(self, address: str) -> None:
        assert EgressRules(allow_private=frozenset({"db.internal"})).objection("db.internal", parse(address)) != ""

    def test_a_listed_address_is_allowed_for_every_destination_at_it_and_no_other(self) -> None:
        rules = EgressRules(allow_private=frozenset({"169.254.169.254", "fd00:0::1"}))
        assert rules.objection("any.test", parse("169.254.169.254")) == ""
        assert rules.objection("any.test", parse("fd00::1")) == ""
        assert rules.objection("any.test", parse("169.254.169.253")) != ""
        assert rules.objection("any.test", parse("::ffff:169.254.169.254")) == ""

    def test_a_wildcard_cannot_be_listed(self) -> None:
        with pytest.raises(ValueError, match="wildcard"):
            EgressRules(allow_private=frozenset({"*.internal"}))
