"""One stage and one sandbox per test module."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check.attempts.stage import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of these tests for `make escapes`, which takes about a minute."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.escapes)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(stage: Stage) -> AsyncIterator[NamespaceSandbox]:
    """Start a sandbox after the secrets exist: they must not be inherited through the environment."""
    async with NamespaceSandbox() as sandbox:
        yield sandbox
