"""Fixtures for the tests of pages: the small corpus, a client that reaches it, and a reader."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from builtin_tools.web.pages.page_cache import PageCache
from builtin_tools.web.pages.reader import BoxedPageReader
from engine.stores.clock import SystemClock
from sandbox.contract import Sandbox
from tests.builtin_tools.web.corpus.loopback import LoopbackClient
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.web import CorpusWeb


@pytest.fixture(scope="module")
def corpus() -> CorpusWeb:
    return CorpusWeb.small()


@pytest.fixture
def client(corpus: CorpusWeb) -> Iterator[LoopbackClient]:
    with serving_corpus(corpus) as port:
        yield LoopbackClient(port)


@pytest.fixture
def reader(client: LoopbackClient, box: Sandbox, tmp_path: Path) -> BoxedPageReader:
    return BoxedPageReader(client, box, PageCache(tmp_path / "pages", 64 << 20), SystemClock(), timedelta(days=1))
