"""Requests leave over the configured route only, within limits of addresses, size, time and rate."""

import gzip
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from engine.app.home import Home
from engine.contract.failure import FailureClass
from sandbox.contract import SandboxError
from sandbox.namespace.backend import NamespaceSandbox
from tests.builtin_tools.http_server import Answer, Seen, reply, serving
from tests.builtin_tools.web.route_parts import refused, web_client
from tests.builtin_tools.web.socks_server import serving_socks

pytestmark = pytest.mark.spec("WEB-1")
LOCAL = {"route": "direct", "allow": ("127.0.0.1",)}


def body(data: bytes, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: reply(handler, status, data, named)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_a_response_has_the_body_the_media_type_the_charset_and_the_route(home: Home) -> None:
    with serving({"/": body(b"text", Content_Type="Text/HTML; charset=ISO-8859-1")}) as server:
        async with web_client(home, **LOCAL) as client:
            got = await client.get(server.url("/"), circuit="task")
    assert (got.data, got.media_type, got.charset, got.route) == (b"text", "text/html", "iso-8859-1", "direct")


async def test_a_direct_request_to_a_private_address_is_refused_before_anything_is_sent(home: Home) -> None:
    with serving({"/": body(b"secret")}) as server:
        async with web_client(home, route="direct") as client:
            failure = await refused(client, server.url("/"))
            assert server.seen == []
    assert failure.reason == "address_refused"
    assert 'allow = ["127.0.0.1"] in [packs.web]' in str(failure)


async def test_a_redirect_to_a_private_address_is_refused(home: Home) -> None:
    with serving({"/": body(b"secret")}) as inner:
        redirect = inner.url("/", host="127.0.0.2")
        with serving({"/": body(b"", 302, Location=redirect)}) as outer:
            async with web_client(home, **LOCAL) as client:
                failure = await refused(client, outer.url("/"))
        assert inner.seen == []
    assert failure.reason == "address_refused"


async def test_a_proxied_request_sends_the_name_of_its_host_and_resolves_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda host, *_rest, **_named: looked_up.append(host))
    with serving({"/": body(b"there")}) as server:
        async with serving_socks() as socks, web_client(home, tor={"socks": socks.address}) as client:
            got = await client.get(server.url("/", host="example.org"), circuit="task")
            assert [(host, port) for _, host, port in socks.requests] == [("example.org", server.port)]
    assert (got.data, got.route) == (b"there", "Tor")
    assert [host for host in looked_up if host not in {"127.0.0.1", b"127.0.0.1"}] == []


async def test_each_circuit_has_a_user_name_of_its_own_and_other_engines_have_others(home: Home) -> None:
    with serving({"/": body(b"there")}) as server:
        url = server.url("/", host="example.org")
        async with serving_socks() as socks:
            for _ in range(2):
                async with web_client(home, tor={"socks": socks.address}) as client:
                    for circuit in ("one", "two", "one"):
                        await client.get(url, circuit=circuit)
            users = [user for user, _, _ in socks.requests]
    assert users[0] == users[2]
    assert users[3] == users[5]
    assert len(set(users)) == 4


async def test_without_tor_nothing_is_sent_and_the_failure_says_what_to_do(home: Home) -> None:
    async with serving_socks() as socks:
        pass  # nothing listens at its port any more
    with serving({"/": body(b"there")}) as server:
        async with web_client(home, tor={"socks": socks.address}, allow=("127.0.0.1",)) as client:
            failure = await refused(client, server.url("/"))
        assert server.seen == []
    assert (failure.failure_class, failure.reason) == (FailureClass.FATAL, "tor_unavailable")
    assert "socks in [packs.web.tor]" in str(failure)


