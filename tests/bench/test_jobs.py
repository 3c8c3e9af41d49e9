"""The benchmark of jobs claims what is due, in databases of every size."""

import pytest
from rich.console import Console

from bench import jobs


@pytest.mark.slow
@pytest.mark.spec("JOB-1")
def test_each_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SIZES", (50, 100))
    rows = jobs.bench(2, Console(quiet=True))
    assert {(row["code"], row["way"]) for row in rows} == {
        (code, way) for code in ("claim", "end", "idle") for way in ("50 jobs", "100 jobs")
    }
