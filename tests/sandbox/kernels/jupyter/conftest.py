"""Fixtures with separate folders of Jupyter for each test module, where our kernelspec is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.kernels.jupyter import private


@pytest.fixture(scope="module")
def jupyter_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of Jupyter. `share/jupyter/kernels` has our kernelspec, with a workspace at `workspace`."""
    home = tmp_path_factory.mktemp("jupyter")
    (home / "workspace").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in private.variables(home).items():
            patch.setenv(name, value)
        private.install(home, workspace=str(home / "workspace"), memory_bytes=1 << 30)
        yield home