async def test_a_server_that_is_not_a_socks_server_is_not_used(home: Home) -> None:
    with serving({"/": body(b"there")}) as server:
        async with web_client(home, tor={"socks": f"127.0.0.1:{server.port}"}) as client:
            failure = await refused(client, "http://example.org/")
        assert server.seen == []
    assert failure.reason == "tor_unavailable"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "printer.local",
        "metadata.google.internal",
        "router.lan",
        "nas.home.arpa",
        "intranet",
        "127.1",
        "0x7f000001",
        "2130706433",
        "127.0.0.1.",
        "0177.0.0.1",
        "a.0x7f",
    ],
)
async def test_private_names_and_every_spelling_of_a_private_address_are_refused_before_they_reach_tor(
    host: str, home: Home
) -> None:
    async with serving_socks() as socks, web_client(home, tor={"socks": socks.address}) as client:
        failure = await refused(client, f"http://{host}/")
        assert socks.requests == []
    assert failure.reason in {"address_refused", "download_refused"}  # the second if it is not even a URL


async def test_a_redirect_through_tor_to_a_private_name_is_refused(home: Home) -> None:
    with serving({"/": body(b"", 302, Location="http://localhost/secret")}) as server:
        async with serving_socks() as socks, web_client(home, tor={"socks": socks.address}) as client:
            failure = await refused(client, server.url("/", host="example.org"))
            assert [host for _, host, _ in socks.requests] == ["example.org"]
    assert failure.reason == "address_refused"


async def test_a_host_that_the_exit_refuses_is_reported_as_refused(home: Home) -> None:
    async with serving_socks() as socks, web_client(home, tor={"socks": socks.address}) as client:
        socks.reply = 2
        failure = await refused(client, "http://rebind.example.org/")
    assert (failure.failure_class, failure.reason) == (FailureClass.DIAGNOSTIC, "address_refused")


async def test_named_hosts_take_their_own_routes_also_after_a_redirect(home: Home) -> None:
    with serving({"/": body(b"near")}) as near, serving({"/": body(b"", 302, Location=near.url("/"))}) as far:
        async with serving_socks() as socks:
            settings = {"tor": {"socks": socks.address}, "hosts": {"127.0.0.1": "direct"}, "allow": ("127.0.0.1",)}
            async with web_client(home, **settings) as client:
                got = await client.get(far.url("/", host="example.org"), circuit="task")
            assert [host for _, host, _ in socks.requests] == ["example.org"]
    assert (got.data, got.route) == (b"near", "direct")


async def test_a_named_host_may_be_private_in_the_network_of_its_proxy(home: Home) -> None:
    with serving({"/": body(b"wiki")}) as server:
        async with serving_socks() as socks:
            # The test server needs a user name, which is part of the URL and appears in no result.
            settings = {"hosts": {"wiki": f"socks5h://ada:pw@{socks.address}"}}
            async with web_client(home, **settings) as client:
                got = await client.get(server.url("/", host="wiki"), circuit="task")
            assert [(user, host) for user, host, _ in socks.requests] == [("ada", "wiki")]
    assert got.route == f"proxy socks5h://{socks.address}"


async def test_libraries_receive_a_proxy_that_resolves_names(home: Home) -> None:
    async with serving_socks() as socks:
        settings = {"tor": {"socks": socks.address}, "hosts": {"127.0.0.1": "direct"}, "allow": ("127.0.0.1",)}
        async with web_client(home, **settings) as client:
            proxy, route = await client.proxy_of("duckduckgo.com", circuit="task")
            other, _ = await client.proxy_of("duckduckgo.com", circuit="other")
            assert proxy is not None
            assert proxy.startswith("socks5h://")
            assert proxy.endswith(f"@{socks.address}")
            assert other != proxy
            assert route == "Tor"
            assert await client.proxy_of("127.0.0.1", circuit="task") == (None, "direct")


async def test_onion_names_are_never_sent_to_a_resolver(home: Home) -> None:
    async with web_client(home, route="direct") as client:
        failure = await refused(client, "http://duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion/")
    assert failure.reason == "address_refused"


