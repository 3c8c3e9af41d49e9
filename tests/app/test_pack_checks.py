"""Packs add checks to `knackbox doctor`."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from engine.app import doctor
from engine.app.home import Home
from engine.app.settings import Settings

pytestmark = pytest.mark.spec("FACE-1")


def test_checks_of_packs_are_run_and_one_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        EntryPoint("broken", "no.such.module:checks", "knackbox.checks"),
        EntryPoint("memory", "builtin_tools.memory.checks:checks", "knackbox.checks"),
    ]
    monkeypatch.setattr(doctor, "find", lambda _group: points)
    broken, works = doctor.pack_checks(Home(tmp_path), Settings())
    assert (broken.name, broken.state, broken.required) == ("checks of broken", "broken", False)
    assert "no.such" in broken.detail or "No module named" in broken.detail
    assert (works.name, works.state) == ("memory encoder", "ok")
