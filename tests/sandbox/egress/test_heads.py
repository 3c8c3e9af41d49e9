"""The proxy parses requests and rewrites their heads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import Destination
from sandbox.egress.heads import BadHead, ResponseRewriter, parse_request, refusal

pytestmark = pytest.mark.spec("BOX-10")


@pytest.mark.parametrize(
    ("line", "destination"),
    [
        ("CONNECT api.test:443 HTTP/1.1", Destination("api.test", 443)),
        ("CONNECT [2606:4700::1]:443 HTTP/1.1", Destination("2606:4700::1", 443)),
        ("GET http://api.test/x?y=1 HTTP/1.1", Destination("api.test", 80)),
        ("GET http://api.test HTTP/1.0", Destination("api.test", 80)),
        ("GET http://api.test:8080?y HTTP/1.1", Destination("api.test", 8080)),
        ("POST HTTP://[::1]/x HTTP/1.1", Destination("::1", 80)),
    ],
)
def test_a_request_names_its_destination(line: str, destination: Destination) -> None:
    assert parse_request(line.encode()).destination == destination


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1",
        b"GET https://api.test/ HTTP/1.1",
        b"GET ftp://api.test/ HTTP/1.1",
        b"GET http://user@api.test/ HTTP/1.1",
        b"GET http://api.test@10.0.0.1/ HTTP/1.1",
        b"GET http:///x HTTP/1.1",
        b"CONNECT api.test HTTP/1.1",
        b"CONNECT api.test:0 HTTP/1.1",
        b"CONNECT api.test:70000 HTTP/1.1",
        b"CONNECT api.test:443:80 HTTP/1.1 x",
        b"GET  http://api.test/ HTTP/1.1",
        b"GET http://api.test/ HTTP/2",
        b"get http://api.test/ HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET http://api.test/ HTTP/1.1\r\nBad Name: x",
        b"GET http://api.test/ HTTP/1.1\r\nHost : x",
        b"GET http://api.test/ HTTP/1.1\r\nA: x\r\n folded",
        b"GET http://api.test/ HTTP/1.1\r\nA: x\nB: y",
        b"GET http://api.test/ HTTP/1.1\r\nA: x\x00",
        b"GET http://api.test/ HTTP/1.1\r\nA: x\rB: y",
        b"GET http://api.test/ HTTP/1.1\r\nA: x\r\n\tfolded",
        b"GET http://api.test/ HTTP/1.1\nA: x",
        b"GET http://api.test/ HTTP/1.1\n",
        b"GET http://api.test/ HTTP/2.0",
        b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nHost: other.test",
        b"POST http://api.test/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4",
        b"POST http://api.test/ HTTP/1.1\r\nContent-Length: -3",
        b"POST http://api.test/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
        b"",
    ],
)
def test_a_malformed_request_is_refused(head: bytes) -> None:
    with pytest.raises(BadHead):
        parse_request(head)


def test_a_forwarded_head_is_in_the_destinations_own_form() -> None:
    request = parse_request(
        b"GET http://api.test/x?y=1 HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic c2VjcmV0\r\n"
        b"Connection: keep-alive, X-Hop, Content-Length\r\nX-Hop: 1\r\nContent-Length: 3\r\nAccept: */*"
    )
    assert request.head == (
        b"GET /x?y=1 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    assert parse_request(b"GET http://api.test?y HTTP/1.1").head.startswith(b"GET /?y HTTP/1.1\r\n")


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 4\r\n\r\nbody"
REWRITTEN = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"


@given(st.booleans(), st.lists(st.integers(0, len(INTERIM + RESPONSE)), max_size=6))
def test_a_response_is_rewritten_correctly_regardless_of_how_it_is_split(interim: bool, cuts: list[int]) -> None:
    data = (INTERIM if interim else b"") + RESPONSE
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges) if data[a:b]]
    rewrite = ResponseRewriter()
    assert b"".join([rewrite(piece) for piece in pieces] + [rewrite(b"")]) == (INTERIM if interim else b"") + REWRITTEN


def test_a_response_head_without_an_end_is_rejected() -> None:
    rewrite = ResponseRewriter()
    assert rewrite(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 60_000) == b""
    with pytest.raises(BadHead):
        rewrite(b"x" * 10_000)


@given(st.text())
def test_a_refusal_is_sent_as_a_single_response_with_its_reason(reason: str) -> None:
    head, _, body = refusal(403, reason).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert len(head.split(b"\r\n")) == 4
    assert f"Content-Length: {len(body)}".encode() in head
