"""A short run of the load benchmark: its clients reach both servers and count the results."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.load import command
from bench.load.clients import ClientReport


@pytest.mark.spec("FACE-6")
@pytest.mark.timeout(400)
def test_clients_of_both_servers_are_served_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(command.__file__).parents[2])
    ours, peer = command.bench(1, Console(quiet=True), clients=(2,), seconds=2.0)
    assert (ours["way"], peer["way"]) == ("knackbox serve", "Starlette + python -c")
    for row in (ours, peer):
        assert row["p50_ms"] > 0
        assert (row["timeouts"], row["errors"], row["without_retry_after"]) == (0, 0, 0), row["first_error"]


@pytest.mark.spec("FACE-6")
def test_the_tables_show_every_number_in_80_columns() -> None:
    loads = [command.Load(1000, way, seconds=10.0) for way in ("knackbox serve", "Starlette + python -c")]
    for load in loads:
        load.add(
            ClientReport(
                within=98765, served=[12.3456], refusals=[0.98765], promises=[(1.0, True), None], timeouts=4321
            ),
            10,
        )
    rows = [{**load.row(), "ratio": 123.45} for load in loads]
    console = Console(width=80, record=True, quiet=False, file=StringIO())
    command.show(rows, console)
    shown = console.export_text()
    assert "…" not in shown
    for number in ("1000", "4938.2", "12345.6", "123.45", "988", "100.0%", "4321"):
        assert shown.count(number) >= len(rows), number
    assert "1 refusals had no Retry-After" in shown
