"""One sandbox per test module, and a folder that its jobs may use even if root runs the tests."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox

SOMEBODY = 65_000  # an ordinary user id; no account needs to have it
PACKAGES = str(Path(np.__file__).parents[1])  # correct even if the tests run in an interpreter of another environment


def config() -> LandlockConfig:
    return LandlockConfig(packages=(PACKAGES,))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[LandlockSandbox]:
    async with LandlockSandbox(config()) as sandbox:
        yield sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder of an ordinary user, below folders that everybody can enter, unlike root's `tmp_path`."""
    path = Path(tempfile.mkdtemp(prefix="knackbox-workspace-"))
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    yield path
    shutil.rmtree(path)
