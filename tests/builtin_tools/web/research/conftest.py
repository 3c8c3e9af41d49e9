"""Fixtures for the tests of research: a web in memory, and a model that is scripted over HTTP."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from builtin_tools.web.contract import PageReader, WebSearch
from builtin_tools.web.research.service import ResearchService
from engine.agent.clients.completion import ModelCompletion
from engine.agent.clients.endpoint import ModelEndpoint
from engine.contract.context import CallContext
from engine.stores.embedder import WordLlamaEmbedder
from tests.agent.scripted_model import ScriptedModel


class ReadableWeb(PageReader, WebSearch, Protocol):
    """What reads pages and searches them."""


WithModel = Callable[[ReadableWeb, ScriptedModel | None], CallContext]


@pytest.fixture(scope="session")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture
def research_ctx(ctx: CallContext, tmp_path: Path, embedder: WordLlamaEmbedder) -> WithModel:
    """Return a function that makes the context of a call from a web and a model."""

    def make(web: ReadableWeb, model: ScriptedModel | None) -> CallContext:
        service = ResearchService(web, web, lambda: embedder, tmp_path / "journals")
        client = None
        if model is not None:
            client = ModelCompletion(ModelEndpoint("openai", "scripted", model.base_url, "k", 30.0))
        return replace(ctx, services={**ctx.services, ResearchService: service}, llm_client=client)

    return make
