"""Fixtures for the web pack."""

from collections.abc import Iterator

import pytest

from tests.builtin_tools.web.tor_network import TorNetwork, running_network


@pytest.fixture(scope="module")
def tor_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorNetwork]:
    """Return a private Tor network (see `tor_network.py`). Tests that use it are marked `services`."""
    with running_network(tmp_path_factory.mktemp("tor") / "network") as network:
        yield network
