"""The benchmarks of calls and lists run, measure what they claim, and name missing frameworks. Figures are not checked."""

from io import StringIO

import pytest
from rich.console import Console

from bench import assembly, pipeline
from bench.frameworks import FRAMEWORKS, REMEDY, Framework


@pytest.mark.slow
@pytest.mark.spec("CALL-10")
def test_a_call_is_measured_beside_every_installed_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Framework("missing: framework", "no_such_package_here", FRAMEWORKS[0].open)
    monkeypatch.setattr(pipeline, "FRAMEWORKS", (*FRAMEWORKS, missing))
    shown = StringIO()
    rows = {row["way"]: row for row in pipeline.bench(20, Console(file=shown, width=200))}
    assert rows[pipeline.OURS]["count"] == 20
    assert missing.absent
    for each in (*FRAMEWORKS, missing):
        if each.absent:
            assert rows[f"{each.name}: {REMEDY}"]["count"] == 0
        else:
            assert rows[each.name]["p50_us"] <= rows[each.name]["p95_us"] <= rows[each.name]["p99_us"]
    assert {row["way"] for row in rows.values() if row["what"] == "recorded"} == {"destructive", "keyed"}
    assert all(name in shown.getvalue() for name in rows)


@pytest.mark.spec("LIST-7")
def test_lists_are_measured_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SIZES", (50, 200))
    rows = assembly.bench(3, Console(file=StringIO()))
    listed = {(row["what"], row["way"]): row["listed"] for row in rows}
    assert listed["200", "new query, one changed skill"] == 100 + assembly.RETRIEVED
    assert listed["200", "no query: all skills, one changed"] == 200
    assert {row["count"] for row in rows} == {3}
