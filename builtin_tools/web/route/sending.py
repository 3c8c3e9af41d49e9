"""Sends one GET request over one route."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import httpx
from httpx_socks import AsyncProxyTransport
from python_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError

from builtin_tools.download_rules import DownloadRules
from builtin_tools.http_hop import connect, host_header, permanent, temporary
from engine.contract.failure import ToolFailure

_NOT_ALLOWED = 0x02  # reply "connection not allowed by ruleset" (RFC 1928, 6), also by Tor for private addresses

# What a client raises for a connection that fails. Those of anyio appear when it fails in the TLS handshake.
_BROKEN = (
    httpx.HTTPError,
    ProxyError,
    OSError,
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    """How a request leaves the machine.

    Attributes:
        name: The route in words, such as ``"Tor"``.
        proxy: The URL of the proxy, with credentials; None for a direct connection.
    """

    name: str
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends GET requests, each over the route that is chosen for it.

    Attributes:
        rules: Which addresses a direct connection may be made to.
        context: Checks certificates.
        headers: The headers of all requests.
        timeout: The limits of connecting and of each read.
    """

    rules: DownloadRules
    context: ssl.SSLContext
    headers: Mapping[str, str]
    timeout: httpx.Timeout

    @asynccontextmanager
    async def send(self, target: httpx.URL, chosen: ChosenRoute) -> AsyncIterator[httpx.Response]:
        """Send a GET request. The response's body has not been read.

        Each request has a connection of its own, so connections are never shared by two circuits.

        Raises:
            ToolFailure: The target is refused, or the request failed.
        """
        if chosen.proxy is None:
            async with connect(target, self.rules, self.context, headers=self.headers, limits=self.timeout) as answer:
                yield answer
            return
        async with self._client(chosen.proxy) as client:
            headers = {**self.headers, "host": host_header(target)}
            request = client.build_request("GET", target.copy_with(userinfo=b""), headers=headers)
            try:
                answer = await client.send(request, stream=True)
            except _BROKEN as error:
                raise failure_of(error, target, chosen.name) from error
            try:
                yield answer
            except httpx.TransportError as error:
                raise temporary(f"{target}: the connection was lost ({error or type(error).__name__}).") from error
            finally:
                await answer.aclose()

    def _client(self, proxy: str) -> httpx.AsyncClient:
        """Return a client whose every connection is made through a proxy, which also resolves all names."""
        parts = urlsplit(proxy)
        if parts.scheme == "socks5h":
            transport: httpx.AsyncBaseTransport = AsyncProxyTransport.from_url(
                f"socks5://{parts.netloc}", rdns=True, verify=self.context, trust_env=False
            )
        else:
            through = httpx.Proxy(proxy, ssl_context=self.context if parts.scheme == "https" else None)
            transport = httpx.AsyncHTTPTransport(verify=self.context, trust_env=False, proxy=through)
        # The transport is given, so that the client makes no other one for any URL.
        return httpx.AsyncClient(transport=transport, trust_env=False, timeout=self.timeout, follow_redirects=False)


def failure_of(error: Exception, target: httpx.URL, route: str) -> ToolFailure:
    """Return the failure that tells what prevented a request through a proxy."""
    if isinstance(error, ProxyError):
        if error.error_code == _NOT_ALLOWED:
            return permanent(f"{target}: refused by {route}. Its host may have a private address.", "address_refused")
        return temporary(f"{target}: {route} cannot connect to the host ({error}). Try again later.")
    if isinstance(error, ProxyTimeoutError | httpx.TimeoutException):
        return temporary(f"{target}: no answer in time (route: {route}). Try again later.")
    if isinstance(error, ProxyConnectionError):
        return temporary(f"{route} can no longer be reached ({error}), so {target} was not requested. Try again.")
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
        return permanent(f"{target}: the certificate is not valid ({error}). Use another source.", "bad_certificate")
    return temporary(f"{target}: no answer ({error or type(error).__name__}; route: {route}). Try again later.")
