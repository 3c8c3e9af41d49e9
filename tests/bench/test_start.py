"""`knackbox bench start`: the ratios that it reports, and a server that does not answer."""

import os
import sys

import pytest

from bench.mcp_start import start
from bench.start import INITIALIZE, OURS, PEER, TYPER, rows_of
from bench.timing import Series

pytestmark = pytest.mark.spec("FACE-12")


def test_servers_are_compared_with_fastmcp_and_commands_with_an_import_of_typer() -> None:
    measured = [
        Series("command", TYPER, (50.0, 50.0)),
        Series("command", "knackbox --help", (100.0, 100.0)),
        Series(INITIALIZE, PEER, (400.0, 400.0)),
        Series(INITIALIZE, OURS, (100.0, 100.0)),
    ]
    ratios = {(row["code"], row["way"]): row["ratio"] for row in rows_of(measured)}
    assert ratios[INITIALIZE, OURS] == 0.25
    assert ratios["command", "knackbox --help"] == 2.0
    assert rows_of(measured[3:])[0]["ratio"] is None  # no peer, no ratio


async def test_a_server_that_ends_before_it_answers_raises_an_error_with_its_stderr() -> None:
    broken = (sys.executable, "-c", "raise SystemExit('no home')")
    with pytest.raises(RuntimeError, match="ended before it answered: no home"):
        await start(broken, os.environ)
