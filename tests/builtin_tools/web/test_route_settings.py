"""The settings of routes, the route of each host, and what doctor says about them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from builtin_tools.web.checks import checks
from builtin_tools.web.route.routes import Routes
from builtin_tools.web.settings import WebSettings
from engine.app.doctor import DoctorCheck
from engine.app.home import Home
from engine.app.settings import Settings
from tests.builtin_tools.web.socks_server import serving_socks

pytestmark = pytest.mark.spec("WEB-1")
LABELS = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


def examined(home: Path, **web: Any) -> list[DoctorCheck]:
    return list(checks(Home(home), Settings(packs={"web": web})))


def test_everything_goes_through_tor_unless_configured_otherwise() -> None:
    assert WebSettings().route == "tor"
    assert Routes().of("example.org").is_tor


@pytest.mark.parametrize(
    ("host", "route"),
    [
        ("example.org", "direct"),
        ("EXAMPLE.org.", "direct"),
        ("www.example.org", "http://a:1"),
        ("deep.www.example.org", "http://a:1"),
        ("api.example.org", "socks5h://b:2"),
        ("notexample.org", "tor"),
        ("org", "tor"),
        ("example.org.evil.net", "tor"),
    ],
)
def test_the_most_specific_name_decides(host: str, route: str) -> None:
    hosts = {"example.org": "direct", ".example.org": "http://a:1", "api.example.org": "socks5h://b:2"}
    assert Routes("tor", hosts).of(host).setting == route


@given(NAMES, NAMES)
def test_a_domain_never_gives_its_route_to_a_host_outside_of_it(domain: str, host: str) -> None:
    inside = host == domain or host.endswith(f".{domain}")
    assert (Routes("tor", {f".{domain}": "direct"}).of(host).is_direct) == inside


def test_the_name_of_a_route_has_no_password() -> None:
    assert Routes("http://ada:secret@proxy:3128").of("example.org").name == "proxy http://proxy:3128"


@pytest.mark.parametrize(
    "wrong",
    [
        {"route": "vpn"},
        {"route": "http://proxy"},
        {"route": "socks5://proxy:1080"},  # the name would be resolved here
        {"route": "ftp://proxy:21"},
        {"route": "http://proxy:99999"},
        {"hosts": {"http://example.org/": "direct"}},
        {"hosts": {"*.example.org": "direct"}},
        {"tor": {"socks": "localhost:9050"}},
        {"tor": {"socks": "127.0.0.1"}},
        {"unknown": 1},
    ],
)
def test_settings_that_would_be_misread_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WebSettings.model_validate(wrong)


def test_doctor_names_the_routes_without_passwords(tmp_path: Path) -> None:
    (route,) = examined(tmp_path, route="direct", hosts={"wiki": "http://ada:secret@proxy:3128"})
    assert (route.state, route.detail) == ("ok", "direct; wiki: proxy http://proxy:3128")


def test_doctor_says_how_to_install_tor_if_it_is_missing(tmp_path: Path) -> None:
    _, tor = examined(tmp_path, tor={"command": "no-such-tor"})
    assert (tor.state, tor.required) == ("missing", False)
    assert "apt install tor" in tor.remedy


def test_doctor_reports_wrong_settings(tmp_path: Path) -> None:
    (found,) = examined(tmp_path, route="vpn")
    assert found.bad


async def test_doctor_checks_a_running_tor_by_a_handshake(tmp_path: Path) -> None:
    async with serving_socks() as socks:
        _, tor = await asyncio.to_thread(examined, tmp_path, tor={"socks": socks.address})
        assert (tor.state, tor.detail) == ("ok", f"running at {socks.address}")
    _, tor = await asyncio.to_thread(examined, tmp_path, tor={"socks": socks.address})
    assert tor.state == "broken"
    assert not (tmp_path / "tor").exists()
