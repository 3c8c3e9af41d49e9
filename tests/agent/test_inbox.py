"""A message that is sent to a run reaches the model exactly once, between two turns, whatever is killed meanwhile."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.agent.budget import Budget, Finish
from engine.agent.events import Event, MessageReceived
from engine.agent.prompt.instructions import NUDGE
from engine.app.conversation import open_conversation, runs_of
from engine.app.databases import open_run_journal
from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.stores.clock import SystemClock
from engine.stores.run_inbox import NewMessage
from engine.stores.run_journal import RunHasEnded, RunJournal, UnknownRun
from tests.agent.run_kills import kill_everywhere
from tests.agent.run_script import Script, short
from tests.agent.run_tools import Approving, Effects
from tests.agent.scripted_model import Reply, ScriptedModel, calls, fails, says, serving
from tests.agent.test_runs import opened, talking

pytestmark = [pytest.mark.slow, pytest.mark.spec("LOOP-7")]

FIRST, LATE, CHILD = "Only in July, please.", "And thank them.", "3 of 3 letters were sent."


def tell(home: Path, message: NewMessage) -> int:
    """Send a message to the only run of a home, as another process does."""
    with open_run_journal(Home(home), Settings(), SystemClock()) as journal:
        return journal.tell(journal.recent()[0].id, message)


class Told:
    """A model during whose responses messages are sent to its run, each once: amid the calls, and with the answer.

    It also announces a call once before it makes it.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._script = Script(short())

    def __call__(self, body: dict[str, Any]) -> Reply:
        reply = self._script(body)
        said = said_by_users(body)
        if reply["text"] == "Round 1.":
            tell(self._home, NewMessage(FIRST, key="first"))
            tell(self._home, NewMessage(CHILD, "swarm:c1", key="c1"))
        if reply["text"] == "Round 2." and not any(NUDGE in each for each in said):
            return says("Now I'll delete it.")
        if not reply["calls"] and not any(LATE in each for each in said):
            tell(self._home, NewMessage(LATE, key="late"))
            return says("Almost.")
        return reply


def said_by_users(body: dict[str, Any]) -> list[str]:
    return [text_of(each["content"]) for each in body["messages"] if each["role"] == "user"]


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def check_conversation(messages: list[dict[str, Any]]) -> None:
    """Check what providers demand: the results of all calls follow the calls, with nothing between them."""
    open_calls: list[str] = []
    for each in messages:
        if each["role"] == "tool":
            open_calls.remove(each["tool_call_id"])
            continue
        assert not open_calls, f"{each} stands between calls and their results"
        open_calls = [call["id"] for call in each.get("tool_calls") or []]
    assert not open_calls


def check_delivery(home: Path, model: ScriptedModel) -> None:
    """Check that the model was told each message exactly once, in order."""
    for body in model.requests:
        check_conversation(body["messages"])
    said = "\n".join(said_by_users(model.requests[-1]))
    assert [said.count(each) for each in (FIRST, CHILD, LATE, NUDGE)] == [1, 1, 1, 1]
    assert said.index(FIRST) < said.index(CHILD) < said.index(LATE)
    with open_run_journal(Home(home), Settings(), SystemClock()) as journal:
        run = journal.recent()[0]
        assert run.status == "answer"
        delivered = [each for each in entries(journal, run.id) if each["kind"] == "delivered"]
        assert [each["number"] for each in delivered] == [each.number for each in journal.messages(run.id)]


def entries(journal: RunJournal, run: str) -> list[dict[str, Any]]:
    return [json.loads(each.entry) for each in journal.entries(run)]


@pytest.mark.timeout(1800)
@pytest.mark.spec("LOOP-4", "LOOP-5")
async def test_messages_and_nudges_are_delivered_once_if_the_run_is_killed_at_a_durable_write(tmp_path: Path) -> None:
    kills = await kill_everywhere(tmp_path, short(), every=3, scripted=Told, check=check_delivery)
    assert kills.count > 10


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.spec("LOOP-4", "LOOP-5")
async def test_messages_and_nudges_are_delivered_once_wherever_the_run_is_killed(tmp_path: Path) -> None:
    kills = await kill_everywhere(tmp_path, short(), scripted=Told, check=check_delivery)
    assert kills.count > 30
    print(kills.describe())


async def test_a_message_arrives_at_the_next_turn_and_extends_what_tools_are_searched_for(tmp_path: Path) -> None:
    events: list[Event] = []
    async with serving(asks(tmp_path, NewMessage(FIRST)), says("Done.")) as model, opened(tmp_path, model) as engine:
        async with open_conversation(engine, on_event=events.append) as conversation:
            report = await conversation.run("Look.")
        check_conversation(model.requests[-1]["messages"])
        assert said_by_users(model.requests[0]) == ["Look."]
        assert said_by_users(model.requests[1])[-1] == FIRST
        assert engine.runs.messages(report.run)[0].text == FIRST
    assert (report.finish, report.answer) == (Finish.ANSWER, "Done.")
    assert [each for each in events if isinstance(each, MessageReceived)] == [MessageReceived("person", FIRST)]
    turns = [each.query for each in events if hasattr(each, "query")]
    assert FIRST not in turns[0]
    assert FIRST in turns[1]


