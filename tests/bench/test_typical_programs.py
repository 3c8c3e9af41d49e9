"""The typical programs of `knackbox bench bridge`: all of them give the right result in a box."""

from pathlib import Path

import pytest

from bench.typical_programs import PROGRAMS
from bench.typical_runs import OURS, in_boxes, in_interpreter, rows_of
from engine import Engine

pytestmark = pytest.mark.spec("CODE-1")


@pytest.mark.timeout(240)
async def test_a_box_gives_the_results_of_a_plain_process_for_every_typical_program(tmp_path: Path) -> None:
    right = in_interpreter("plain")
    assert len(right) == len(PROGRAMS) == 30
    assert [why for _, why in right.values() if why] == []
    async with Engine.open(tmp_path, environ={}) as engine:
        (row,) = rows_of({OURS: await in_boxes(engine)}, right)
    assert row["failed"] == {}
    assert row["right"] == 30


def test_a_program_without_a_result_is_reported_with_the_reason() -> None:
    right = in_interpreter("plain", {"fine": "result = 1", "fails": "result = 1 / 0", "ends": "raise SystemExit"})
    assert right["fine"] == (1, "")
    assert right["fails"][1].startswith("ZeroDivisionError")
    assert right["ends"][1].startswith("SystemExit")
    (row,) = rows_of({"other": {"fine": (2, "")}}, {"fine": (1, "")})
    assert (row["right"], row["failed"]) == (0, {"fine": "2 instead of 1"})
