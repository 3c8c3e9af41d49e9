"""The whole corpus behind a real Tor network: searches with ddgs, pages, and nothing that leaves by another way."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builtin_tools.web.corpus.server import serving_on
from tests.builtin_tools.web.corpus.sites import OWN, PACKAGES
from tests.builtin_tools.web.corpus.web import ACCEPTED, CAPTCHA, DUCKDUCKGO, PRIVATE, SEARXNG, CorpusWeb
from tests.builtin_tools.web.test_untrusted import MARKED
from tests.builtin_tools.web.tor_network import REPOSITORY, TorNetwork

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
SCRIPT = [sys.executable, str(REPOSITORY / "tests/builtin_tools/web/tools_script.py")]
DEADLINE_S = 600.0
Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def corpus() -> CorpusWeb:
    return CorpusWeb.full()


@pytest.fixture(scope="module")
def served(tor_network: TorNetwork, corpus: CorpusWeb) -> Iterator[TorNetwork]:
    """Serve all hosts of the corpus behind the exits: the form of DuckDuckGo over TLS, the others over HTTP."""
    hosts = sorted({host for host, _ in corpus.pages} | {SEARXNG, "redirect.test", "slow.test", "large.test"})
    tor_network.tls(DUCKDUCKGO)  # writes the certificate
    certificate = str(tor_network.ca_file.with_name(f"{DUCKDUCKGO}.pem"))
    plain, secure = tor_network.listen(*hosts, port=80), tor_network.listen(DUCKDUCKGO, port=443)
    with serving_on(corpus, plain), serving_on(corpus, secure, {"ssl_certfile": certificate}):
        yield tor_network


def called(network: TorNetwork, home: Path, calls: Calls, *, searxng: bool = False) -> list[dict[str, Any]]:
    """Call tools of an engine in the client's namespace. Names under .test are not public, so they are allowed."""
    allow = [*PACKAGES, OWN, "redirect.test", "injection.test", "source0.test", SEARXNG]
    config = (
        f"[packs.web]\nallow = {allow}\nrequests_per_s = 50.0\nburst = 100\n"
        f'[packs.web.tor]\nsocks = "{network.settings()["tor"]["socks"]}"\n'
        + (f'[packs.web.search]\nsearxng = "http://{SEARXNG}"\n' if searxng else "")
    )
    given = json.dumps({"home": str(home), "config": config, "calls": calls})
    return [json.loads(line) for line in network.run_in_client(SCRIPT, stdin=given, timeout=DEADLINE_S).splitlines()]


@pytest.mark.spec("WEB-2")
def test_the_corpus_has_at_least_two_thousand_real_pages(corpus: CorpusWeb) -> None:
    assert sum(host in PACKAGES for host, _ in corpus.pages) >= 2_000


@pytest.mark.spec("WEB-1", "WEB-2")
def test_ddgs_searches_through_tor_alone_and_sees_when_it_is_refused(served: TorNetwork, tmp_path: Path) -> None:
    query = {"query": "vacuum full table lock"}
    words: Calls = [
        ("web_search", query),
        ("web_search", {**query, "page": 2}),
        ("web_search", {"query": "qqqzzz xxkkjj"}),
        ("web_search", {"query": CAPTCHA}),
        ("web_search", {"query": ACCEPTED}),
    ]
    with served.counted() as packets:
        first, second, none, captcha, accepted = called(served, tmp_path / "home", words)
    assert first["success"], first["text"]
    assert (first["output"]["engine"], first["output"]["route"]) == ("DuckDuckGo", "Tor")
    urls = [hit["url"] for each in (first, second) for hit in each["output"]["hits"]]
    assert "http://postgresql.test/sql-vacuum.html" in urls[:3]
    assert len(urls) == len(set(urls)) == 20
    assert (none["success"], none["output"]["hits"]) == (True, [])
    assert [captcha["reason"], accepted["reason"]] == ["search_blocked"] * 2
    assert packets["socks"] > 0
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)


@pytest.mark.spec("WEB-1", "WEB-3")
def test_real_pages_are_read_through_tor_alone_and_private_addresses_are_not_reached(
    served: TorNetwork, corpus: CorpusWeb, tmp_path: Path
) -> None:
    real = [page for page in corpus.pages.values() if page.host in PACKAGES and len(page.words) > 2_000]
    chosen = real[:: len(real) // 40]
    pages: Calls = [("fetch_page", {"url": page.url}) for page in chosen]
    private: Calls = [("fetch_page", {"url": f"http://redirect.test/{name}"}) for name in PRIVATE]
    with served.counted() as packets:
        results = called(served, tmp_path / "home", [*pages, *private])
    read = results[: len(pages)]
    assert [page.url for page, result in zip(chosen, read, strict=True) if not result["success"]] == []
    assert all(MARKED.match(result["text"].partition("\n")[2]) for result in read)
    assert all(result["output"]["route"] == "Tor" for result in read)
    lengths = [result["output"]["characters"] for result in read]
    assert min(lengths) > 500
    assert [result["success"] for result in results[len(pages) :]] == [False] * len(private)
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)


@pytest.mark.spec("WEB-2")
def test_a_searxng_instance_is_asked_through_tor(served: TorNetwork, tmp_path: Path) -> None:
    (found,) = called(served, tmp_path / "home", [("web_search", {"query": "json dump ensure_ascii"})], searxng=True)
    assert found["success"], found["text"]
    assert (found["output"]["engine"], found["output"]["hits"][0]["url"]) == (
        "SearXNG",
        "http://python.test/library/json.html",
    )
