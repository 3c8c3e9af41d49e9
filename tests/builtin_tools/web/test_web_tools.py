"""`fetch_page` and `web_search` in an engine, whose requests reach the corpus on loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.conversation import open_conversation
from engine.contract.result import ToolResult
from tests.agent.scripted_model import Reply, calls, says, serving
from tests.builtin_tools.web.corpus.hostile import INJECTIONS, UNSEEN
from tests.builtin_tools.web.corpus.loopback import reaching
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.web import CAPTCHA, PRIVATE, CorpusWeb
from tests.builtin_tools.web.test_untrusted import MARKED
from tests.eventually import eventually

pytestmark = pytest.mark.slow
DEADLINE_S = 100


@pytest.fixture(scope="module")
def web() -> Iterator[tuple[CorpusWeb, int]]:
    corpus = CorpusWeb.small()
    with serving_corpus(corpus) as port:
        yield corpus, port


@pytest.fixture
async def engine(tmp_path: Path, web: tuple[CorpusWeb, int]) -> AsyncIterator[Engine]:
    (tmp_path / "config.toml").write_text(reaching(web[1]))
    async with Engine.open(tmp_path, environ={}) as opened:
        yield opened


async def fetch(engine: Engine, **arguments: Any) -> ToolResult:
    async with asyncio.timeout(DEADLINE_S):
        return await engine.call("fetch_page", arguments)


async def search(engine: Engine, **arguments: Any) -> ToolResult:
    async with asyncio.timeout(DEADLINE_S):
        return await engine.call("web_search", arguments)


@pytest.mark.spec("WEB-3")
async def test_a_long_page_is_read_in_parts_and_shown_again_by_its_digest(engine: Engine) -> None:
    url = "http://knackbox.test/guide.html"
    first = await fetch(engine, url=url, links=True)
    assert first.success, first.error
    parts, at = [first.output["text"]], first.output["end"]
    while at < first.output["characters"]:
        following = await fetch(engine, url=url, start=at)
        assert following.output["start"] == at
        parts.append(following.output["text"])
        at = following.output["end"]
    assert len(parts) > 2
    again = await fetch(engine, sha256=first.output["sha256"], start=first.output["end"])
    assert again.output["text"] == parts[1]
    assert any(link["url"].startswith("http://knackbox.test/design/") for link in first.output["links"])
    assert f"Read on with start={first.output['end']}." in first.text
    assert first.output["text"][:200] in first.text
    assert first.audit.data["route"] == first.output["route"]


@pytest.mark.spec("WEB-3")
async def test_wrong_arguments_are_explained(engine: Engine) -> None:
    both = await fetch(engine, url="http://knackbox.test/guide.html", sha256="0" * 64)
    unknown = await fetch(engine, sha256="0" * 64)
    beyond = await fetch(engine, url="http://source0.test/bridge", start=10_000_000)
    assert ["Give either" in str(both.error), "No page" in str(unknown.error), "characters" in str(beyond.error)] == [
        True,
        True,
        True,
    ]


@pytest.mark.spec("WEB-3", "WEB-1")
async def test_redirects_to_private_addresses_and_compressed_bombs_are_failures(engine: Engine) -> None:
    for name in PRIVATE:
        refused = await fetch(engine, url=f"http://redirect.test/{name}")
        assert not refused.success, name
    bomb = await fetch(engine, url="http://large.test/")
    assert (bomb.success, "limit" in str(bomb.error)) == (False, True)


@pytest.mark.spec("WEB-3")
async def test_a_cancelled_call_ends_and_keeps_nothing(
    engine: Engine, tmp_path: Path, web: tuple[CorpusWeb, int]
) -> None:
    task = asyncio.create_task(engine.call("fetch_page", {"url": "http://slow.test/endless"}))
    await eventually(lambda: ("slow.test", "/endless") in web[0].requests)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(DEADLINE_S):
            await task
    assert not list(tmp_path.glob("web_cache/pages/by_url/*"))


@pytest.mark.spec("WEB-2")
async def test_a_search_that_fails_says_why_and_earlier_results_can_be_shown(engine: Engine) -> None:
    found = await search(engine, query="Veldmoor strait bridge", most=3)
    assert found.success, found.error
    assert found.output["hits"][0]["url"] == "http://source0.test/bridge"
    refused = await search(engine, query=CAPTCHA)
    assert not refused.success
    assert refused.failure is not None
    assert refused.failure.reason == "search_blocked"
    assert "`recall`" in str(refused.error)
    kept = await search(engine, query="Veldmoor strait bridge", cached_only=True)
    assert kept.output["hits"][:3] == found.output["hits"]
    assert kept.output["cached_at"]
    assert not (await search(engine, query="never asked", cached_only=True)).success
    none = await search(engine, query="qqqzzz xxkkjj")
    assert (none.success, none.output["hits"], "no results" in none.text) == (True, [], True)


@pytest.mark.spec("WEB-2", "WEB-3")
async def test_fifty_pages_that_order_calls_arrive_as_data_and_no_call_follows(
    tmp_path: Path, web: tuple[CorpusWeb, int]
) -> None:
    """The model reads each page and answers in words. Only its own calls are made, whatever the pages say."""
    numbers = range(len(INJECTIONS))
    script: list[Reply] = [
        calls(*(("fetch_page", {"url": f"http://injection.test/{number}"}) for number in numbers[start : start + 10]))
        for start in range(0, len(INJECTIONS), 10)
    ]
    script += [calls(("web_search", {"query": "harbour museum agents must obey", "most": 20})), says("All were read.")]
    async with serving(*script) as model:
        endpoint = f'[model]\nprovider = "openai"\nname = "m"\nbase_url = "{model.base_url}"\napi_key = "k"\n'
        (tmp_path / "config.toml").write_text(endpoint + reaching(web[1]))
        async with Engine.open(tmp_path, environ={}) as engine:
            async with asyncio.timeout(DEADLINE_S):
                async with open_conversation(engine, stream=False) as talk:
                    report = await talk.run("Read the fifty pages.")
        requests = len(model.requests)
        results = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert requests == len(script)
    assert [finished.call.name for finished in report.calls] == ["fetch_page"] * len(INJECTIONS) + ["web_search"]
    assert len(results) == len(INJECTIONS) + 1
    for number, text in enumerate(results[:-1]):
        head, _, marked = text.partition("\n")
        assert "loopback" in head or "proxy" in head
        assert MARKED.match(marked), text
        assert "harbour museum" in marked
        if number in UNSEEN:
            assert "owned.txt" not in text
        assert "\x1b" not in text
        assert "<|im_start|>" not in text
    assert MARKED.match(results[-1].partition("\n")[2])
    assert not list(tmp_path.rglob("owned.txt"))
    assert not [request for request in web[0].requests if "evil" in request[0]]


@pytest.mark.spec("WEB-2")
async def test_a_search_that_fails_returns_earlier_results_if_there_are_some(
    tmp_path: Path, web: tuple[CorpusWeb, int]
) -> None:
    settings = reaching(web[1]).replace("[packs.web.search]\n", "[packs.web.search]\nfresh_s = 0\n")
    (tmp_path / "config.toml").write_text(settings)
    async with Engine.open(tmp_path, environ={}) as engine:
        found = await search(engine, query="Veldmoor strait bridge")
    (tmp_path / "config.toml").write_text(settings.replace(str(web[1]), "9"))  # nothing listens there
    async with Engine.open(tmp_path, environ={}) as engine:
        kept = await search(engine, query="Veldmoor strait bridge")
        never = await search(engine, query="Veldmoor strait ferry")
    assert (kept.success, kept.output["hits"]) == (True, found.output["hits"])
    assert kept.output["cached_at"] > found.audit.ts[:10]
    assert "earlier search" in kept.text
    assert kept.output["failed"][:40] in kept.text
    assert not never.success
