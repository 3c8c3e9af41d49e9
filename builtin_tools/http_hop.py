"""One hop of an HTTP download: checks a URL, resolves and checks its host, sends one GET request, and reads the body.

A model chooses the URL, so it may point at this machine, at a cloud's metadata service or into a private network.
Therefore the host is resolved here, all of its addresses are checked, and the connection is made to one of the checked
addresses. A name that resolves differently a moment later (DNS rebinding) has no effect.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from types import MappingProxyType

import httpx

from builtin_tools.download_rules import DownloadRules
from engine.contract.context import Clock
from engine.contract.failure import FailureClass, ToolFailure

MAX_REDIRECTS = 5
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
TIMEOUT = httpx.Timeout(20.0, connect=10.0)
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def permanent(message: str, reason: str = "download_refused") -> ToolFailure:
    """Return a DIAGNOSTIC failure: repeating the download would not help."""
    return ToolFailure(message, reason=reason, may_have_started=False)


def temporary(message: str, retry_after: float | None = None) -> ToolFailure:
    """Return a RETRYABLE failure: a repeated download may succeed."""
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
        raise permanent(
            f"{url[:200]!r} is not a URL ({error}). Use one such as https://example.org/data.csv."
        ) from error
    if target.scheme not in {"http", "https"} or not target.host:
        raise permanent(f"{url[:200]!r} cannot be downloaded: only http:// and https:// addresses can.")
    return target


def redirect_target(source: httpx.URL, location: str) -> str:
    """Return the URL that a redirect leads to.

    Raises:
        ToolFailure: The redirect leads from https to http, where the transfer could be read and changed.
    """
    target = parse(str(source.join(location)))
    if source.scheme == "https" and target.scheme == "http":
        raise permanent(
            f"{source} redirects from https to http ({target}), which is not followed. If you trust that address, "
            "download it directly."
        )
    return str(target)


async def resolve(target: httpx.URL, rules: DownloadRules) -> list[str]:
    """Return the addresses of the target's host, in the system's order.

    Raises:
        ToolFailure: The host is unknown, or one of its addresses is not allowed.
    """
    host = target.host.lower().rstrip(".")
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise temporary(f"{host} could not be resolved just now ({error.strerror}). Try again later.") from error
        raise permanent(f"{host}: no such host ({error.strerror}). Check the address.", "unknown_host") from error
    except UnicodeError as error:  # a label that IDNA cannot encode
        raise permanent(f"{host[:80]!r} is not a host name ({error}). Check the address.", "unknown_host") from error
    addresses = list(dict.fromkeys(str(info[4][0]).split("%")[0] for info in infos))
    for address in addresses:
        if not rules.allows(host, ipaddress.ip_address(address)):
            raise permanent(
                f"{host} is at {address}, which is not a public address, so nothing was downloaded. A person can allow "
                f'it with {rules.allow_setting} = ["{host}"] in [{rules.table}] of the configuration.',
                "address_refused",
            )
    return addresses


@asynccontextmanager
async def connect(
    target: httpx.URL,
    rules: DownloadRules,
    context: ssl.SSLContext,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    limits: httpx.Timeout = TIMEOUT,
) -> AsyncIterator[httpx.Response]:
    """Send a GET request to one of the checked addresses.

    `Host`, SNI and the certificate check use the host name.

    Args:
        target: The URL.
        rules: Which addresses are allowed.
        context: Checks certificates.
        headers: Further headers of the request.
        limits: The time limits of connecting and of each read.

    Raises:
        ToolFailure: The host cannot be resolved, an address is not allowed, or the connection fails.
    """
    addresses = await resolve(target, rules)
    headers = {"accept-encoding": "identity", **headers, "host": host_header(target)}
    # Proxies from the environment are ignored: a proxy would resolve the name again.
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=limits, follow_redirects=False) as client:
        request = client.build_request("GET", target, headers=headers, extensions={"sni_hostname": target.host})
        answer = await send_to_first(client, request, addresses)
        try:
            yield answer
        except httpx.TransportError as error:
            raise temporary(f"{target}: the connection was lost ({error or type(error).__name__}).") from error
        finally:
            await answer.aclose()


def host_header(target: httpx.URL) -> str:
    """Return the value of the header `Host`, which names the port and never a user."""
    return target.netloc.decode("ascii").rpartition("@")[2]


async def send_to_first(client: httpx.AsyncClient, request: httpx.Request, addresses: list[str]) -> httpx.Response:
    """Send the request to the first address that accepts a connection, and return the response.

    Raises:
        ToolFailure: No address accepts a connection, or the connection fails before a response arrives.
    """
    original = request.url
    problem: httpx.TransportError | None = None
    for address in addresses:
        request.url = original.copy_with(host=address)
        try:
            answer = await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = error
        except httpx.TransportError as error:
            raise temporary(f"{original}: no answer ({error or type(error).__name__}).") from error
        else:
            request.url = original  # error messages show this URL, not the address
            return answer
    raise temporary(f"{original}: cannot connect ({problem or type(problem).__name__}).")


def check_status(answer: httpx.Response, url: str, clock: Clock) -> None:
    if answer.is_success:
        return
    status = f"{url} answered {answer.status_code} {answer.reason_phrase}".strip()
    if answer.status_code in TRANSIENT:
        raise temporary(f"{status}.", retry_after(answer, clock))
    raise permanent(f"{status}. Check the address, or find another source.", "http_status")


def retry_after(answer: httpx.Response, clock: Clock) -> float | None:
    """Return how many seconds to wait. `Retry-After` has a number of seconds or a date (RFC 9110, 10.2.3)."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - clock.now()).total_seconds())
    except (ValueError, TypeError):  # absent, malformed, or without a zone
        return None


