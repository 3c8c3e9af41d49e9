"""Fixtures for the tests of searches: the small corpus with its search engines, and a client that reaches it."""

from collections.abc import Iterator

import pytest

from tests.builtin_tools.web.corpus.loopback import LoopbackClient
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.web import CorpusWeb


@pytest.fixture(scope="session")
def corpus() -> CorpusWeb:
    return CorpusWeb.small()


@pytest.fixture
def client(corpus: CorpusWeb) -> Iterator[LoopbackClient]:
    with serving_corpus(corpus) as port:
        yield LoopbackClient(port)
