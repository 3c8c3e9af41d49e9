"""The load benchmark, in short: its clients reach both servers and count what they see."""

from pathlib import Path

import pytest
from rich.console import Console

from bench.load import command


@pytest.mark.spec("FACE-6")
@pytest.mark.timeout(400)
def test_clients_of_both_servers_are_served_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(command.__file__).parents[2])
    ours, peer = command.bench(1, Console(quiet=True), clients=(2,), seconds=2.0)
    assert (ours["way"], peer["way"]) == ("knackbox serve", "Starlette + python -c")
    for row in (ours, peer):
        assert row["p50_ms"] > 0
        assert (row["timeouts"], row["errors"], row["without_retry_after"]) == (0, 0, 0), row["first_error"]
