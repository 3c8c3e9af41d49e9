"""Runs turns through the real engine and the real loop, while the files in the workspace change."""

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

from bench.turns.plain_agent import QUARANTINED, decide
from bench.turns.tasks import BRING_BACK, BY_NAME, FORGET
from bench.turns.world import World
from engine import Engine
from engine.agent.clients.model import ModelClient
from engine.agent.conversation import Conversation
from engine.agent.events import CallFinished, Event, Report, TurnStarted
from engine.app.home import Home
from engine.app.models import endpoint_of
from engine.app.settings import Settings
from engine.contract.spec import Origin
from examples.demo.local_server import serve
from examples.demo.moves import Say

MODEL = "plain-agent"
RETRIEVED = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run. Turns are counted from 1.

    Attributes:
        turns: The number of turns.
        tasks: Names of the tasks that users request.
        changes: By turn, the file whose format changes.
        forgets: A skill, the turn at which a user asks to delete it, and the turn at which it is restored.
        seed: The seed of all random choices.
    """

    turns: int
    tasks: tuple[str, ...]
    changes: Mapping[int, str]
    forgets: tuple[str, int, int] | None = None
    seed: int = 6


def full_plan(turns: int) -> Plan:
    """Return the full plan: one file changes after 2/5 of the turns, the other after 7/10.

    Between them, after 11/20, a skill is deleted and restored.
    """
    changes = {turns * 2 // 5: "orders", turns * 7 // 10: "rates"}
    return Plan(turns, tuple(BY_NAME), changes, ("title_slug", turns * 11 // 20, turns * 11 // 20 + 1))


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One message of a user and its result.

    Attributes:
        ok: Whether the answer was right.
        offered: The skills on the first list of the turn.
        called: The tools that were called.
        events: `WHAT:NAME` in order, with learned, refused, used, failed, quarantined, repaired, composed, deleted,
            restored and enabled for a skill, changed for a file, and missed for an existing skill that retrieval did
            not find for its own task.
    """

    turn: int
    task: str
    offered: tuple[str, ...]
    called: tuple[str, ...]
    ok: bool
    events: tuple[str, ...]

    def line(self) -> str:
        """Return the record as a line of JSON."""
        return json.dumps(asdict(self))


async def run(plan: Plan, tick: Callable[[TurnRecord], None] = lambda _: None) -> list[TurnRecord]:
    """Run a plan in a temporary home.

    Args:
        tick: Called with the record of each turn.
    """
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
        task = chance.choice(plan.tasks)
        arguments = world.arguments(task)
        request, right = BY_NAME[task].request(chance.randrange(6), arguments), BY_NAME[task].answer(world, arguments)
        if plan.forgets and number in plan.forgets[1:]:
            template = FORGET if number == plan.forgets[1] else BRING_BACK
            task, request, right = "manage", template.format(name=plan.forgets[0]), None
        known = {
            skill.name for skill in await engine.get_active_tool_definitions() if skill.origin is not Origin.STATIC
        }
        recorder = TurnRecorder(known)
        conversation = Conversation(engine, client, on_event=recorder, stream=False)
        report = await conversation.run(request)
        events = ([f"changed:{changed}"] if changed else []) + recorder.events
        if task in known and task not in recorder.offered:
            events.append(f"missed:{task}")
        called = tuple(one.call.name for one in report.calls)
        ok = _right(report, right)
        records.append(
            TurnRecord(number, task, tuple(sorted(known & set(recorder.offered))), called, ok, tuple(events))
        )
        tick(records[-1])
    return records


class TurnRecorder:
    """Records the first list of a turn and the result of each call, from the events of the loop."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self.offered: tuple[str, ...] = ()
        self.events: list[str] = []

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted(number=1):
                self.offered = event.tools
            case CallFinished():
                self.events += self._events_of(event)

    def _events_of(self, event: CallFinished) -> Sequence[str]:
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
    """Return whether the agent's answer is right.

    Args:
        right: The expected answer, or None if all calls must succeed.
    """
    if right is None:
        return bool(report.calls) and all(one.result.success for one in report.calls)
    expected = str(right).lower() if isinstance(right, bool) else str(right)
    return re.sub(r"\s+", " ", report.answer.strip().strip('"').lower()) == expected.lower()


@asynccontextmanager
async def _model() -> AsyncIterator[str]:
    """Serve the agent as a model over HTTP, with the OpenAI protocol. Yields its base URL."""

    async def answer(request: Request) -> JSONResponse:
        body = await request.json()
        move = decide(body)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(move, Say):
            message["content"] = move.words(body["messages"])
        else:
            function = {"name": move.tool, "arguments": json.dumps(dict(move.arguments))}
            message["tool_calls"] = [{"id": f"call_{len(body['messages'])}", "type": "function", "function": function}]
        reason = "stop" if isinstance(move, Say) else "tool_calls"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
        return JSONResponse(head | {"choices": choices, "usage": usage})

    async with serve(Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])) as url:
        yield url
