"""Searches return results, and what is not a page of results is a failure, never "no results"."""

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import SearchHit
from builtin_tools.web.search.duckduckgo import TIMEOUT_S, DuckDuckGo
from builtin_tools.web.search.engines import EngineAnswer, SearchEngine, SearchRequest
from builtin_tools.web.search.same_page import merge_same_pages, page_key
from builtin_tools.web.search.searxng import SearXng
from builtin_tools.web.search.service import CachedWebSearch
from engine.contract.context import no_progress
from engine.contract.failure import FailureClass, ToolFailure
from engine.stores.clock import SystemClock
from sandbox.contract import Sandbox
from tests.builtin_tools.web.corpus.loopback import ROUTE, LoopbackClient
from tests.builtin_tools.web.corpus.web import ACCEPTED, CAPTCHA, HALF, LIMITED, NOTHING, REDESIGN

FORM = "http://html.duckduckgo.com/html/"

pytestmark = pytest.mark.spec("WEB-2")


@pytest.fixture(params=["DuckDuckGo", "SearXNG"])
def engine(request: pytest.FixtureRequest, client: LoopbackClient, box: Sandbox) -> SearchEngine:
    if request.param == "DuckDuckGo":
        return DuckDuckGo(client, box, url=FORM)
    return SearXng(client, "http://searx.test/")


async def ask(engine: SearchEngine, query: str, page: int = 1) -> EngineAnswer:
    return await engine.search(SearchRequest(query, page), circuit="task", progress=no_progress)


async def failure_of(engine: SearchEngine, query: str) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await ask(engine, query)
    assert not caught.value.may_have_started
    return caught.value


@pytest.mark.slow
async def test_results_have_titles_urls_snippets_and_dates(engine: SearchEngine) -> None:
    answer = await ask(engine, "strait Veldmoor bridge opened 1931")
    best = answer.hits[0]
    assert (best.url, best.title, best.date) == ("http://source0.test/bridge", "The Veldmoor bridge", "2019-03-02")
    assert "1931" in best.snippet
    assert (answer.route, answer.more) == (ROUTE, True)


@pytest.mark.slow
async def test_pages_of_results_continue_without_gaps_until_the_last(engine: SearchEngine) -> None:
    answers = [await ask(engine, "sandbox box template", page) for page in (1, 2, 3)]
    urls = [hit.url for answer in answers for hit in answer.hits]
    assert len(urls) == len(set(urls)) > 25
    last = await ask(engine, "Lighthouse keeper of Veldmoor site:source1.test")
    assert [hit.url for hit in last.hits] == ["http://source1.test/bridge"]


@pytest.mark.slow
async def test_no_results_are_told_from_answers_that_are_no_results(engine: SearchEngine) -> None:
    answer = await ask(engine, "qqqzzz xxkkjj")
    assert (answer.hits, answer.more) == ((), False)


BLOCKED = {CAPTCHA: "a person", ACCEPTED: "202", LIMITED: "429"}
CHANGED = {REDESIGN: "neither results", NOTHING: "empty", f"sandbox {HALF}": "neither results"}


@pytest.mark.slow
@pytest.mark.parametrize("query", [*BLOCKED, *CHANGED])
async def test_a_page_that_is_no_page_of_results_is_a_failure_with_its_reason(
    client: LoopbackClient, box: Sandbox, query: str
) -> None:
    failure = await failure_of(DuckDuckGo(client, box, url=FORM), query)
    blocked = query in BLOCKED
    assert failure.reason == ("search_blocked" if blocked else "search_changed")
    assert failure.failure_class is (FailureClass.RETRYABLE if blocked else FailureClass.UNKNOWN)
    assert {**BLOCKED, **CHANGED}[query] in str(failure)
    assert "searxng" in str(failure)
    assert failure.retry_after == (90.0 if query == LIMITED else None)


async def test_an_instance_whose_engines_are_silent_or_that_answers_no_json_is_a_failure(
    client: LoopbackClient,
) -> None:
    silent = await failure_of(SearXng(client, "http://searx.test"), CAPTCHA)
    assert (silent.reason, "CAPTCHA" in str(silent)) == ("search_blocked", True)
    no_json = await failure_of(SearXng(client, "http://html.duckduckgo.com"), "sandbox")
    assert (no_json.reason, "search.formats" in str(no_json)) == ("search_changed", True)
    missing = await failure_of(SearXng(client, "http://knackbox.test"), "sandbox")
    assert missing.reason == "search_changed"


