"""Processes that are killed during a call, a scan or an undo. Afterwards everything can still be undone."""

import os
import random
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.stores.undo.undo_plan import UndoStep
from tests.stores.undo.undo_fixture import Snapshot, UndoFixture

pytestmark = [pytest.mark.spec("CODE-9"), pytest.mark.slow]
REPOSITORY = Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0


def killed(folder: Path, what: str, seed: int, *, lines: int, more_s: float) -> list[str]:
    """Run the victim, and kill it after it has printed some lines and then worked for some time."""
    line = [sys.executable, "-m", "tests.stores.undo.undo_victim", str(folder), what, str(seed)]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(line, cwd=REPOSITORY, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed: list[str] = []
    try:
        end = time.monotonic() + DEADLINE_S
        while len(printed) < lines:
            assert time.monotonic() < end, printed
            assert select.select([process.stdout], [], [], DEADLINE_S)[0]
            printed.append(process.stdout.readline())
            assert printed[-1], "the victim ended by itself"
        with suppress(subprocess.TimeoutExpired):
            process.wait(more_s)
            raise AssertionError("the victim ended by itself")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return printed


def prepared(folder: Path) -> tuple[UndoFixture, Snapshot]:
    here = UndoFixture(folder)
    for number in range(0, 200, 2):
        here.write(f"{number % 10}/{number}.txt", f"before {number}" * 50)
    return here, here.snapshot()


@pytest.mark.parametrize("seed", range(12))
def test_a_run_whose_process_was_killed_anywhere_can_be_undone(tmp_path: Path, seed: int) -> None:
    here, before = prepared(tmp_path)
    pick = random.Random(seed)
    killed(tmp_path, "call", seed, lines=pick.choice([2, 3, 4, 5, 8]), more_s=pick.random() * 0.08)
    here.recorder.reconcile()
    doubtful = [each for each in here.plan("run1") if not each.restores]
    assert all("killed" in each.reason for each in doubtful if each.step is UndoStep.UNSURE)
    assert {each.step for each in doubtful} <= {UndoStep.UNSURE, UndoStep.CHANGED_SINCE}
    assert all("folder" in each.reason for each in doubtful if each.step is UndoStep.CHANGED_SINCE)
    here.undo("run1", unsure=True)
    assert here.snapshot() == before
    assert here.plan("run1", unsure=True) == []
    here.close()


@pytest.mark.parametrize("seed", range(12))
def test_an_undo_that_was_killed_anywhere_is_completed_or_taken_back(tmp_path: Path, seed: int) -> None:
    here, before = prepared(tmp_path)
    with here.call("run1"):
        for number in range(200):
            here.write(f"{number % 10}/{number}.txt", f"agent {number}" * 50)
        here.write("new/folder/file.txt", "agent")
    after = here.snapshot()
    pick = random.Random(seed)
    killed(tmp_path, "run1", seed, lines=pick.choice([1, 1, 1, 2, 3]), more_s=0.02 + pick.random() * 0.15)
    middle = here.snapshot()
    assert all(
        state in (before.get(path), after.get(path))
        or path.rpartition("/")[2].startswith(".tmp-")
        or state[0] == "folder"
        for path, state in middle.items()
    )
    here.recorder.reconcile()
    here.undo("run1")
    assert here.snapshot() == before
    for each in [each for each in here.undoing.undoable(1000) if each.kind == "undo"]:  # newest first
        if here.plan(each.id):
            here.undo(each.id)
    assert {path for path in here.snapshot() if path in before} == set(before)
    here.undo("run1")
    assert here.snapshot() == before
    here.close()
