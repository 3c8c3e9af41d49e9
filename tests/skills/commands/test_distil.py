"""`knackbox skills distil` shows a proposal that was made from a run, and admits it after a yes."""

import asyncio
from pathlib import Path

import pytest

from engine import Engine
from engine.app.conversation import open_conversation
from engine.app.settings import Settings
from tests.agent.scripted_model import calls, says, serving
from tests.interfaces.cli import here
from tests.interfaces.terminal import at_terminal
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

pytestmark = [pytest.mark.spec("CODE-8"), pytest.mark.slow]

PROGRAM = """
from knackbox import tools
text = tools.file_system(action="read", path="words.txt")["content"]
sorted(word for word in text.split() if word.startswith("b"))
"""


async def recorded_run(home: Path) -> str:
    """Let a scripted model run the program, and return the id of the run."""
    model_calls = calls(("execute", {"language": "python", "code": PROGRAM}))
    async with serving(model_calls, says("Done.")) as model:
        settings = Settings.model_validate({"model": {"name": "scripted", "base_url": model.base_url}})
        async with Engine.open(home, settings=settings, environ={}) as engine:
            await engine.call("file_system", {"action": "write", "path": "words.txt", "content": "bee ant bat\n"})
            async with open_conversation(engine) as conversation:
                report = await conversation.run("Sort the words with b in words.txt")
            assert report.calls[0].result.success, report.calls[0].result.text
            return report.run


def test_a_person_sees_the_proposal_and_decides(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON_WITHOUT_MUTANTS.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    command = ("--home", str(home), "skills")
    run = asyncio.run(recorded_run(home))
    proposal = here(capfd, *command, "distil", run, "--json").last
    assert proposal["parameters"] == [
        {"name": "path", "type": "str", "value": "words.txt", "why": "the request contains it"}
    ]
    assert "from knackbox import tools" in proposal["code"]
    assert "'value'" in proposal["tests"]
    assert here(capfd, *command, "list", "--json").last == []  # --json without --yes changes nothing

    code, shown = at_terminal(
        home, "skills", "distil", run, "--name", "words_that_begin", prompt="[y/N]: ", answer=lambda _: "n\n"
    )
    assert code == 1
    assert "Admit words_that_begin" in shown
    assert "tools.answers(RECORDED)" in shown
    assert here(capfd, *command, "list", "--json").last == []

    admitted = here(capfd, *command, "distil", run, "--name", "words_that_begin", "--yes")
    assert admitted.code == 0, admitted
    assert "words_that_begin version 1 is admitted" in admitted.out
    assert "the request contains it" in admitted.out
    skill = here(capfd, *command, "show", "words_that_begin", "--json").last
    assert skill["provenance"]["distilled_from"] == run
    assert "file_system" in skill["code"]

    missing = here(capfd, *command, "distil", "no-such-run")
    assert missing.code == 1
    assert "no-such-run" in missing.err