async def read_body(
    answer: httpx.Response, rules: DownloadRules, progress: Callable[[float | None], None] = lambda _: None
) -> bytes:
    """Return the decompressed body of a response. Stop as soon as the body exceeds `rules.max_bytes`.

    Args:
        answer: The response, whose body has not been read.
        rules: The limit.
        progress: Called with the completed share (from 0 to 1), or with None if the size is unknown.

    Raises:
        ToolFailure: The body is too large, damaged, or encoded in another way than gzip.
    """
    limit = rules.max_bytes
    encoding = answer.headers.get("content-encoding", "identity").lower()
    if encoding not in {"identity", "", "gzip"}:
        raise permanent(
            f"{answer.url}: the server answers in {encoding!r} encoding, which is not supported. Find another source."
        )
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    length = answer.headers.get("content-length", "")
    total = int(length) if re.fullmatch("[0-9]{1,18}", length) and unzip is None else None
    if total is not None and total > limit:
        raise too_large(rules, total)
    body = bytearray()
    async for chunk in answer.aiter_raw():
        try:
            body += unzip.decompress(chunk, limit + 1 - len(body)) if unzip else chunk
        except zlib.error as error:
            raise temporary(f"{answer.url}: the compressed body is damaged ({error}).") from error
        if len(body) > limit:
            raise too_large(rules)
        progress(len(body) / total if total else None)
    if unzip and not unzip.eof:
        raise temporary(f"{answer.url}: the compressed body is incomplete.")
    return bytes(body)


def too_large(rules: DownloadRules, size: int | None = None) -> ToolFailure:
    """Return the failure for a body over the limit.

    Args:
        size: The size of the body in bytes, if the server announced it.
    """
    announced = "" if size is None else f"{size:,} bytes, "
    return permanent(
        f"The download is {announced}over the limit of {rules.max_bytes:,} bytes. Find a smaller file; a person can "
        f"raise {rules.size_setting} in [{rules.table}] of the configuration.",
        "too_large",
    )