@pytest.mark.slow
async def test_a_direct_search_is_refused_if_the_environment_would_send_it_to_a_proxy(
    client: LoopbackClient, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Direct(LoopbackClient):
        async def proxy_of(self, host: str, *, circuit: str) -> tuple[str | None, str]:
            return None, "direct"

    monkeypatch.setenv("HTTP_PROXY", client.proxy)  # the corpus would answer, if it were asked
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    failure = await failure_of(DuckDuckGo(Direct(1), box, url=FORM), "sandbox")
    assert (failure.reason, failure.failure_class) == ("not_configured", FailureClass.FATAL)


@pytest.mark.slow
async def test_a_route_that_is_down_sends_nothing(client: LoopbackClient, box: Sandbox) -> None:
    client.down = True
    assert (await failure_of(DuckDuckGo(client, box, url=FORM), "sandbox")).reason == "route_down"
    client.down = False
    client.proxy = "http://127.0.0.1:9"  # nothing listens at the discard port
    assert (await failure_of(DuckDuckGo(client, box, url=FORM), "sandbox")).reason == "search_unavailable"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n<html>"])
async def test_a_cancelled_search_closes_its_connection_at_once(
    client: LoopbackClient, box: Sandbox, answer: bytes
) -> None:
    asked: asyncio.Queue[bytes] = asyncio.Queue()
    closed = asyncio.Event()

    async def answer_in_part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.put_nowait(await reader.readuntil(b"\r\n"))
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(answer_in_part, "127.0.0.1", 0)
    client.proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        search = asyncio.create_task(ask(DuckDuckGo(client, box, url=FORM), "sandbox"))
        assert FORM.encode() in await asyncio.wait_for(asked.get(), 60)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        await asyncio.wait_for(closed.wait(), TIMEOUT_S / 2)  # the limit of the request would close it later


async def test_a_cancelled_search_also_ends_while_a_proxy_does_not_answer(client: LoopbackClient, box: Sandbox) -> None:
    greeted, closed = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                greeted.set()
        closed.set()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    client.proxy = f"socks5h://task:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        search = asyncio.create_task(ask(DuckDuckGo(client, box, url=FORM), "sandbox"))
        await asyncio.wait_for(greeted.wait(), 60)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        await asyncio.wait_for(closed.wait(), TIMEOUT_S / 2)


async def test_results_are_kept_and_used_again_for_some_time(client: LoopbackClient, tmp_path: Path) -> None:
    engine, kept = SearXng(client, "http://searx.test"), CachedFiles(tmp_path / "kept", 1 << 20)
    search = CachedWebSearch(engine, kept, SystemClock(), timedelta(minutes=15))
    first = await search.search("sandbox  box", circuit="a", most=3)
    assert (len(first.hits), first.cached_at, first.more, first.engine) == (3, None, True, "SearXNG")
    again = await search.search("sandbox box", circuit="b", most=5)
    assert again.cached_at is not None
    assert (again.hits[:3], len(again.hits), client.circuits) == (first.hits, 5, ["a"])
    client.down = True
    expired = CachedWebSearch(engine, kept, SystemClock(), timedelta(0))
    with pytest.raises(ToolFailure, match="route is down"):
        await expired.search("sandbox box", circuit="c")
    old = await expired.cached("sandbox box")
    assert old is not None
    assert old.hits[:5] == again.hits
    assert await expired.cached("sandbox box", page=2) is None


SAME = [
    "http://example.org/a",
    "https://www.example.org/a/",
    "https://example.org/a/index.html",
    "https://m.example.org:443/a?utm_source=x&fbclid=1",
    "https://example.org/b/../a#part",
]
OTHER = ["https://example.org/b", "https://example.org/a?id=1", "https://other.org/a", "https://example.org:8443/a"]


def test_results_of_the_same_page_are_merged_and_keep_the_longest_snippet_and_a_date() -> None:
    hits = [
        SearchHit(f"t{number}", url, "s" * number, "2020" * (number == 2)) for number, url in enumerate(SAME + OTHER)
    ]
    merged = merge_same_pages(hits)
    assert [hit.url for hit in merged] == [SAME[0], *OTHER]
    assert (merged[0].title, merged[0].snippet, merged[0].date) == ("t0", "ssss", "2020")


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_has_a_page_key_and_a_fragment_changes_none(rest: str, fragment: str) -> None:
    url = f"http://example.org/{rest}"
    assert page_key(url) == page_key(url)
    if "#" not in url:
        assert page_key(f"{url}#{fragment}") == page_key(url)
