"""A call that needs approval waits for another token, and runs only after an approval of exactly that call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine import Engine
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.events import Awaiting
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import Caller, Tokens
from engine.policy.approval import ApprovalAnswer
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.dispatch.pipeline_fixture import ManualClock
from tests.eventually import eventually
from tests.interfaces.http.servers import DEADLINE_S, Server

pytestmark = [pytest.mark.spec("ACCESS-8")]

AGENT = Caller("agent", "pat")
PERSON = Caller("person", "pat", approves=True)
SELF = Caller("self", "pat", approves=True)
STRANGER = Caller("stranger", "sam", approves=True)
BOSS = Caller("boss", "ada", "admin", approves=True)
ADMIN = Caller("no-judge", "ada", "admin")


async def waiting_for(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return the only call that waits."""
    (found,) = await eventually(lambda: approvals(client))
    return found


async def approvals(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return (await client.get("/api/approvals")).json()["approvals"]


async def approval_of(client: httpx.AsyncClient, amount: int) -> dict[str, Any] | None:
    wanted = f'"amount": {amount}'
    return next((found for found in await approvals(client) if wanted in found["arguments_shown"]), None)


async def none_wait(client: httpx.AsyncClient) -> bool:
    return not await approvals(client)


@asynccontextmanager
async def asked(server: Server, caller: Caller, amount: int) -> AsyncIterator[tuple[Any, dict[str, Any]]]:
    """Make a call that waits for approval. Yield its task and the approval request as a person reads it."""
    async with server.client(caller) as client, server.client(PERSON) as person:
        call = asyncio.ensure_future(client.post("/api/call", json={"name": "pay", "arguments": {"amount": amount}}))
        try:
            yield call, await waiting_for(person if caller is not PERSON else client)
        finally:
            call.cancel()
            await asyncio.wait([call])


async def paid(server: Server) -> list[int]:
    async with server.client(AGENT) as client:
        return (await client.post("/api/call", json={"name": "paid"})).json()["output"]


async def say(server: Server, caller: Caller, approval: str, **answer: Any) -> int:
    async with server.client(caller) as client:
        return (await client.post(f"/api/approvals/{approval}", json=answer)).status_code


async def test_a_call_waits_for_approval_by_another_token_and_runs_once(server: Server) -> None:
    before = await paid(server)
    async with asked(server, AGENT, 5) as (call, question):
        assert question["tool"] == "pay"
        assert question["user"] == "pat"
        assert '"amount": 5' in question["arguments_shown"]
        async with server.client(PERSON) as person:
            whole = (await person.get(f"/api/approvals/{question['id']}")).json()
        assert whole["arguments"] == {"amount": 5}
        assert whole["digest"] == question["digest"]
        assert await paid(server) == before
        yes = {"approved": True, "digest": question["digest"]}
        assert await say(server, PERSON, question["id"], **yes) == 204
        assert (await call).json()["output"] == "paid 5"
        assert await say(server, PERSON, question["id"], **yes) == 409
    assert await paid(server) == [*before, 5]


async def test_a_rejected_call_fails_with_the_reason(server: Server) -> None:
    before = await paid(server)
    async with asked(server, AGENT, 6) as (call, question):
        no = {"approved": False, "digest": question["digest"], "reason": "too much"}
        assert await say(server, PERSON, question["id"], **no) == 204
        result = (await call).json()
        assert result["failure"]["reason"] == "not_approved"
        assert "too much" in result["error"]
        assert await say(server, PERSON, question["id"], approved=True, digest=question["digest"]) == 409
    assert await paid(server) == before


async def test_only_another_token_with_approval_rights_may_answer(server: Server) -> None:
    before = await paid(server)
    async with asked(server, SELF, 7) as (call, question):
        yes = {"approved": True, "digest": question["digest"]}
        assert await say(server, SELF, question["id"], **yes) == 404
        assert await say(server, STRANGER, question["id"], **yes) == 404
        assert await say(server, AGENT, question["id"], **yes) == 403
        assert await say(server, ADMIN, question["id"], **yes) == 403
        for caller in (SELF, STRANGER):
            async with server.client(caller) as client:
                assert (await client.get("/api/approvals")).json() == {"approvals": []}
                assert (await client.get(f"/api/approvals/{question['id']}")).status_code == 404
        assert not call.done()
        assert await paid(server) == before
        assert await say(server, BOSS, question["id"], **yes) == 204
        assert (await call).json()["success"]


async def test_an_approval_of_another_digest_is_refused(server: Server) -> None:
    before = await paid(server)
    async with asked(server, AGENT, 8) as (call, question), asked_beside(server, 800) as other:
        for digest in ("", other["digest"], question["digest"].upper(), "0" * 64, "ä"):
            assert await say(server, PERSON, question["id"], approved=True, digest=digest) == 409
        for broken in ({"approved": True}, {"approved": "yes", "digest": question["digest"]}, {"approved": 1}):
            assert await say(server, PERSON, question["id"], **broken) == 422
        altered = {"approved": True, "digest": question["digest"], "arguments": {"amount": 1}}
        assert await say(server, PERSON, question["id"], **altered) == 422
        assert await say(server, PERSON, "nothing", approved=True, digest=question["digest"]) == 404
        assert not call.done()
    assert await paid(server) == before


@asynccontextmanager
async def asked_beside(server: Server, amount: int) -> AsyncIterator[dict[str, Any]]:
    """Make another call that waits for approval."""
    async with server.client(AGENT) as client, server.client(PERSON) as person:
        call = asyncio.ensure_future(client.post("/api/call", json={"name": "pay", "arguments": {"amount": amount}}))
        try:
            yield await eventually(lambda: approval_of(person, amount))
        finally:
            call.cancel()
            await asyncio.wait([call])


async def test_approving_an_abandoned_call_runs_nothing(server: Server) -> None:
    before = await paid(server)
    async with asked(server, AGENT, 9) as (_, question):
        pass
    async with server.client(PERSON) as person:
        await eventually(lambda: none_wait(person))
    assert await say(server, PERSON, question["id"], approved=True, digest=question["digest"]) == 404
    assert await paid(server) == before


async def test_an_approval_does_not_apply_to_the_same_call_again(server: Server) -> None:
    async with asked(server, AGENT, 10) as (call, first):
        assert await say(server, PERSON, first["id"], approved=True, digest=first["digest"]) == 204
        await call
    async with asked(server, AGENT, 10) as (call, second):
        assert second["id"] != first["id"]
        assert second["digest"] == first["digest"]
        assert not call.done()


async def test_a_stream_reports_that_its_call_waits_for_approval(server: Server) -> None:
    body = {"name": "pay", "arguments": {"amount": 11}}
    async with server.client(AGENT) as client, client.stream("POST", "/api/call/stream", json=body) as stream:
        async with asyncio.timeout(DEADLINE_S):
            async for line in stream.aiter_lines():
                if line == "event: approval":
                    break
            else:
                pytest.fail("the stream ended without reporting the approval")


@pytest.mark.parametrize("recreated", [False, True])
async def test_approving_a_call_whose_token_was_removed_runs_nothing(tmp_path: Path, recreated: bool) -> None:
    """The approver checks the token itself. The periodic check, which would mostly come first, is not involved."""
    ran: list[int] = []

    @tool(annotations=Annotations(requires_confirmation=True))
    async def spend(amount: int) -> None:
        """Spend."""
        ran.append(amount)

    settings = Settings.model_validate({"policy": {"approval": "confirmation", "approval_expires_s": DEADLINE_S}})
    approver = HttpApprover()
    async with Engine.open(
        tmp_path,
        settings=settings,
        sources=[StaticSource("tests", [spend])],
        packs=False,
        environ={},
        people=People(approver=approver),
    ) as engine:
        tokens = Tokens(engine.services.records, engine.services.clock)
        asker = tokens.find(tokens.add(AGENT))
        assert asker is not None
        async with aclosing(RunningCalls(engine, 3, tokens.still_valid)) as calls:
            running = calls.start(asker, "spend", {"amount": 1}, Turn(user="pat"))
            pieces = await anext(each async for each in running.event_batches(DEADLINE_S) if each)
            tokens.remove(AGENT.name)
            if recreated:
                tokens.add(AGENT)
            question = pieces[0]
            assert isinstance(question, Awaiting)
            with pytest.raises(HttpProblem) as refused:
                await approver.answer(PERSON, question.id, ApprovalAnswer(True, question.digest))
            assert refused.value.status == 409
            assert "removed" in str(refused.value.detail)
            async for _ in running.event_batches(DEADLINE_S):
                pass
            assert running.finished_result().audit.end == "killed"
    assert ran == []


async def test_an_approval_that_is_not_answered_in_time_is_a_rejection(tmp_path: Path) -> None:
    ran: list[int] = []

    @tool(annotations=Annotations(requires_confirmation=True))
    async def spend(amount: int) -> None:
        """Spend."""
        ran.append(amount)

    settings = Settings.model_validate({"policy": {"approval": "confirmation", "approval_expires_s": 0.1}})
    approver = HttpApprover()
    async with Engine.open(
        tmp_path,
        settings=settings,
        sources=[StaticSource("tests", [spend])],
        packs=False,
        environ={},
        clock=ManualClock(),
        people=People(approver=approver),
    ) as engine:
        async with aclosing(RunningCalls(engine, 3, lambda _: True)) as calls:
            running = calls.start(AGENT, "spend", {"amount": 1}, Turn(user="pat"))
            received = [piece async for pieces in running.event_batches(DEADLINE_S) for piece in pieces]
            assert running.finished_result().failure is not None
            assert "nobody approved it" in running.finished_result().error
            question = asdict(received[0])
            assert question["expires"] == "2026-01-02T03:04:05.100000+00:00"  # by the engine's clock
            with pytest.raises(HttpProblem) as late:
                await approver.answer(PERSON, question["id"], ApprovalAnswer(True, question["digest"]))
            assert late.value.status == 404
        elsewhere = await engine.call("spend", {"amount": 2})
        assert "did not come over HTTP" in elsewhere.error
    assert ran == []
