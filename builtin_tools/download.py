"""Fetch one public http(s) address into memory, and nothing that is not public.

A model chooses the address, so it may point at the machine itself, at a cloud's metadata service or into a company's
network. Every hop is therefore resolved here, all its addresses are judged, and the connection goes to exactly the
address that was judged: a name that changes its answer in between (DNS rebinding) gains nothing.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from builtin_tools.download_rules import DownloadRules
from engine.contract.context import Clock
from engine.contract.failure import FailureClass, ToolFailure

MAX_REDIRECTS = 5
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
TIMEOUT = httpx.Timeout(20.0, connect=10.0)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back: the body, its media type, and the address it finally came from."""

    data: bytes
    media_type: str
    url: str


async def fetch(
    url: str, rules: DownloadRules, clock: Clock, progress: Callable[[float | None], None] = lambda _: None
) -> Fetched:
    """Download `url`, following up to five redirects, each judged like the first address.

    Raises ToolFailure: RETRYABLE for what may pass (a dropped connection, 429, 5xx), DIAGNOSTIC for the rest. Nothing
    has happened to the workspace yet, so every failure may be repeated.
    """
    # The environment's proxies are not used (trust_env=False below): a proxy would resolve the name again.
    context = await asyncio.to_thread(httpx.create_ssl_context)  # reads a few hundred certificates
    for _ in range(MAX_REDIRECTS + 1):
        target = parse(url)
        async with connect(target, rules, context) as answer:
            if not answer.has_redirect_location:
                check_status(answer, url, clock)
                data = await read_body(answer, rules.max_bytes, progress)
                media_type = answer.headers.get("content-type", "").split(";")[0].strip()
                return Fetched(data, media_type, url)
            url = redirect_target(target, answer.headers["location"])
    raise refusal(f"{url}: more than {MAX_REDIRECTS} redirects.")


def refusal(message: str, reason: str = "download_refused") -> ToolFailure:
    return ToolFailure(message, reason=reason, may_have_started=False)


def passing(message: str, retry_after: float | None = None) -> ToolFailure:
    """A failure that may be gone the next time."""
    return ToolFailure(
        message,
        failure_class=FailureClass.RETRYABLE,
        reason="download_failed",
        retry_after=retry_after,
        may_have_started=False,
    )


def parse(url: str) -> httpx.URL:
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise refusal(
            f"{url[:200]!r} is not a URL ({error}). Give one such as https://example.org/data.csv."
        ) from error
    if target.scheme not in {"http", "https"} or not target.host:
        raise refusal(f"{url[:200]!r}: only http:// and https:// addresses can be downloaded.")
    return target


def redirect_target(source: httpx.URL, location: str) -> str:
    """Where a redirect leads. A step down from https to http is refused: the rest could be read and changed."""
    target = parse(str(source.join(location)))
    if source.scheme == "https" and target.scheme == "http":
        raise refusal(
            f"{source} redirects from https to http ({target}). Download that address itself if you trust it."
        )
    return str(target)


async def resolve(target: httpx.URL, rules: DownloadRules) -> list[str]:
    """The addresses of the target's host, in the system's order. Raises ToolFailure unless all may be reached."""
    host = target.host.lower().rstrip(".")
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise passing(f"{host}: the name could not be resolved just now ({error.strerror}).") from error
        raise refusal(f"{host}: no such host ({error.strerror}). Check the address.", "unknown_host") from error
    except UnicodeError as error:  # a label that IDNA cannot encode
        raise refusal(f"{host[:80]!r} is not a host name ({error}).", "unknown_host") from error
    addresses = list(dict.fromkeys(str(info[4][0]).split("%")[0] for info in infos))
    for address in addresses:
        if not rules.allows(host, ipaddress.ip_address(address)):
            raise refusal(
                f"{host} is at {address}, which is not a public address: not downloaded. A person can allow it with "
                f'download_allow = ["{host}"] in [packs.builtin] of the configuration.',
                "address_refused",
            )
    return addresses


@asynccontextmanager
async def connect(target: httpx.URL, rules: DownloadRules, context: ssl.SSLContext) -> AsyncIterator[httpx.Response]:
    """Send GET to one of the judged addresses; the name still stands in Host, SNI and the certificate check."""
    addresses = await resolve(target, rules)
    headers = {"host": target.netloc.decode("ascii").rpartition("@")[2], "accept-encoding": "identity"}
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=TIMEOUT, follow_redirects=False) as client:
        request = client.build_request("GET", target, headers=headers, extensions={"sni_hostname": target.host})
        answer = await send_to_first(client, request, addresses)
        try:
            yield answer
        except httpx.TransportError as error:
            raise passing(f"{target}: the connection broke off ({error or type(error).__name__}).") from error
        finally:
            await answer.aclose()


async def send_to_first(client: httpx.AsyncClient, request: httpx.Request, addresses: list[str]) -> httpx.Response:
    """The answer of the first address that accepts a connection. Raises ToolFailure when none does."""
    named = request.url
    problem: httpx.TransportError | None = None
    for address in addresses:
        request.url = named.copy_with(host=address)
        try:
            answer = await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = error
        except httpx.TransportError as error:
            raise passing(f"{named}: no answer ({error or type(error).__name__}).") from error
        else:
            request.url = named  # what messages show
            return answer
    raise passing(f"{named}: cannot connect ({problem or type(problem).__name__}).")


def check_status(answer: httpx.Response, url: str, clock: Clock) -> None:
    if answer.is_success:
        return
    said = f"{url} answered {answer.status_code} {answer.reason_phrase}".strip()
    if answer.status_code in TRANSIENT:
        raise passing(f"{said}.", retry_after(answer, clock))
    raise refusal(f"{said}. Check the address, or find another source.", "http_status")


def retry_after(answer: httpx.Response, clock: Clock) -> float | None:
    """Seconds from `Retry-After`, which holds seconds or a date (RFC 9110, 10.2.3)."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - clock.now()).total_seconds())
    except (ValueError, TypeError):  # absent, malformed, or without a zone
        return None


async def read_body(answer: httpx.Response, limit: int, progress: Callable[[float | None], None]) -> bytes:
    """The body, never more than `limit` bytes in memory: also not when a few compressed ones stand for many."""
    encoding = answer.headers.get("content-encoding", "identity").lower()
    if encoding not in {"identity", "", "gzip"}:
        raise refusal(f"{answer.url}: the server insists on {encoding!r} encoding, which is not supported.")
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    length = answer.headers.get("content-length", "")
    total = int(length) if re.fullmatch("[0-9]{1,18}", length) and unzip is None else None
    if total is not None and total > limit:
        raise too_large(limit, f"{total:,} bytes")
    body = bytearray()
    async for chunk in answer.aiter_raw():
        try:
            body += unzip.decompress(chunk, limit + 1 - len(body)) if unzip else chunk
        except zlib.error as error:
            raise passing(f"{answer.url}: the compressed body is damaged ({error}).") from error
        if len(body) > limit:
            raise too_large(limit, "more")
        progress(len(body) / total if total else None)
    if unzip and not unzip.eof:
        raise passing(f"{answer.url}: the compressed body broke off.")
    return bytes(body)


def too_large(limit: int, size: str) -> ToolFailure:
    return refusal(
        f"The download is {size}, over the limit of {limit:,} bytes. Find a smaller file; a person can raise "
        "download_max_bytes in [packs.builtin] of the configuration.",
        "too_large",
    )
