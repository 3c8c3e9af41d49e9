"""The eval gate fails open. A person's approval fails closed, and applies only to the arguments that were shown."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from engine.contract.result import ToolCall, ToolContext
from engine.contract.spec import ASKS_FOR_APPROVAL, Annotations, Origin, Tag, ToolSpec
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalGuard, ApprovalRequest
from engine.policy.gate import Gate, GateContext, GateDecision, ToolDef
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.dispatch.pipeline_fixture import TURN, open_pipeline

SENT: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


@tool(requires_gate=True, annotations=Annotations(destructive=True))
async def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return "sent"


@tool(annotations=Annotations(requires_confirmation=True))
async def pay(amount: int) -> str:
    """Pay."""
    SENT.append(str(amount))
    return "paid"


class Judge:
    """An eval gate with preset decisions."""

    def __init__(self, says: Callable[[], Any]) -> None:
        self.says = says
        self.asked: list[str] = []

    async def check(self, tool: ToolDef, ctx: ToolContext) -> GateDecision:
        self.asked.append(tool.name)
        found = self.says()
        return await found if asyncio.iscoroutine(found) else found


def fails() -> GateDecision:
    raise RuntimeError("no model")


async def forever() -> GateDecision:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.spec("ACCESS-7")
async def test_a_call_that_the_gate_refuses_does_not_run_and_the_reason_is_its_message(tmp_path: Path) -> None:
    judge = Judge(lambda: GateDecision(approved=False, reason="Too rude."))
    async with open_pipeline(tmp_path, [send, pay], guards=(Gate(judge),)) as h:
        result = await h.call("send", text="x")
        assert (result.success, result.message, result.text) == (False, "Too rude.", "Too rude.")
        assert (await h.call("pay", amount=1)).success
    assert (SENT, judge.asked) == (["1"], ["send"])


class Confident:
    """A gate like those of other hosts: it reads the context without checking whether there is one."""

    def __init__(self) -> None:
        self.seen: list[ToolContext] = []

    async def check(self, tool: ToolDef, ctx: ToolContext) -> GateDecision:
        self.seen.append(ctx)
        if ctx.confidence < 0.7:
            return GateDecision(approved=False, reason=f"{ctx.user} is not sure about {ctx.raw_arg!r}.")
        return GateDecision(approved=True)


KNOWN = ToolContext("", "Tell them.", "ada", "chat-7", "They like tea.", 0.9)


@pytest.mark.spec("ACCESS-7", "TAG-3")
async def test_a_gate_receives_the_confidence_user_and_argument_of_every_call(tmp_path: Path) -> None:
    gate = Confident()
    sources, people = [StaticSource("mine", [send])], People(gate=gate)
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}, people=people) as engine:
        assert (await engine.call("send", {"text": "hi"}, context=KNOWN)).success
        unsure = await engine.call("send", {"text": "hi"}, context=replace(KNOWN, confidence=0.5))
        assert (unsure.success, unsure.message) == (False, "ada is not sure about 'hi'.")
        silent = await engine.call("send", {"text": "hi"}, Turn(user="bob", query="Say hi."))  # no context: not sure
        assert (silent.success, silent.message) == (False, "bob is not sure about 'hi'.")
        first, _, last = gate.seen
        assert replace(KNOWN, raw_arg="hi") == ToolContext(*(getattr(first, name) for name in KNOWN.__match_args__))
        assert (last.user_message, last.chat_id, last.kb_context) == ("Say hi.", "", "")
        assert isinstance(first, GateContext)
        assert (first.arguments, first.agent) == ({"text": "hi"}, "main")
    assert SENT == ["hi"]


@pytest.mark.spec("ACCESS-7", "TAG-3")
async def test_a_gate_receives_the_text_after_the_prefix_of_a_tagged_line(tmp_path: Path) -> None:
    @tool(requires_gate=True, tag=Tag("SEND", r"(\w+): (.+)", ("to", "text")))
    async def send_to(to: str, text: str) -> str:
        """Send a text to somebody."""
        return f"{text} to {to}"

    gate = Confident()
    sources, people = [StaticSource("mine", [send_to])], People(gate=gate)
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}, people=people) as engine:
        answered = await engine.answer_tags("SEND: bob: hello", context=KNOWN)
        assert [result.text for _, result in answered.calls] == ["hello to bob"]
        refused = await engine.answer_tags("SEND: bob: hello")
        assert [result.message for _, result in refused.calls] == ["local is not sure about 'bob: hello'."]
    assert [ctx.raw_arg for ctx in gate.seen] == ["bob: hello"] * 2


@pytest.mark.spec("ACCESS-7")
@pytest.mark.parametrize("says", [fails, forever])
async def test_if_the_gate_fails_or_hangs_the_call_runs_and_a_warning_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, says: Callable[[], Any]
) -> None:
    with caplog.at_level(logging.WARNING, "knackbox.policy"):
        async with open_pipeline(tmp_path, [send], guards=(Gate(Judge(says), wait_s=0.05),)) as h:
            assert (await h.call("send", text="x")).success
    assert "runs without it" in caplog.text


@pytest.mark.spec("ACCESS-7")
@pytest.mark.parametrize("says", [fails, forever])
async def test_if_so_configured_a_call_is_refused_when_the_gate_fails(tmp_path: Path, says: Callable[[], Any]) -> None:
    async with open_pipeline(tmp_path, [send], guards=(Gate(Judge(says), on_gate_failure="deny", wait_s=0.05),)) as h:
        assert "the gate" in (await h.call("send", text="x")).text
    assert SENT == []


class Person:
    """An approver with preset answers."""

    def __init__(self, answer: Callable[[ApprovalRequest], Any]) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        found = self.answer(request)
        return await found if asyncio.iscoroutine(found) else found


def yes(request: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer(approved=True, digest=request.digest)


def no(request: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer(approved=False, digest=request.digest, reason="not today")


@pytest.mark.spec("ACCESS-8")
async def test_an_approval_admits_exactly_one_call(tmp_path: Path) -> None:
    person = Person(yes)
    async with open_pipeline(tmp_path, [send, pay], guards=(ApprovalGuard(person, "destructive"),)) as h:
        assert (await h.call("send", text="a")).success
        assert (await h.call("send", text="a")).success
    assert SENT == ["a", "a"]
    assert [request.arguments for request in person.asked] == [{"text": "a"}] * 2  # a yes is spent by one call


@pytest.mark.spec("ACCESS-8")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (no, "the user said no: not today"),
        (lambda request: 1 / 0, "asking for approval failed"),
        (lambda request: forever(), "nobody approved it within"),
        (
            lambda request: ApprovalAnswer(approved=True, digest="of another call"),
            "the approval is for other arguments",
        ),
    ],
)
async def test_anything_but_an_approval_of_exactly_this_call_is_a_rejection(
    tmp_path: Path, answer: Any, said: str
) -> None:
    async with open_pipeline(
        tmp_path, [send], guards=(ApprovalGuard(Person(answer), "destructive", expires_s=0.05),)
    ) as h:
        result = await h.call("send", text="a")
    assert said in result.text
    assert result.failure is not None
    assert (result.failure.failure_class, result.failure.reason) == (FailureClass.FATAL, "not_approved")
    assert SENT == []


@pytest.mark.spec("ACCESS-8")
async def test_an_approval_of_one_call_cannot_be_used_for_another(tmp_path: Path) -> None:
    kept: list[ApprovalAnswer] = []

    def replaying(request: ApprovalRequest) -> ApprovalAnswer:
        kept.append(yes(request))
        return kept[0]

    async with open_pipeline(tmp_path, [pay], guards=(ApprovalGuard(Person(replaying), "confirmation"),)) as h:
        assert (await h.call("pay", amount=1)).success
        assert not (await h.call("pay", amount=1000)).success
    assert SENT == ["1"]


@pytest.mark.spec("ACCESS-8")
async def test_a_call_whose_arguments_change_while_waiting_for_approval_does_not_run(tmp_path: Path) -> None:
    arguments = {"amount": 1}

    def meanwhile(request: ApprovalRequest) -> ApprovalAnswer:
        arguments["amount"] = 1000
        assert request.arguments == {"amount": 1}
        return yes(request)

    async with open_pipeline(tmp_path, [pay], guards=(ApprovalGuard(Person(meanwhile), "confirmation"),)) as h:
        result = await h.pipeline.call(ToolCall("pay", arguments), TURN)
    assert "the approval is for other arguments" in result.text
    assert SENT == []


@pytest.mark.spec("ACCESS-8")
def test_the_digest_depends_on_tool_version_and_arguments_but_not_their_order() -> None:
    from engine.policy.approval import digest_of

    one = ToolSpec("t", "Does.")
    same = digest_of(one, {"a": 1, "b": [2]})
    assert same == digest_of(one, {"b": [2], "a": 1})
    others = [digest_of(one, {"a": 1, "b": [3]}), digest_of(replace(one, version="2"), {"a": 1, "b": [2]})]
    assert same not in others


@pytest.mark.spec("ACCESS-8")
async def test_the_mode_decides_which_calls_need_approval_and_without_an_approver_they_are_refused(
    tmp_path: Path,
) -> None:
    for mode, refused in (("off", []), ("confirmation", ["pay"]), ("destructive", ["pay", "send"])):
        settings = Settings.model_validate({"policy": {"approval": mode}})
        sources = [StaticSource("mine", [send, pay])]
        async with Engine.open(tmp_path, settings=settings, sources=sources, packs=False, environ={}) as engine:
            results = {"send": await engine.call("send", {"text": "a"}), "pay": await engine.call("pay", {"amount": 1})}
        assert sorted(name for name, result in results.items() if not result.success) == refused
        assert all("nobody can be asked" in results[name].text for name in refused)


@pytest.mark.spec("ACCESS-7", "ACCESS-8")
async def test_an_engine_uses_the_given_gate_and_approver(tmp_path: Path) -> None:
    judge, person = Judge(lambda: GateDecision(approved=True)), Person(yes)
    settings = Settings.model_validate({"policy": {"approval": "destructive"}})
    people = People(gate=judge, approver=person)
    sources = [StaticSource("mine", [send])]
    async with Engine.open(
        tmp_path, settings=settings, sources=sources, packs=False, environ={}, people=people
    ) as engine:
        assert (await engine.call("send", {"text": "a"})).success
    assert (judge.asked, [request.tool.name for request in person.asked]) == (["send"], ["send"])


@pytest.mark.spec("ACCESS-8")
def test_a_built_in_tool_that_asks_for_approval_itself_is_not_asked_about_twice() -> None:
    guard = ApprovalGuard(Person(yes), "destructive")
    itself = ToolSpec("t", "Does.", annotations=Annotations(destructive=True), meta={ASKS_FOR_APPROVAL: True})
    assert not guard.concerns(itself)
    assert guard.concerns(replace(itself, meta={}))
    assert guard.concerns(replace(itself, origin=Origin.ACQUIRED))
    assert guard.concerns(replace(itself, annotations=Annotations(requires_confirmation=True)))
