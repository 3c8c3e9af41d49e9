"""Short runs of the benchmarks of boxes and kernels print every row. Speed is never asserted."""

from io import StringIO

from rich.console import Console

from bench.boxes.code import CODES, PLAIN
from bench.boxes.command import bench
from bench.boxes.latency import ON_DEMAND, WARM
from bench.kernels import command as kernels
from bench.kernels import starts
from bench.peers import PLAIN as PLAIN_WAY


def test_a_short_run_of_boxes_has_every_row_with_its_count_and_ratio() -> None:
    shown = StringIO()
    rows = bench(2, Console(file=shown, width=200), codes=CODES[:2])
    times = {(row["code"], row["way"]) for row in rows if row["what"] == "time"}
    for code in CODES[:2]:
        assert {(code.title, way) for way in (WARM, ON_DEMAND, PLAIN_WAY)} <= times
    for row in rows:
        assert row["count"] >= 2
        if row["what"] == "time":
            assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
        if row["ratio"] is not None:
            assert row["ratio"] > 0
    assert {row["what"] for row in rows} == {"time", "cancel", "rate", "memory"}
    assert all(str(row["way"]) in shown.getvalue() for row in rows)
    assert PLAIN.title in shown.getvalue()


def test_a_short_run_of_kernels_has_every_row() -> None:
    shown = StringIO()
    rows = kernels.bench(1, Console(file=shown, width=200), watched_s=0.5)
    assert {row["what"] for row in rows} == {"start", "trip", "idle", "load"}
    for row in rows:
        if row["what"] in ("start", "trip"):
            assert row["count"] >= 1
            assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
            assert row["ratio"] > 0
    ways = {row["way"] for row in rows if row["what"] == "start"}
    assert {starts.POOL, starts.FORKED, starts.COLD, starts.PLAIN} <= ways
    assert len({row["code"] for row in rows if row["what"] == "trip"}) == 4
    assert "Load of the machine" in shown.getvalue()
