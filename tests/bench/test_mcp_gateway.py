"""The official client and the MCP Inspector use servers of others through the gateway."""

import os
from pathlib import Path

import pytest

from bench.mcp_gateway.run import install, isolated, wrong

pytestmark = [pytest.mark.soak, pytest.mark.spec("CODE-6", "FACE-2"), pytest.mark.timeout(2_000)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
def test_six_servers_of_others_are_used_through_three_tools(tmp_path: Path) -> None:
    folder = Path(os.environ.get("MCP_GATEWAY_FOLDER", str(tmp_path)))
    install(folder)
    found = isolated(folder)
    assert wrong(found) == []
    own = sum(len(text) for _, text in found["lists"].values())
    assert all(len(text) < own / 5 for _, text in found["gateway"].values())
