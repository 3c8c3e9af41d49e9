"""`knackbox play` shows cycles and undoes them."""

from pathlib import Path

import pytest

from bench.self_play.learner import Proposed
from tests.builtin_tools.self_play.conftest import open_play
from tests.interfaces.cli import run_as_process


@pytest.mark.spec("PLAY-2")
async def test_people_list_show_and_undo_cycles(tmp_path: Path) -> None:
    async with open_play(tmp_path) as home:
        home.learner.script = [Proposed.LESSON]
        await home.cycle()
        before = await home.stored()
    at = ("--home", str(tmp_path))
    assert [each["state"] for each in run_as_process(*at, "play", "list", "--json").last] == ["kept"]
    shown = run_as_process(*at, "play", "show", "1")
    assert "Cycle 1 kept the lesson" in shown.out
    assert "Practice: What is the babaro code of 'banana'?" in shown.out
    assert "before" not in run_as_process(*at, "play", "show", "1", "--json").last["change"]
    missing = run_as_process(*at, "play", "undo", "7")
    assert missing.code != 0
    assert "There is no cycle 7" in missing.err
    assert "no model is configured" in run_as_process(*at, "play", "run").err
    assert [each["number"] for each in run_as_process(*at, "play", "undo", "all", "--json").last] == [1]
    async with open_play(tmp_path) as home:
        assert await home.stored() != before
        assert home.play.store.tasks("local") == []
    assert "no loop is running" in run_as_process(*at, "play", "stop").err
