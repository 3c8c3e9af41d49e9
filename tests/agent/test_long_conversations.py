"""Long conversations over HTTP: what is moved out of the prompt is found again, and a full window does not end a run."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent.budget import Finish
from engine.agent.conversation import Conversation
from engine.agent.events import Event, PromptCompacted
from engine.app.conversation import open_conversation, runs_of
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.context import CallContext
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.agent.scripted_model import Reply, ScriptedModel, calls, fails, says, serving
from tests.eventually import eventually
from tests.skills.parts import NoSandbox

pytestmark = [pytest.mark.spec("LOOP-6"), pytest.mark.slow]

WINDOW = 8_000
ADA = Turn(user="ada", allowed=Allowed.of(["recall", "page"]))
TOO_LONG = "This model's maximum context length is 8000 tokens. Please reduce the length of the messages."


@tool(annotations=Annotations(read_only=True))
async def page(ctx: CallContext, n: int) -> str:
    """Return a page of a long report."""
    return f"Page {n}. The code of depot {n} is {7000 + n}. " + f"Line of page {n}. " * 150


@asynccontextmanager
async def opened(
    home: Path, model: ScriptedModel, summary: str = "rule", window: int = WINDOW, **values: Any
) -> AsyncIterator[Engine]:
    settings = Settings.model_validate(
        {
            "model": {"name": "scripted", "base_url": model.base_url, "context_tokens": window},
            "context": {"summary": summary},
            **values,
        }
    )
    sources = [StaticSource("pages", (page,))]
    async with Engine.open(home, settings=settings, sources=sources, sandbox=NoSandbox(), environ={}) as engine:
        yield engine


@asynccontextmanager
async def talking(
    home: Path, model: ScriptedModel, events: list[Event] | None = None, **options: Any
) -> AsyncIterator[tuple[Engine, Conversation]]:
    on_event: Callable[[Event], None] = (lambda _: None) if events is None else events.append
    async with (
        opened(home, model, **options) as engine,
        open_conversation(engine, turn=ADA, on_event=on_event, stream=False, leave_open=True) as conversation,
    ):
        yield engine, conversation


def size(body: dict[str, Any]) -> int:
    """Return the tokens of a request by a rule that is not that of the engine."""
    return len(json.dumps([body["messages"], body.get("tools", [])])) * 2 // 9


def reading(pages: int, *then: Any) -> Callable[[dict[str, Any]], Reply]:
    """Return a model that reads pages, one per turn, and then follows a script. Its window is bounded."""
    count = itertools.count(1)

    def reply(body: dict[str, Any]) -> Reply:
        if size(body) > WINDOW:
            return fails(400, TOO_LONG)
        number = next(count)
        made = calls(("page", {"n": number})) if number <= pages else then[min(number - pages, len(then)) - 1]
        answer = made(body) if callable(made) else made
        return answer | {"tokens": size(body)}

    return reply


def asks_for_the_first_handle(body: dict[str, Any]) -> Reply:
    text = "\n".join(str(message["content"]) for message in body["messages"])
    handle = next(word for word in text.replace("'", " ").split() if word.startswith("result://"))
    return calls(("recall", {"handle": handle.strip("…),.")}))


async def interrupted(model: ScriptedModel, answered: int, work: Coroutine[Any, Any, Any]) -> None:
    """Work until the model has been asked once more than it has answered, then stop as if the process were killed."""
    task = asyncio.ensure_future(work)
    await eventually(lambda: len(model.requests) > answered)
    task.cancel()
    await asyncio.wait({task})


def last_result(body: dict[str, Any]) -> Reply:
    return says(str(body["messages"][-1]["content"]))


async def test_long_results_are_moved_out_and_read_again_by_their_handles(tmp_path: Path) -> None:
    events: list[Event] = []
    async with (
        serving(reading(12, asks_for_the_first_handle, last_result)) as model,
        talking(tmp_path, model, events) as (_, conversation),
    ):
        report = await conversation.run("Read all pages. The answer must be in French.")
    assert report.finish is Finish.ANSWER
    assert report.answer == next(each.result.text for each in report.calls if each.call.name == "page").strip()
    assert any(isinstance(event, PromptCompacted) and event.results for event in events)
    assert all("must be in French" in str(body["messages"]) for body in model.requests)


async def test_between_compactions_each_request_begins_with_the_one_before(tmp_path: Path) -> None:
    async with (
        serving(reading(40, says("Done."))) as model,
        talking(tmp_path, model, budget={"turns": 60}) as (engine, conversation),
    ):
        report = await conversation.run("Read all pages.")
        entries = [json.loads(each.entry)["kind"] for each in engine.runs.entries(report.run)]
    compactions = entries.count("compacted")
    assert report.finish is Finish.ANSWER
    assert 2 <= compactions <= 10  # not a little in every turn
    pairs = list(itertools.pairwise(body["messages"] for body in model.requests))
    changed = [after for before, after in pairs if after[: len(before)] != before]
    assert len(changed) == compactions
    assert max(map(size, model.requests)) <= WINDOW


async def test_moved_turns_are_found_by_recall_and_only_in_their_own_conversation(tmp_path: Path) -> None:
    def search(_: dict[str, Any]) -> Reply:
        return calls(("recall", {"query": "code of depot 3"}))

    async with (
        serving(reading(40, says("Read."), search, last_result)) as model,
        talking(tmp_path, model, budget={"turns": 60}) as (engine, conversation),
    ):
        await conversation.run("Read all pages.")
        found = await conversation.run("What is the code of depot 3?")
        handle = next(each for each in found.calls if each.call.name == "recall").result.output["moved"][0]["handle"]
        call = {"handle": handle}
        of_ada = await engine.call("recall", call, Turn(user="ada", run=found.run))
        of_bob = await engine.call("recall", call, Turn(user="bob", run=found.run))
        elsewhere = await engine.call("recall", call, Turn(user="ada"))
    assert "7003" in found.answer
    assert of_ada.success
    assert of_ada.message is not None
    assert "The code of depot 3 is 7003" in of_ada.message
    assert not of_bob.success
    assert not elsewhere.success


async def test_a_request_that_is_refused_as_too_long_is_repeated_once_after_a_compaction(tmp_path: Path) -> None:
    async with (
        serving(reading(14, says("Done."))) as model,
        talking(tmp_path, model, window=0) as (engine, conversation),
    ):
        report = await conversation.run("Read all pages.")
        entries = [json.loads(each.entry) for each in engine.runs.entries(report.run)]
    assert (report.finish, report.answer) == (Finish.ANSWER, "Done.")
    refused = [body for body in model.requests if size(body) > WINDOW]
    assert len(refused) == 1  # the window is known from then on
    assert next(each["window"] for each in entries if each["kind"] == "compacted") == WINDOW


async def test_a_model_that_refuses_every_length_ends_the_run_after_one_repeat(tmp_path: Path) -> None:
    script: list[Any] = [calls(("page", {"n": n})) for n in range(4)]
    async with (
        serving(*script, fails(400, TOO_LONG)) as model,
        talking(tmp_path, model, window=0) as (_, conversation),
    ):
        report = await conversation.run("Read all pages.")
    assert report.finish is Finish.MODEL_ERROR
    assert "offer fewer tools" in report.answer
    assert len(model.requests) == 6


async def test_a_resumed_and_a_forked_run_send_the_same_requests(tmp_path: Path) -> None:
    reply, stopped = reading(14, says("Done.")), 12
    async with (
        serving(*[reply] * stopped, {"hangs": True}) as model,
        talking(tmp_path, model) as (engine, conversation),
    ):
        await interrupted(model, stopped, conversation.run("Read all pages."))
        run = engine.runs.recent(1)[0]
        kinds = [json.loads(each.entry)["kind"] for each in engine.runs.entries(run.id)]
        engine.runs.fork(run.id, "forked", len(kinds))
    assert "compacted" in kinds
    unanswered = json.dumps(model.requests[stopped])
    for which in (run.id, "forked"):
        async with (
            serving({"hangs": True}) as model,
            talking(tmp_path, model) as (engine, conversation),
        ):
            await interrupted(model, 0, conversation.resume(await runs_of(engine).open(which)))
        assert json.dumps(model.requests[0]) == unanswered


async def test_the_model_writes_the_summary_and_the_rules_do_if_it_fails(tmp_path: Path) -> None:
    pages = reading(80, says("Done."))
    asked = itertools.count()

    def reply(body: dict[str, Any]) -> Reply:
        if "You summarize the earlier part" not in str(body["messages"][0]["content"]):
            return pages(body)
        return says("Pages were read in order; nothing was odd.") if next(asked) == 0 else fails(400, "no")

    async with (
        serving(reply) as model,
        talking(tmp_path, model, summary="model", budget={"turns": 100}) as (engine, conversation),
    ):
        report = await conversation.run("Read all pages.")
        entries = [json.loads(each.entry) for each in engine.runs.entries(report.run)]
    recaps = [each for each in entries if each["kind"] == "compacted" and each["upto"]]
    assert report.finish is Finish.ANSWER
    assert len(recaps) >= 2
    assert recaps[0]["recap"]["summary"] == "Pages were read in order; nothing was odd."
    assert recaps[0]["tokens"] == 10
    assert recaps[1]["tokens"] == 0
    assert "nothing was odd" in recaps[1]["recap"]["summary"]
    assert any("nothing was odd" in str(body["messages"]) for body in model.requests)


@pytest.mark.spec("LOOP-2")
async def test_cached_tokens_are_counted_separately_and_have_their_own_price(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 800}}
    prices = {"scripted": {"input": 2.0, "output": 10.0, "cache_read": 0.5, "currency": "EUR"}}
    async with (
        serving(calls(("page", {"n": 1})) | {"usage": usage}, says("Done.") | {"usage": usage}) as model,
        talking(tmp_path, model, prices=prices) as (_, conversation),
    ):
        report = await conversation.run("Read a page.")
    assert (report.tokens, report.cached_tokens) == (600, 1600)
    assert report.cost == pytest.approx(2 * (200 * 2.0 + 100 * 10.0 + 800 * 0.5) / 1_000_000)
    assert report.currency == "EUR"