async def test_the_limit_applies_to_the_decompressed_body(home: Home) -> None:
    bomb = gzip.compress(b"\0" * 5_000_000)
    with serving({"/": body(bomb, Content_Encoding="gzip")}) as server:
        async with web_client(home, **LOCAL) as client:
            failure = await refused(client, server.url("/"), max_bytes=100_000)
    assert failure.reason == "too_large"
    assert "max_bytes in [packs.web]" in str(failure)


async def test_a_server_that_never_ends_its_body_is_given_up_at_the_time_limit(home: Home) -> None:
    def drip(handler: BaseHTTPRequestHandler, _: Seen) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:  # until the client closes the connection
            handler.wfile.write(b"x")

    with serving({"/": drip}) as server:
        async with web_client(home, **LOCAL, timeout_s=0.5) as client:
            failure = await refused(client, server.url("/"))
    assert failure.failure_class is FailureClass.RETRYABLE
    assert "0.5 s" in str(failure)


async def test_a_host_that_was_asked_too_often_is_not_asked_again_for_now(home: Home) -> None:
    with serving({"/": body(b"text")}) as server:
        slow = {"requests_per_s": 0.001, "burst": 2, "longest_wait_s": 1.0}
        async with web_client(home, **LOCAL, **slow) as client:
            for _ in range(2):
                await client.get(server.url("/"), circuit="task")
            failure = await refused(client, server.url("/"))
        assert len(server.seen) == 2
    assert failure.failure_class is FailureClass.RETRYABLE
    assert failure.retry_after is not None
    assert failure.retry_after > 900


async def test_a_host_that_requests_a_pause_gets_it(home: Home) -> None:
    with serving({"/": body(b"", 429, Retry_After="120")}) as server:
        async with web_client(home, **LOCAL) as client:
            assert (await refused(client, server.url("/"))).retry_after == 120
            assert "too often" in str(await refused(client, server.url("/")))
        assert len(server.seen) == 1


@pytest.mark.slow
async def test_robots_txt_is_requested_over_the_route_of_the_host_and_obeyed(home: Home, box: NamespaceSandbox) -> None:
    rules = b"User-agent: Knackbox\nDisallow: /private\nAllow: /private/open\n\nUser-agent: *\nDisallow: /\n"
    pages = {"/robots.txt": body(rules), "/private/open": body(b"open"), "/private/a": body(b"secret")}
    with serving(pages) as server:
        async with serving_socks() as socks, web_client(home, box, tor={"socks": socks.address}) as client:
            got = await client.get(server.url("/private/open", host="example.org"), circuit="task")
            failure = await refused(client, server.url("/private/a", host="example.org"))
            assert {host for _, host, _ in socks.requests} == {"example.org"}
        assert [seen.path for seen in server.seen] == ["/robots.txt", "/private/open"]
    assert got.data == b"open"
    assert failure.reason == "robots_refused"
    assert "robots = false" in str(failure)


async def test_a_robots_txt_that_no_box_can_evaluate_allows_nothing(home: Home) -> None:
    with serving({"/robots.txt": body(b"User-agent: *\nAllow: /\n")}) as server:
        async with web_client(home, **LOCAL, robots=True) as client:
            with pytest.raises(SandboxError):
                await client.get(server.url("/"), circuit="task")
        assert [seen.path for seen in server.seen] == ["/robots.txt"]


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False), (429, False)])
async def test_a_missing_robots_txt_allows_all_and_a_broken_one_nothing(status: int, allowed: bool, home: Home) -> None:
    with serving({"/robots.txt": body(b"", status), "/": body(b"text")}) as server:
        async with web_client(home, **LOCAL, robots=True) as client:
            if allowed:
                assert (await client.get(server.url("/"), circuit="task")).data == b"text"
            else:
                assert (await refused(client, server.url("/"))).failure_class is FailureClass.RETRYABLE
        assert len(server.seen) == (2 if allowed else 1)
