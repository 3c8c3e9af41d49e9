"""The tools of the web pack send nothing past Tor, also where a library sends the requests."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.builtin_tools.web.corpus.web import DUCKDUCKGO, CorpusWeb
from tests.builtin_tools.web.tor_network import REPOSITORY, TorNetwork
from tests.eventually import eventually_sync

pytestmark = [pytest.mark.spec("WEB-1"), pytest.mark.services, pytest.mark.timeout(300)]
SCRIPT = [sys.executable, str(REPOSITORY / "tests/builtin_tools/web/tor_tools_script.py")]


@contextmanager
def serving_behind_tor(network: TorNetwork, web: CorpusWeb) -> Iterator[None]:
    """Serve the corpus to the exits, under the names of all its hosts, until the end of the block."""
    hosts = sorted({DUCKDUCKGO, *(host for host, _ in web.pages)})
    with (
        serving_at(network.listen(*hosts, port=80), web),
        serving_at(network.listen(*hosts), web, ssl_certfile=network.certificate(*hosts)),
    ):
        yield


@contextmanager
def serving_at(listener: socket.socket, web: CorpusWeb, **tls: Path) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(web, log_level="critical", lifespan="off", **tls))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    eventually_sync(lambda: server.started)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def called(network: TorNetwork, home: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[packs.web.tor]\nsocks = "{network.socks}"\n')
    given = json.dumps({"home": str(home), "calls": calls}) + "\n"
    return [json.loads(line) for line in network.run_in_client(SCRIPT, stdin=given, timeout=200).splitlines()]


@pytest.fixture(scope="module")
def web() -> CorpusWeb:
    return CorpusWeb.small()


def test_a_search_and_the_page_that_it_finds_go_through_tor_alone(
    tor_network: TorNetwork, web: CorpusWeb, tmp_path: Path
) -> None:
    page = next(each for each in web.found("sandbox"))
    with (
        serving_behind_tor(tor_network, web),
        tor_network.counted() as packets,
        tor_network.streams() as streams,
        tor_network.exit_circuits() as at_exits,
    ):
        search, fetch = called(
            tor_network, tmp_path, ("web_search", {"query": "sandbox"}), ("fetch_page", {"url": page.url})
        )
    assert search["success"], search["error"]
    assert fetch["success"], fetch["error"]
    assert (search["output"]["route"], fetch["output"]["route"]) == ("Tor", "Tor")
    assert page.url in {hit["url"] for hit in search["output"]["hits"]}
    assert all(len(users) == 1 for users in streams.users_by_circuit().values())
    hosts = [set(asked) for asked in at_exits.values()]
    assert ({DUCKDUCKGO} in hosts, {page.host} in hosts, len(hosts)) == (True, True, 2)
    assert packets["socks"] > 0
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)


def test_with_tor_killed_the_tools_refuse_and_send_nothing(
    tor_network: TorNetwork, web: CorpusWeb, tmp_path: Path
) -> None:
    with serving_behind_tor(tor_network, web):
        tor_network.kill_tor()
        try:
            with tor_network.counted() as packets:
                search, fetch = called(
                    tor_network,
                    tmp_path,
                    ("web_search", {"query": "sandbox"}),
                    ("fetch_page", {"url": f"https://{DUCKDUCKGO}/"}),
                )
        finally:
            tor_network.start_tor()
    assert not search["success"]
    assert not fetch["success"]
    assert "Tor" in search["error"]
    assert "Tor" in fetch["error"]
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)
