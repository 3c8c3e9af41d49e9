"""One sandbox per test module: a template is started once, every job gets a fresh box of it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox() as sandbox:
        yield sandbox
