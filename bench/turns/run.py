"""The run: turn after turn through the real engine and the real loop, while the world changes underneath."""

import asyncio
import json
import random
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.turns.jobs import BRING_BACK, BY_NAME, FORGET
from bench.turns.plain_agent import QUARANTINED, decide
from bench.turns.world import World
from engine import Engine
from engine.agent.events import CallFinished, Event, Report, TurnStarted
from engine.agent.loop import Conversation
from engine.agent.model import ModelClient
from engine.app.home import Home
from engine.app.models import endpoint_of
from engine.app.settings import Settings
from engine.contract.spec import Origin
from engine.interfaces.demo.local_server import serve
from engine.interfaces.demo.moves import Say

MODEL = "plain-agent"
RETRIEVED = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens at which turn, counted from 1. jobs: what is asked for. changes: a file's new form.

    forgets: the skill that a user has deleted, and later brought back, with the two turns.
    """

    turns: int
    jobs: tuple[str, ...]
    changes: Mapping[int, str]
    forgets: tuple[str, int, int] | None = None
    seed: int = 6


def whole(turns: int) -> Plan:
    """The whole story in so many turns: the first file changes after two fifths of them, the other after seven tenths.

    Half-way between, a skill is deleted and brought back.
    """
    changes = {turns * 2 // 5: "orders", turns * 7 // 10: "rates"}
    return Plan(turns, tuple(BY_NAME), changes, ("title_slug", turns * 11 // 20, turns * 11 // 20 + 1))


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One message of a user and what became of it. ok: the answer was right. offered: skills on the first list.

    events: `WHAT:NAME`, in order, with learned, refused, used, failed, quarantined, repaired, composed, deleted,
    restored and enabled for a skill, changed for a file, and missed for a skill that is there and was not found for a
    request that it was made for.
    """

    turn: int
    task: str
    offered: tuple[str, ...]
    called: tuple[str, ...]
    ok: bool
    events: tuple[str, ...]

    def line(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self))


async def run(plan: Plan, tick: Callable[[TurnRecord], None] = lambda _: None) -> list[TurnRecord]:
    """Play the plan in a home that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="knackbox-turns-") as folder:
        async with _model() as url:
            settings = Settings.model_validate(
                {"model": {"name": MODEL, "base_url": url, "api_key": "none"}, "skills": {"retrieve": RETRIEVED}}
            )
            async with (
                Engine.open(Path(folder), settings=settings, environ={}) as engine,
                ModelClient(endpoint_of(settings.model)) as client,
            ):
                return await _play(plan, engine, client, Home(Path(folder)).workspace, tick)


async def _play(
    plan: Plan, engine: Engine, client: ModelClient, workspace: Path, tick: Callable[[TurnRecord], None]
) -> list[TurnRecord]:
    chance = random.Random(plan.seed)
    await asyncio.to_thread(workspace.mkdir, parents=True, exist_ok=True)
    world = World(workspace, chance)
    records: list[TurnRecord] = []
    for number in range(1, plan.turns + 1):
        changed = plan.changes.get(number)
        if changed:
            world.change(changed)
        await asyncio.to_thread(world.pass_a_day)
        job = chance.choice(plan.jobs)
        arguments = world.arguments(job)
        request, right = BY_NAME[job].request(chance.randrange(6), arguments), BY_NAME[job].answer(world, arguments)
        if plan.forgets and number in plan.forgets[1:]:
            template = FORGET if number == plan.forgets[1] else BRING_BACK
            job, request, right = "manage", template.format(name=plan.forgets[0]), None
        known = {
            skill.name for skill in await engine.get_active_tool_definitions() if skill.origin is not Origin.STATIC
        }
        watched = Watched(known)
        conversation = Conversation(engine, client, on_event=watched, stream=False)
        report = await conversation.run(request)
        events = ([f"changed:{changed}"] if changed else []) + watched.events
        if job in known and job not in watched.offered:
            events.append(f"missed:{job}")
        called = tuple(one.call.name for one in report.calls)
        ok = _right(report, right)
        records.append(TurnRecord(number, job, tuple(sorted(known & set(watched.offered))), called, ok, tuple(events)))
        tick(records[-1])
    return records


class Watched:
    """What is seen of one turn from outside: the first list, and what became of each call."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self.offered: tuple[str, ...] = ()
        self.events: list[str] = []

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted(number=1):
                self.offered = event.tools
            case CallFinished():
                self.events += self._told(event)

    def _told(self, event: CallFinished) -> Sequence[str]:
        name, result = event.call.name, event.result
        if name in ("create_skill", "compose_skill"):
            skill = str(event.call.arguments.get("name"))
            if not result.success:
                return [f"refused:{skill}"]
            new = "composed" if name == "compose_skill" else "learned"
            return [f"{'repaired' if skill in self._known else new}:{skill}"]
        if name == "manage_skills" and result.success:
            did = {"delete": "deleted", "restore": "restored", "enable": "enabled"}[str(event.call.arguments["action"])]
            return [f"{did}:{event.call.arguments['name']}"]
        if name in BY_NAME:
            ended = f"{'used' if result.success else 'failed'}:{name}"
            return [ended, f"quarantined:{name}"] if QUARANTINED in result.error and name in self._known else [ended]
        return []


def _right(report: Report, right: Any) -> bool:
    """Whether the agent's answer is the right one. right: None where all that counts is that the calls went well."""
    if right is None:
        return bool(report.calls) and all(one.result.success for one in report.calls)
    expected = str(right).lower() if isinstance(right, bool) else str(right)
    return re.sub(r"\s+", " ", report.answer.strip().strip('"').lower()) == expected.lower()


@asynccontextmanager
async def _model() -> AsyncIterator[str]:
    """The agent served as a model over HTTP, in the OpenAI protocol; its base URL."""

    async def answer(request: Request) -> JSONResponse:
        asked = await request.json()
        move = decide(asked)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(move, Say):
            message["content"] = move.words(asked["messages"])
        else:
            function = {"name": move.tool, "arguments": json.dumps(dict(move.arguments))}
            message["tool_calls"] = [{"id": f"call_{len(asked['messages'])}", "type": "function", "function": function}]
        reason = "stop" if isinstance(move, Say) else "tool_calls"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        told = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
        return JSONResponse(told | {"choices": choices, "usage": usage})

    async with serve(Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])) as url:
        yield url
