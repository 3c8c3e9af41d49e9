"""Downloads connect only to public addresses that were checked, and stop at the size limit."""

import datetime as dt
import gzip
import ipaddress
import socket
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.download import Download, fetch
from builtin_tools.download_rules import DownloadRules, is_public
from engine.contract.failure import FailureClass, ToolFailure
from engine.stores.clock import SystemClock
from tests.builtin_tools.http_server import Answer, Seen, reply, serving

LOCAL = DownloadRules(max_bytes=100_000, allow=("127.0.0.1",))
Names = Callable[[dict[str, list[str]]], list[str]]


async def get(url: str, rules: DownloadRules = LOCAL) -> Download:
    return await fetch(url, rules, SystemClock())


async def refused(url: str, rules: DownloadRules = LOCAL) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await get(url, rules)
    assert not caught.value.may_have_started
    return caught.value


def body(data: bytes, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: reply(handler, status, data, named)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Return a function that fakes DNS for some host names, with the next address for each query.

    That function returns the list of names that are looked up.
    """
    real = socket.getaddrinfo

    def install(answers: dict[str, list[str]]) -> list[str]:
        queried: list[str] = []

        def resolve(host: str, port: int, *args: int, **kwargs: int) -> list[tuple]:
            if host not in answers:
                return real(host, port, *args, **kwargs)
            queried.append(host)
            left = answers[host]
            address = left.pop(0) if len(left) > 1 else left[0]
            return [info for each in address.split() for info in real(each, port, type=socket.SOCK_STREAM)]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return queried

    return install


async def test_a_download_returns_body_and_media_type() -> None:
    with serving({"/a.csv": body(b"x,y\n", Content_Type="text/csv; charset=utf-8")}) as server:
        got = await get(server.url("/a.csv"))
    assert (got.data, got.media_type) == (b"x,y\n", "text/csv")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
    ],
)
def test_private_addresses_are_recognised(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_recognised(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_that_embeds_an_ipv4_address_is_judged_by_it(address: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | int(address))
    nat64 = ipaddress.IPv6Address((0x64FF9B << 96) | int(address))
    assert is_public(mapped) == is_public(nat64) == is_public(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "127.1", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST."]
)
async def test_every_spelling_of_a_loopback_address_is_refused(host: str) -> None:
    with serving({"/": body(b"secret")}) as server:
        failure = await refused(server.url("/", host), DownloadRules())
        assert server.seen == []
    assert failure.reason == "address_refused"
    assert "download_allow" in str(failure)


async def test_a_name_with_one_private_address_among_public_ones_is_refused(names: Names) -> None:
    names({"mixed.example": ["8.8.8.8 127.0.0.1"]})
    failure = await refused("http://mixed.example/", DownloadRules())
    assert "mixed.example is at 127.0.0.1" in str(failure)


async def test_the_connection_goes_to_the_checked_address_even_if_the_name_now_resolves_to_another(
    names: Names,
) -> None:
    with serving({"/": body(b"checked")}) as server:
        queried = names({"rebind.example": ["127.0.0.1", "127.0.0.2"]})
        got = await get(server.url("/", "rebind.example"))
        assert server.seen[0].headers["host"] == f"rebind.example:{server.port}"
    assert got.data == b"checked"
    assert queried == ["rebind.example"]  # once: there is no second lookup after the check


async def test_a_redirect_to_a_private_address_is_refused(names: Names) -> None:
    names({"public.example": ["127.0.0.1"]})
    rules = DownloadRules(allow=("public.example",))
    with serving({"/secret": body(b"secret")}) as inner:
        with serving({"/": body(b"", 302, Location=inner.url("/secret"))}) as outer:
            failure = await refused(outer.url("/", "public.example"), rules)
        assert inner.seen == []
    assert failure.reason == "address_refused"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://x/", "ftp://x/"])
async def test_a_redirect_to_another_scheme_is_refused(location: str) -> None:
    with serving({"/": body(b"", 302, Location=location)}) as server:
        assert "only http://" in str(await refused(server.url("/")))


async def test_redirects_are_followed_and_the_final_url_is_returned() -> None:
    with serving({"/a": body(b"", 301, Location="/b"), "/b": body(b"end")}) as server:
        got = await get(server.url("/a"))
        assert (got.data, got.url) == (b"end", server.url("/b"))


async def test_a_redirect_loop_ends() -> None:
    with serving({"/a": body(b"", 302, Location="/a")}) as server:
        assert "more than 5 redirects" in str(await refused(server.url("/a")))
        assert len(server.seen) == 6


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/x", "example.org/x", "http://", "", "http://[::1"]
)
async def test_a_url_that_is_not_http_is_refused(url: str) -> None:
    assert (await refused(url)).failure_class is FailureClass.DIAGNOSTIC


async def test_an_unknown_host_is_reported_with_its_name() -> None:
    failure = await refused("http://no-such-host.invalid/")
    assert failure.reason in {"unknown_host", "download_failed"}  # the second if no name server answers
    assert "no-such-host.invalid" in str(failure)


async def test_a_body_announced_as_too_large_is_refused_before_it_is_read() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: Seen) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100001")
        handler.end_headers()

    with serving({"/": answer}) as server:
        assert "100,001 bytes, over the limit of 100,000" in str(await refused(server.url("/")))


async def test_a_body_of_unannounced_size_is_refused_at_the_limit() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: Seen) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:  # until the client closes the connection
            handler.wfile.write(b"x" * 10_000)

    with serving({"/": answer}) as server:
        assert (await refused(server.url("/"))).reason == "too_large"


async def test_the_limit_applies_to_the_decompressed_body() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < LOCAL.max_bytes
    with serving({"/": body(bomb, Content_Encoding="gzip")}) as server:
        assert (await refused(server.url("/"))).reason == "too_large"


async def test_a_compressed_body_is_decompressed() -> None:
    with serving({"/": body(gzip.compress(b"text " * 900), Content_Encoding="gzip")}) as server:
        assert (await get(server.url("/"))).data == b"text " * 900


@pytest.mark.spec("FAIL-2")
async def test_a_busy_server_is_retryable_after_the_wait_it_requests() -> None:
    with serving({"/": body(b"", 503, Retry_After="7")}) as server:
        failure = await refused(server.url("/"))
    assert (failure.failure_class, failure.retry_after) == (FailureClass.RETRYABLE, 7.0)


async def test_a_missing_page_is_not_retryable() -> None:
    with serving({}) as server:
        failure = await refused(server.url("/gone"))
    assert (failure.failure_class, failure.reason) == (FailureClass.DIAGNOSTIC, "http_status")
    assert "404" in str(failure)


async def test_a_lost_connection_is_retryable() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: Seen) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")

    with serving({"/": answer}) as server:
        assert (await refused(server.url("/"))).failure_class is FailureClass.RETRYABLE


async def test_a_closed_port_is_retryable() -> None:
    with serving({}) as server:
        url = server.url("/")
    failure = await refused(url)
    assert failure.failure_class is FailureClass.RETRYABLE
    assert "cannot connect" in str(failure)


def certificate(name: str, folder: Path) -> Path:
    """Write a self-signed certificate for one host name and its key to one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    plain = serialization.NoEncryption()
    pkcs8 = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, pkcs8, plain) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.mark.parametrize(("host", "trusted"), [("files.example", True), ("other.example", False)])
async def test_the_certificate_is_checked_against_the_name_although_the_connection_uses_the_address(
    host: str, trusted: bool, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = certificate("files.example", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    names({host: ["127.0.0.1"]})
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    asked_for: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: asked_for.append(name)
    with serving({"/": body(b"sealed")}, tls) as server:
        url = server.url("/", host, "https")
        if trusted:
            assert (await get(url)).data == b"sealed"
        else:
            assert "certificate" in str(await refused(url)).lower()
            assert server.seen == []
    assert asked_for == [host]
