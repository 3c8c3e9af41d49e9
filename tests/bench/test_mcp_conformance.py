"""Knackbox's MCP server passes every check of the conformance suite for the current revision."""

import os
from pathlib import Path

import pytest

from bench.mcp_conformance.run import install, isolated, report

pytestmark = [pytest.mark.services, pytest.mark.spec("FACE-2"), pytest.mark.timeout(2_000)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
def test_every_check_of_the_revision_passes_and_no_fewer_than_with_fastmcp(tmp_path: Path) -> None:
    folder = Path(os.environ.get("MCP_CONFORMANCE_FOLDER", str(tmp_path)))
    install(folder)
    found = report(isolated(folder))
    assert found["Knackbox"]["failed"] == []
    assert found["Knackbox"]["passed beyond an empty URL"] >= found["FastMCP"]["passed beyond an empty URL"] > 100
