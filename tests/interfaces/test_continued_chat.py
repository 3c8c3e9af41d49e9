"""`knackbox chat MESSAGE` continues conversations, and its runs belong to projects."""

from pathlib import Path

import pytest

from tests.agent.scripted_model import ScriptedModel, fails, says
from tests.interfaces.cli import Ran, here
from tests.interfaces.test_commands import model_server

pytestmark = [pytest.mark.slow, pytest.mark.spec("FACE-23")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    monkeypatch.setenv("KNACKBOX_RUNS_MODEL_WAIT_S", "0")
    return tmp_path


def said(model: ScriptedModel) -> list[str]:
    """Return what the user said, by the latest request."""
    return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]


def test_a_message_continues_the_latest_conversation_or_that_of_a_run(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, says("First."), says("Second."), says("Third."), says("Fourth.")) as model:
        first: Ran = here(capfd, "chat", "hello", "--json")
        second = here(capfd, "chat", "--continue", "and now?")
        assert (second.code, second.out) == (0, "Second.\n")
        assert said(model) == ["hello", "and now?"]
        here(capfd, "chat", "-c", "and then?")
        assert said(model) == ["hello", "and now?", "and then?"]
        here(capfd, "chat", "--resume", first.last["run"], "or else?")
        assert said(model) == ["hello", "or else?"]


@pytest.mark.spec("JOB-3")
def test_a_run_belongs_to_a_project_and_so_does_what_continues_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here(capfd, "projects", "add", "site", "--goal", "A site.").code == 0
    with model_server(monkeypatch, says("First."), says("Second."), says("Third.")) as model:
        runs = [here(capfd, "chat", "hello", "--project", "site", "--json").last["run"]]
        assert "A site." in model.requests[-1]["messages"][0]["content"]
        runs.insert(0, here(capfd, "chat", "--continue", "and now?", "--json").last["run"])
        assert "A site." in model.requests[-1]["messages"][0]["content"]
        here(capfd, "chat", "hello")
        assert "A site." not in model.requests[-1]["messages"][0]["content"]
    assert [run["id"] for run in here(capfd, "projects", "show", "site", "--json").last["runs"]] == runs


def test_a_run_that_waits_is_resumed_before_the_message(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, fails(500)):
        assert here(capfd, "chat", "hello").code == 3
    with model_server(monkeypatch, says("First."), says("Second.")) as model:
        assert here(capfd, "chat", "--continue", "and now?").out == "First.\nSecond.\n"
        assert said(model) == ["hello", "and now?"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--continue", "hello"), 3, "no conversation to continue"),
        (("--resume", "12345678", "hello"), 3, "12345678"),
        (("--continue", "--resume", "x", "hello"), 2, "not both"),
        ((" ",), 2, "the message is empty"),
        (("--project", "nothing", "hello"), 3, "no project 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    with model_server(monkeypatch, says("Never.")) as model:
        refused = here(capfd, "chat", *arguments)
    assert (refused.code, refused.err.count("\n")) == (code, 1)
    assert text in refused.err
    assert not model.requests
