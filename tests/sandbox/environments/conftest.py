"""A separate cache for every test, and packages that are created by the test."""

from pathlib import Path

import pytest

from sandbox.environments.environments import Environments, EnvironmentsConfig
from tests.sandbox.environments.wheels import from_folder, make_wheel


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """Return a folder with the wheels alpha 1.0 and 2.0, beta (needs alpha>=2) and gamma (needs alpha<2)."""
    folder = tmp_path / "links"
    folder.mkdir()
    make_wheel(folder, "alpha", "1.0")
    make_wheel(folder, "alpha", "2.0")
    make_wheel(folder, "beta", requires=("alpha>=2",))
    make_wheel(folder, "gamma", requires=("alpha<2",))
    return folder


@pytest.fixture
def config(tmp_path: Path) -> EnvironmentsConfig:
    return EnvironmentsConfig(cache=tmp_path / "cache", build_s=60)


@pytest.fixture
def environments(config: EnvironmentsConfig, links: Path) -> Environments:
    return Environments(config, environ=from_folder(links))
