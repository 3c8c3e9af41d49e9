"""One server shared by all tests that use it over HTTP, each with its own tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http.servers import Server, running

CONFIG = """
[http]
body_s = 1.0
body_bytes = 20000
calls_per_token = 3

[policy]
approval = "confirmation"
approval_expires_s = 30
"""


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root: Path = tmp_path_factory.mktemp("http")
    with running(root, CONFIG) as found:
        yield found
