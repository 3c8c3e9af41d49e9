"""Fixtures: one sandbox for each test module, so that its template is started only once."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox() as sandbox:
        yield sandbox
