"""`knackbox runs`: lists, shows, follows, resumes, cancels, copies and exports runs."""

import json
from pathlib import Path

import pytest

from engine.interfaces.cli.run_text import fenced
from tests.agent.scripted_model import ScriptedModel, calls, fails, says
from tests.interfaces.cli import Ran, here
from tests.interfaces.test_commands import model_server

pytestmark = [pytest.mark.slow, pytest.mark.spec("LOOP-5", "FACE-1")]

NOTES = {"action": "set", "key": "n", "value": "<script>alert(1)</script>\n```"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    monkeypatch.setenv("KNACKBOX_RUNS_MODEL_WAIT_S", "0")
    return tmp_path


def chat(capfd: pytest.CaptureFixture[str], message: str) -> str:
    """Let the model work on a message, and return the id of the run."""
    here(capfd, "chat", message)
    run: str = here(capfd, "runs", "list", "--json").last["runs"][0]["id"]
    return run


def test_a_run_is_listed_shown_followed_and_exported(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "no runs" in here(capfd, "runs", "list").err
    with model_server(monkeypatch, calls(("scratchpad", NOTES), text="I note it."), says("Noted *it*.")):
        run = chat(capfd, "Note it")
    assert f"{run}  " in here(capfd, "runs", "list").out
    shown = here(capfd, "runs", "show", run).out
    for part in ("## User", "Note it", "call of scratchpad", "alert(1)", "## Ended (answer)", "Noted *it*."):
        assert part in shown
    kinds = [each["kind"] for each in here(capfd, "runs", "show", run, "--json").last["entries"]]
    assert [kind for kind in kinds if kind != "call"] == ["begun", "response", "result", "response", "ended"]
    followed = here(capfd, "runs", "follow", run)
    assert "Noted *it*." in followed.out
    assert "answer" in followed.err
    lines = here(capfd, "runs", "export", run, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == kinds
    page = tmp_path / "run.html"
    assert here(capfd, "runs", "export", run, "--format", "html", "--out", str(page)).code == 0
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script" in text
    assert "default-src 'none'" in text


def test_a_run_that_waits_for_its_model_is_resumed_by_its_id(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, calls(("scratchpad", NOTES)), fails(500)):
        ran = here(capfd, "chat", "Note it")
    run = here(capfd, "runs", "list", "--json").last["runs"][0]
    assert (ran.code, run["status"], run["finish"]) == (3, "waiting", "model")
    assert f"knackbox runs resume {run['id']}" in ran.err
    with model_server(monkeypatch, says("Noted.")) as model:
        resumed = here(capfd, "runs", "resume", run["id"])
        assert len(model.requests) == 1
    assert (resumed.code, resumed.out) == (0, "Noted.\n")
    again = here(capfd, "runs", "resume", run["id"])
    assert again.code == 3
    assert "has ended (answer)" in again.err


def forked(capfd: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    return here(capfd, "runs", "fork", *arguments, "--json")


def said_by_users(model: ScriptedModel) -> list[str]:
    return [str(each["content"]) for each in model.requests[-1]["messages"] if each["role"] == "user"]


def test_a_copy_of_a_run_continues_from_one_of_its_turns(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, calls(("scratchpad", NOTES)), says("Noted.")):
        run = chat(capfd, "Note it")
    assert "Add a --message" in forked(capfd, run).err
    assert "only 2 turns" in forked(capfd, run, "--turn", "3").err
    first, second = forked(capfd, run, "--turn", "1").last["run"], forked(capfd, run, "-m", "And now?").last["run"]
    with model_server(monkeypatch, says("Otherwise.")):
        assert here(capfd, "runs", "resume", first).out == "Otherwise.\n"
    with model_server(monkeypatch, says("Now.")) as model:
        assert here(capfd, "runs", "resume", second).out == "Now.\n"
        assert any("And now?" in said for said in said_by_users(model))
    assert here(capfd, "runs", "show", run, "--json").last["status"] == "answer"  # the run itself is unchanged


def test_a_run_that_nobody_works_on_is_cancelled(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, fails(500)):
        run = chat(capfd, "Note it")
    assert here(capfd, "runs", "cancel", run).code == 0
    assert here(capfd, "runs", "list", "--json").last["runs"][0]["status"] == "cancelled"
    assert "already ended" in here(capfd, "runs", "cancel", run).err
    assert "There is no run '0'" in here(capfd, "runs", "show", "0").err


@pytest.mark.spec("LOOP-7")
def test_a_message_to_a_run_is_shown_until_it_is_delivered(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, fails(429)):
        run = chat(capfd, "Note it")
    assert f"knackbox runs resume {run}" in here(capfd, "runs", "tell", run, "In red").err
    here(capfd, "runs", "tell", run, "Ink is low", "--from", "printer")
    assert "not delivered: from printer" in here(capfd, "runs", "show", run).err
    assert [each["text"] for each in here(capfd, "runs", "show", run, "--json").last["undelivered"]] == [
        "In red",
        "Ink is low",
    ]
    with model_server(monkeypatch, says("Noted.")) as model:
        resumed = here(capfd, "runs", "resume", run)
        assert any("In red" in said for said in said_by_users(model))
    assert "✉ message from printer: Ink is low" in resumed.err
    shown = here(capfd, "runs", "show", run)
    assert "## User\n\nIn red" in shown.out
    assert "## Message from printer" in shown.out
    assert "not delivered" not in shown.err
    assert here(capfd, "runs", "tell", run, "More").code != 0
    assert here(capfd, "runs", "tell", "0", "More").code != 0


@pytest.mark.spec("LOOP-7")
def test_a_run_that_nobody_works_on_is_stopped_at_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, fails(429)):
        run = chat(capfd, "Note it")
    assert "is stopped" in here(capfd, "runs", "tell", run, "Not today", "--stop").err
    shown = here(capfd, "runs", "show", run).out
    assert "## Ended (cancelled)\n\nStopped by a person: Not today" in shown


@pytest.mark.spec("LOOP-4")
def test_a_reply_that_only_announces_work_is_shown_and_followed_by_the_answer(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, says("I'll note it now."), says("Noted.")):
        ran = here(capfd, "chat", "Note it")
    assert (ran.code, ran.out) == (0, "I'll note it now.\nNoted.\n")
    assert "only announced work" in ran.err
    run = here(capfd, "runs", "list", "--json").last["runs"][0]["id"]
    assert "## Message of the loop (nudge)" in here(capfd, "runs", "show", run).out


def test_a_code_block_cannot_be_closed_by_its_content() -> None:
    assert fenced("a\n````\nb", "").splitlines()[0] == "`````"
