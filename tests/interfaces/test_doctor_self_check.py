"""`knackbox doctor --self-check`: its findings and its exit code."""

from pathlib import Path

import pytest

from engine.interfaces.cli.doctor import verdict_counts
from sandbox.self_check import Verdict
from tests.interfaces.cli import here

pytestmark = pytest.mark.escapes


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))


@pytest.mark.spec("BOX-14", "FACE-1")
def test_every_finding_is_reported_and_a_failure_gives_exit_code_3(capfd: pytest.CaptureFixture[str]) -> None:
    """Without isolation its check fails, and no escape that could do damage is attempted."""
    found = here(capfd, "--unsafe-no-sandbox", "doctor", "--self-check", "--json")
    findings = {(each["group"], each["name"].partition(" (")[0]): each for each in found.last["findings"]}
    assert found.code == 3
    assert found.last["ok"] is False
    assert findings["values", "a function returns its value"]["verdict"] == Verdict.HOLDS
    assert findings["escapes", "isolation"]["verdict"] == Verdict.FAILS
    assert findings["escapes", "kernel surface"]["verdict"] == Verdict.SKIPPED


@pytest.mark.spec("BOX-14")
def test_an_unknown_backend_is_reported_in_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_SANDBOX", "nampespace")
    found = here(capfd, "doctor", "--self-check")
    assert found.code == 3
    assert "Did you mean namespace?" in found.err


def test_the_summary_counts_all_three_verdicts() -> None:
    assert verdict_counts({Verdict.HOLDS: 2, Verdict.FAILS: 1, Verdict.SKIPPED: 0}) == "2 hold, 1 fail, 0 skipped"
