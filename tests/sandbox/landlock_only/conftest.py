"""One sandbox per test module, and a folder that its jobs may work in whoever runs the tests."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox

SOMEBODY = 65_000  # an ordinary user id; nobody need have it
PACKAGES = str(Path(np.__file__).parents[1])  # also where another interpreter than the environment's runs the tests


def config() -> LandlockConfig:
    return LandlockConfig(packages=(PACKAGES,))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[LandlockSandbox]:
    async with LandlockSandbox(config()) as sandbox:
        yield sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of an ordinary user, below folders everybody may pass, unlike root's `tmp_path`."""
    path = Path(tempfile.mkdtemp(prefix="knackbox-workspace-"))
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    yield path
    shutil.rmtree(path)