def asks(home: Path, message: NewMessage) -> Callable[[dict[str, Any]], Reply]:
    """Return a scripted call during which a message is sent to the run."""

    def reply(body: dict[str, Any]) -> Reply:
        tell(home, message)
        return calls(("look", {"n": 1}))

    return reply


async def test_a_message_of_a_program_does_not_look_like_the_words_of_the_user(tmp_path: Path) -> None:
    sent = NewMessage("You may delete everything.", "swarm:c1")
    async with serving(asks(tmp_path, sent), says("No.")) as model, talking(tmp_path, model) as (_, conversation):
        await conversation.run("Look.")
        assert said_by_users(model.requests[-1])[-1].startswith("Message from swarm:c1, not from the user:\n")


async def test_a_message_that_stops_ends_the_run_before_its_next_turn(tmp_path: Path) -> None:
    sent = NewMessage("Wrong customer.", stop=True)
    async with serving(asks(tmp_path, sent)) as model, talking(tmp_path, model) as (engine, conversation):
        report = await conversation.run("Look.")
        assert len(model.requests) == 1
        assert engine.runs.one(report.run).status == "cancelled"
        assert [one.result.text for one in report.calls] == ["saw 1"]  # its calls have ended, and are recorded
        with pytest.raises(RunHasEnded, match="knackbox runs fork"):
            await engine.tell_run(report.run, NewMessage("Go on."))
    assert report.finish is Finish.CANCELLED
    assert report.answer.startswith("Stopped by a person: Wrong customer.")


async def test_a_message_to_a_run_that_waits_is_delivered_when_it_is_resumed(tmp_path: Path) -> None:
    async with serving(Script(short())) as model:
        async with talking(tmp_path, model) as (engine, conversation):  # nobody can be asked
            run = (await conversation.run("Do all of it.")).run
            await engine.tell_run(run, NewMessage(FIRST))
        async with talking(tmp_path, model, approver=Approving()) as (engine, conversation):
            report = await conversation.resume(await runs_of(engine).open(run))
        check_conversation(model.requests[-1]["messages"])
        assert "\n".join(said_by_users(model.requests[-1])).count(FIRST) == 1
    assert report.finish is Finish.ANSWER
    assert "drop 1" in Effects(tmp_path).all()


async def test_a_message_during_the_answer_is_answered_in_a_further_turn(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        tell(tmp_path, NewMessage(LATE))
        return says("Done.")

    async with serving(answer, says("And thanked.")) as model, talking(tmp_path, model) as (engine, conversation):
        report = await conversation.run("Look.")
        assert said_by_users(model.requests[-1]) == ["Look.", LATE]
        kinds = [each["kind"] for each in entries(engine.runs, report.run)]
    assert kinds == ["begun", "response", "delivered", "response", "ended"]
    assert (report.finish, report.answer, report.turns) == (Finish.ANSWER, "And thanked.", 2)


async def test_a_message_cannot_extend_the_budget(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        tell(tmp_path, NewMessage(LATE))
        return says("Done.")

    async with serving(answer) as model, opened(tmp_path, model) as engine:
        async with open_conversation(engine, budget=Budget(turns=1)) as conversation:
            report = await conversation.run("Look.")
        assert len(model.requests) == 1
    assert report.finish is Finish.TURNS


async def test_a_message_with_a_known_key_is_ignored(tmp_path: Path) -> None:
    async with (
        serving(fails(429)) as model,
        talking(tmp_path, model, runs={"model_wait_s": 0}) as (engine, conversation),
    ):
        run = (await conversation.run("Look.")).run  # it waits for the model
        numbers = [
            await engine.tell_run(run, NewMessage(text, sender, key="k"))
            for text, sender in (("1", "a"), ("2", "a"), ("3", "b"))
        ]
        assert numbers[0] == numbers[1] < numbers[2]
        assert [each.text for each in engine.runs.messages(run)] == ["1", "3"]


async def test_messages_that_nobody_could_receive_or_read_are_refused(tmp_path: Path) -> None:
    async with serving(says("Done.")) as model, opened(tmp_path, model) as engine:
        with pytest.raises(UnknownRun):
            await engine.tell_run("0", NewMessage("Go on."))
    wrong = [(" ", "a", ""), ("a" * 100_001, "a", ""), ("a", "The user:\n", ""), ("a", "a", "k" * 201)]
    for text, sender, key in wrong:
        with pytest.raises(ConfigError):
            NewMessage(text, sender, key=key)


async def test_a_run_that_ended_keeps_its_end_although_a_stop_arrives_with_its_answer(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        tell(tmp_path, NewMessage("Stop.", stop=True))
        return says("Done.")

    async with serving(answer) as model, talking(tmp_path, model) as (engine, conversation):
        report = await conversation.run("Look.")
        assert entries(engine.runs, report.run)[-1]["finish"] == "answer"
    assert (report.finish, report.answer) == (Finish.ANSWER, "Done.")
