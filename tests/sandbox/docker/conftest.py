"""One sandbox per test module; without a Docker Engine and its image these tests fail, they are never skipped."""

import os
from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig

RUNTIME = os.environ.get("KNACKBOX_TEST_RUNTIME", "")  # "runsc" for a run of the same tests under gVisor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[DockerSandbox]:
    async with DockerSandbox(DockerConfig(runtime=RUNTIME)) as sandbox:
        yield sandbox
