"""`LoopbackClient`: a `WebClient` that reaches the corpus on loopback, for tests of what uses such a client."""

from collections.abc import Sequence
from datetime import UTC, datetime

import httpx

from builtin_tools.web.contract import Progress, WebResponse
from engine.contract.failure import FailureClass, ToolFailure
from tests.builtin_tools.web.corpus.sites import OWN
from tests.builtin_tools.web.corpus.web import SEARXNG

ROUTE = "loopback"
# Names under .test are not public, so an engine must be told that it may request them.
OPEN_HOSTS = (OWN, "injection.test", "hidden.test", "redirect.test", "slow.test", "large.test", "source0.test")


class LoopbackClient:
    """Implements `WebClient` with the corpus as its proxy.

    Attributes:
        circuits: The circuit of every request.
    """

    def __init__(self, port: int) -> None:
        self.proxy = f"http://127.0.0.1:{port}"
        self.circuits: list[str] = []
        self.down = False

    async def get(
        self, url: str, *, circuit: str, max_bytes: int | None = None, progress: Progress | None = None
    ) -> WebResponse:
        self._use(circuit)
        async with httpx.AsyncClient(proxy=self.proxy, trust_env=False, follow_redirects=True, timeout=10) as client:
            answer = await client.get(url)
        if not answer.is_success:
            raise ToolFailure(f"{url} answered {answer.status_code}.", reason="http_status", may_have_started=False)
        media_type, _, rest = answer.headers.get("content-type", "").partition(";")
        charset = rest.partition("charset=")[2].strip()
        return WebResponse(
            str(answer.url),
            media_type.strip().lower(),
            charset,
            dict(answer.headers),
            answer.content,
            ROUTE,
            datetime.now(UTC),
        )

    async def proxy_of(self, host: str, *, circuit: str) -> tuple[str | None, str]:
        self._use(circuit)
        return self.proxy, ROUTE

    def _use(self, circuit: str) -> None:
        self.circuits.append(circuit)
        if self.down:
            raise ToolFailure(
                "The route is down.", failure_class=FailureClass.RETRYABLE, reason="route_down", may_have_started=False
            )


def reaching(port: int, direct: Sequence[str] = ()) -> str:
    """Return the configuration of an engine whose web requests go to the corpus on loopback.

    Args:
        port: The port of the corpus.
        direct: Hosts to which requests go directly instead, whatever their addresses.
    """
    hosts = [*OPEN_HOSTS, SEARXNG, *direct]
    routes = "".join(f'"{host}" = "direct"\n' for host in direct)
    return (
        f'[packs.web]\nroute = "http://127.0.0.1:{port}"\nallow = {hosts}\nrequests_per_s = 100.0\nburst = 100\n'
        f'[packs.web.search]\nsearxng = "http://{SEARXNG}"\n[packs.web.hosts]\n{routes}'
    )
