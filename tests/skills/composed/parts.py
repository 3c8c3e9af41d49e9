"""Tools and pipelines for the tests of composed skills, and an engine with these tools."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acquired_skills.model.proposal import Proposal
from engine import Engine
from engine.app.people import People
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

READS = Annotations(read_only=True, idempotent=True)
PAGE = {"title": "Bread", "links": ["/rye", "/wheat"]}


@tool(category="search", annotations=READS)
async def read_page(url: str) -> dict[str, Any]:
    """Read a page.

    Args:
        url: The address of the page.
    """
    return {"title": f"Page {url}", "links": [f"{url}/{n}" for n in range(3)]}


@tool(category="notes", required_permission="admin", side_effects=("message_sent",))
async def send_note(ctx: CallContext, to: str, text: str) -> dict[str, Any]:
    """Send a note. Each becomes a line of a file, so that tests can count the notes.

    Args:
        to: The recipient.
        text: The text of the note.
    """
    if (ctx.workspace.root / "closed").exists():
        raise ToolFailure("the post office is closed", failure_class=FailureClass.FATAL, may_have_started=False)
    if (ctx.workspace.root / "broken").exists():
        raise ToolFailure("the line broke while sending")
    with (ctx.workspace.root / "sent.txt").open("a") as sent:
        sent.write(f"{to}: {text}\n")
    return {"sent": to}


@tool(category="notes", annotations=Annotations(destructive=True, requires_confirmation=True))
async def burn_notes(ctx: CallContext, count: int = 1) -> int:
    """Burn notes."""
    (ctx.workspace.root / "sent.txt").unlink(missing_ok=True)
    return count


TOOLS = (read_page, send_note, burn_notes)


def sent(home: Path) -> list[str]:
    """Return the notes that were sent."""
    file = home / "workspace" / "sent.txt"
    return file.read_text().splitlines() if file.exists() else []


@asynccontextmanager
async def opened(home: Path, people: People | None = None, **settings: Any) -> AsyncIterator[Engine]:
    async with Engine.open(home=home, sources=[StaticSource("post", TOOLS)], people=people, environ=settings) as engine:
        yield engine


FETCH = {"name": "fetch", "call": "read_page", "inputs": {"url": {"from": "/arguments/url"}}}
SEND = {
    "name": "send",
    "call": "send_note",
    "inputs": {"to": {"from": "/arguments/to"}, "text": {"text": ["See ", {"from": "/fetch/title"}]}},
}
TELL = {"steps": [FETCH, SEND], "output": {"title": {"from": "/fetch/title"}, "told": {"from": "/send/sent"}}}
TELL_CASE = {
    "arguments": {"url": "https://bread.example", "to": "ann"},
    "steps": {"fetch": PAGE, "send": {"sent": "ann"}},
    "asked": {"fetch": {"url": "https://bread.example"}, "send": {"to": "ann", "text": "See Bread"}},
    "expect": {"title": "Bread", "told": "ann"},
}


def proposal(pipeline: Any, cases: Any, name: str = "tell_about", **more: Any) -> Proposal:
    described = "Reads a page and tells somebody of it."
    return Proposal(name, described, json.dumps(pipeline), json.dumps(cases), timeout_s=60.0, **more)


async def compose(
    engine: Engine, pipeline: Any, cases: Any, name: str = "tell_about", call_id: str | None = None, **more: Any
) -> ToolResult:
    given = {"name": name, "description": "Reads a page and tells somebody of it.", "pipeline": pipeline, **more}
    return await engine.call("compose_skill", {**given, "cases": cases}, call_id=call_id)
