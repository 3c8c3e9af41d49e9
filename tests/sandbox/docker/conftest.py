"""One sandbox per test module. Without a Docker Engine and its image, these tests fail; they are never skipped."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig

SOMEBODY = 12_345  # a host user who is not root
RUNTIME = os.environ.get("KNACKBOX_TEST_RUNTIME", "")  # "runsc" runs the same tests under gVisor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[DockerSandbox]:
    async with DockerSandbox(DockerConfig(runtime=RUNTIME)) as sandbox:
        yield sandbox


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder that belongs to an ordinary user."""
    folder = tmp_path / "place"
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    return folder
