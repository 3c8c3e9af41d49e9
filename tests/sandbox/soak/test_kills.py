"""Thousands of runs with `kill -9` of code, boxes, templates, supervisors and engines leave nothing behind."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.namespace import process_one

KINDS = ("native", "python")
RUNS_VARIABLE, SEED_VARIABLE = "SOAK_RUNS", "SOAK_SEED"
_GROWTH_KIB = 6 << 10  # the most growth of the engine's memory over all of its runs except the first quarter
_ROOT = Path(__file__).parents[3]
# The ends that a job may have if processes are killed, and those of the mixture itself without kills.
_WITHOUT_KILLS = {"ok", "error", "timeout"}
_WITH_KILLS = {*_WITHOUT_KILLS, "killed", "refused"}


def soak(runs: int, folder: Path, process_1: str) -> dict[str, Any]:
    """Return the driver's report. The seed is printed and can be set, so that the kills can be repeated."""
    if process_1 == "native" and not process_one.program():
        pytest.skip("no C compiler built the native process 1")
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1 << 30))
    print(f"{SEED_VARIABLE}={seed} {RUNS_VARIABLE}={runs}", flush=True)
    found = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.soak.driver", str(runs), str(seed), str(folder)],
        cwd=_ROOT,
        env={**os.environ, process_one.VARIABLE: process_1},
        stdout=subprocess.PIPE,
        check=True,
    )
    report: dict[str, Any] = json.loads(found.stdout)
    print(json.dumps({key: value for key, value in report.items() if key not in ("memory_kib", "descriptors")}))
    print(f"engine: {growth_kib(report['memory_kib']):+.0f} KiB, descriptors {sorted(set(report['descriptors']))}")
    return report


def judge(report: dict[str, Any], runs: int) -> None:
    assert report["runs"] >= runs
    assert {kind: found for kind, found in report["left"].items() if found} == {}
    assert set(report["ends"]) <= _WITH_KILLS
    assert set(report["clean_ends"]) <= _WITHOUT_KILLS
    assert report["ends"]["ok"] > 0
    assert sum(report["kills"].values()) > 0
    assert report["namespaces_seen"] > 0
    assert len(set(report["descriptors"])) == 1
    assert growth_kib(report["memory_kib"]) < _GROWTH_KIB


def growth_kib(samples: list[tuple[int, int]]) -> float:
    """Return the growth, from the slope of the least-squares line through the samples after the first quarter."""
    kept = samples[len(samples) // 4 :]
    if len(kept) < 2:
        return 0.0
    mean_x, mean_y = (sum(sample[axis] for sample in kept) / len(kept) for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in kept)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in kept) / spread
    return slope * (kept[-1][0] - kept[0][0])


@pytest.mark.spec("BOX-4")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("process_1", KINDS)
def test_random_kills_leave_nothing_and_do_not_grow_the_engine(process_1: str, tmp_path: Path) -> None:
    judge(soak(150, tmp_path, process_1), 150)


@pytest.mark.soak
@pytest.mark.spec("BOX-4")
@pytest.mark.parametrize("process_1", KINDS)
def test_ten_thousand_runs_with_random_kills_leave_nothing(process_1: str, tmp_path: Path) -> None:
    runs = int(os.environ.get(RUNS_VARIABLE) or 10_000)
    judge(soak(runs, tmp_path, process_1), runs)
