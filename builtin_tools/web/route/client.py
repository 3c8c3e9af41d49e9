"""`RoutedClient`: the client of the web pack. Every request is sent over the route of its host, and over no other."""

import asyncio
import ssl
from dataclasses import dataclass, replace

import httpx

from builtin_tools.download_rules import DownloadRules
from builtin_tools.http_hop import (
    MAX_REDIRECTS,
    TRANSIENT,
    check_status,
    parse,
    permanent,
    read_body,
    redirect_target,
    resolve,
    retry_after,
)
from builtin_tools.web.contract import Progress, WebResponse
from builtin_tools.web.route.host_pace import HostPace
from builtin_tools.web.route.remote_names import check_onion, check_remote_name
from builtin_tools.web.route.robots import MAX_BYTES as MAX_ROBOTS
from builtin_tools.web.route.robots import RobotsRules
from builtin_tools.web.route.routes import Routes
from builtin_tools.web.route.sending import Exit, Sender
from builtin_tools.web.route.time_left import TimeLeft
from builtin_tools.web.route.tor_source import CircuitNames, TorSource
from builtin_tools.web.settings import NAME, WebSettings
from engine.contract.context import Clock, no_progress
from sandbox.contract import Sandbox

_CONNECT_S = 30.0  # a new circuit of Tor takes a few seconds, and Tor itself gives up after two minutes
_READ_S = 30.0
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/plain;q=0.8,*/*;q=0.5"


@dataclass(frozen=True, slots=True)
class _Request:
    """What the hops of one request share."""

    circuit: str
    time: TimeLeft
    progress: Progress


class RoutedClient:
    """Implements `WebClient`."""

    def __init__(self, settings: WebSettings, tor: TorSource, sandbox: Sandbox, clock: Clock) -> None:
        """Create the client. Nothing is started or sent.

        Args:
            settings: The configuration.
            tor: The Tor of the route ``"tor"``.
            sandbox: Runs the boxes in which robots.txt is evaluated.
            clock: The current time.
        """
        self._settings = settings
        self._routes = Routes(settings.route, settings.hosts)
        self._allow = tuple(entry.strip().lower() for entry in settings.allow)
        self._tor = tor
        self._circuits = CircuitNames()
        self._clock = clock
        self._robots = RobotsRules(sandbox, clock)
        self._pace = HostPace(
            clock,
            requests_per_s=settings.requests_per_s,
            burst=settings.burst,
            longest_wait_s=settings.longest_wait_s,
        )
        self._context: ssl.SSLContext | None = None

    async def get(
        self, url: str, *, circuit: str, max_bytes: int | None = None, progress: Progress | None = None
    ) -> WebResponse:
        """Request a URL. See `WebClient.get`."""
        request = _Request(circuit, TimeLeft(self._clock, self._settings.timeout_s), progress or no_progress)
        limit = min(max_bytes or self._settings.max_bytes, self._settings.max_bytes)
        for _ in range(MAX_REDIRECTS + 1):
            target = parse(url)
            if self._settings.robots:
                await self._check_robots(target, request)
            found = await self._hop(target, request, self._rules(limit))
            if isinstance(found, WebResponse):
                return found
            url = found
        raise permanent(f"{url}: more than {MAX_REDIRECTS} redirects. Use another source.")

    async def proxy_of(self, host: str, *, circuit: str) -> tuple[str | None, str]:
        """Return the proxy URL for a library that sends its own requests. See `WebClient.proxy_of`."""
        exit_ = await self._exit(parse(f"https://{host}/"), circuit, no_progress)
        if exit_.proxy is None:
            await resolve(parse(f"https://{host}/"), self._rules())
        await self._pace.wait(host.lower())
        return exit_.proxy, exit_.name

    async def aclose(self) -> None:
        """Stop Tor, if it was started here."""
        await self._tor.aclose()

    async def _exit(self, target: httpx.URL, circuit: str, progress: Progress) -> Exit:
        """Return how a request to a URL leaves the machine. Wait for Tor if it is starting.

        Raises:
            ToolFailure: The host is refused, or the route is not available.
        """
        host = target.raw_host.decode("ascii")
        route = self._routes.of(host)
        check_onion(host, route)
        if route.is_direct:
            return Exit(route.name)
        check_remote_name(host, route, self._allow)
        if not route.is_tor:
            return Exit(route.name, route.setting)
        address = await self._tor.ready(progress)
        user, password = self._circuits.credentials(circuit)
        return Exit(route.name, f"socks5h://{user}:{password}@{address}")

    def _rules(self, max_bytes: int = 0) -> DownloadRules:
        """Return the limits of one request, with the names of the settings for error messages."""
        return DownloadRules(
            max_bytes=max_bytes or self._settings.max_bytes,
            allow=self._allow,
            table=f"packs.{NAME}",
            allow_setting="allow",
            size_setting="max_bytes",
        )

    async def _hop(self, target: httpx.URL, request: _Request, rules: DownloadRules) -> WebResponse | str:
        """Send one request. Return its response, or the URL that it redirects to."""
        exit_ = await self._exit(target, request.circuit, request.progress)
        await self._pace.wait(target.host)
        sender = await self._sender(rules)
        url = str(target)
        async with request.time.spent_on(url), sender.send(target, exit_) as answer:
            if answer.has_redirect_location:
                return redirect_target(target, answer.headers["location"])
            self._obey_retry_after(target, answer)
            check_status(answer, url, self._clock)
            data = await read_body(answer, rules, lambda share: request.progress(f"Receiving {url}", share))
            return WebResponse(
                url=url,
                media_type=answer.headers.get("content-type", "").split(";")[0].strip().lower(),
                charset=answer.charset_encoding or "",
                headers=dict(answer.headers),
                data=data,
                route=exit_.name,
                fetched_at=self._clock.now(),
            )

    async def _check_robots(self, target: httpx.URL, request: _Request) -> None:
        async def robots_file(url: str) -> str:
            return await self._robots_file(url, request)

        origin = f"{target.scheme}://{target.netloc.decode('ascii').rpartition('@')[2]}"
        delay_s = await self._robots.check(origin, str(target), robots_file)
        if delay_s:
            self._pace.slow_down(target.host, delay_s)

    async def _robots_file(self, url: str, request: _Request) -> str:
        """Return the content of a robots.txt; "" if there is none. The host's other files are then allowed."""
        source = url
        for _ in range(MAX_REDIRECTS + 1):
            target = parse(source)
            exit_ = await self._exit(target, request.circuit, request.progress)
            await self._pace.wait(target.host)
            rules = replace(self._rules(), max_bytes=MAX_ROBOTS)
            sender = await self._sender(rules)
            async with request.time.spent_on(source), sender.send(target, exit_) as answer:
                if answer.has_redirect_location:
                    source = redirect_target(target, answer.headers["location"])
                    continue
                self._obey_retry_after(target, answer)
                if answer.is_client_error and answer.status_code not in TRANSIENT:  # RFC 9309, 2.3.1.3
                    return ""
                check_status(answer, source, self._clock)
                return (await read_body(answer, rules)).decode("utf-8", "replace")
        raise permanent(f"{url}: more than {MAX_REDIRECTS} redirects. Use another source.")

    def _obey_retry_after(self, target: httpx.URL, answer: httpx.Response) -> None:
        seconds = retry_after(answer, self._clock) if answer.status_code in TRANSIENT else None
        if seconds:
            self._pace.hold(target.host, seconds)

    async def _sender(self, rules: DownloadRules) -> Sender:
        if self._context is None:
            self._context = await asyncio.to_thread(httpx.create_ssl_context)  # reads a few hundred certificates
        headers = {"user-agent": self._settings.user_agent, "accept": _ACCEPT, "accept-encoding": "gzip"}
        return Sender(rules, self._context, headers, httpx.Timeout(_READ_S, connect=_CONNECT_S))
