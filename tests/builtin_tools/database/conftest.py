"""A PostgreSQL cluster for each module of tests, since some change its roles and functions, and engines that use it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.people import People
from engine.app.settings import Settings
from tests.builtin_tools.database.cluster import Cluster, cluster

Opener = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def opened(postgres: Cluster, tmp_path: Path) -> Opener:
    """Open an engine whose database pack uses the cluster. Keywords are settings of the pack."""

    @asynccontextmanager
    async def open_engine(people: People | None = None, **pack: Any) -> AsyncIterator[Engine]:
        if not {"dsn", "dsn_env", "dsn_file"} & pack.keys():
            pack["dsn"] = postgres.reader
        settings = Settings.model_validate({"packs": {"database": pack}})
        async with Engine.open(tmp_path / "home", settings=settings, environ={}, people=people) as engine:
            yield engine

    return open_engine
