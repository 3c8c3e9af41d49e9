"""No tool holds up the event loop: neither its first use, nor a large value, nor many files."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

MOST_MS = 50.0


@pytest.mark.spec("CALL-14")
@pytest.mark.timeout(400)
async def test_no_callback_of_any_tool_takes_the_event_loop_more_than_fifty_milliseconds(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.builtin_tools.event_loop_probe",
        str(tmp_path / "home"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    found = json.loads(said)
    assert [(row["tool"], row["wrong"]) for row in found["rows"] if row["wrong"]] == []
    assert {row["tool"] for row in found["rows"]} == set(found["tools"]), "every tool is tried"
    slow = [(row["tool"], round(row["ms"]), row["where"]) for row in found["rows"] if row["ms"] > MOST_MS]
    assert slow == []
