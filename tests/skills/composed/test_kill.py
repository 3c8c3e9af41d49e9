"""`kill -9` in the middle of a composed call. Finished steps are not repeated; uncertain ones only on request."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine import Engine
from engine.registry.static import StaticSource
from tests.skills.composed.parts import TOOLS, sent
from tests.skills.composed.victim import hold_on

ROOT = Path(__file__).parents[3]


@pytest.mark.asyncio
@pytest.mark.timeout(60)
@pytest.mark.spec("SKILL-16")
async def test_after_a_kill_only_the_remaining_steps_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.skills.composed.victim", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"holding\n"
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(30)
    assert sent(tmp_path) == ["ann: hi"]
    (tmp_path / "workspace" / "let_go").touch()
    async with Engine.open(home=tmp_path, sources=[StaticSource("post", (*TOOLS, hold_on))]) as engine:
        unsure = await engine.call("note_and_hold", {"text": "hi", "resume": {}})
        assert "stopped at step `hold` (call of `hold_on`, DIAGNOSTIC, may_have_happened)" in unsure.error
        done = await engine.call("note_and_hold", {"text": "hi", "resume": {"repeat": True}})
        assert done.output == "let go", done.error
    assert sent(tmp_path) == ["ann: hi"]  # sent only once, although the skill was called several times
    assert (tmp_path / "workspace" / "held.txt").read_text() == "held\n" * 2
