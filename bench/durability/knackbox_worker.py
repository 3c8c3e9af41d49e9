"""Works on the run with Knackbox."""

import asyncio
import time

_BEGAN = time.monotonic()

from pathlib import Path  # noqa: E402 -- the imports are timed

from bench.durability.worker import MESSAGE, Actions, Order, serve  # noqa: E402
from engine import Engine  # noqa: E402
from engine.app.conversation import open_conversation, runs_of  # noqa: E402
from engine.app.people import People  # noqa: E402
from engine.app.settings import Settings  # noqa: E402
from engine.contract.context import CallContext  # noqa: E402
from engine.contract.spec import Annotations  # noqa: E402
from engine.policy.approval import ApprovalAnswer, ApprovalRequest  # noqa: E402
from engine.registry.decorate import tool  # noqa: E402
from engine.registry.static import StaticSource  # noqa: E402


class _Approving:
    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer(True, request.digest, "", "bench")


def _source(actions: Actions) -> StaticSource:
    @tool(annotations=Annotations(read_only=True))
    async def look(_ctx: CallContext, n: int) -> str:
        """Look at something."""
        return actions.perform("look", n)

    @tool(annotations=Annotations(read_only=True))
    async def happened(_ctx: CallContext, what: str) -> str:
        """Return whether an effect has happened, as yes or no."""
        return actions.happened(what)

    @tool(annotations=Annotations(), idempotency_key_fields=("n", "attempt"))
    async def pay(_ctx: CallContext, n: int, attempt: int = 1) -> str:  # noqa: ARG001 -- a part of the key
        """Pay an order, once for each key."""
        return actions.perform("pay", n)

    @tool(annotations=Annotations())
    async def send(_ctx: CallContext, n: int) -> str:
        """Send a letter."""
        return actions.perform("send", n)

    @tool(annotations=Annotations(destructive=True))
    async def drop(_ctx: CallContext, n: int) -> str:
        """Delete something, after an approval."""
        return actions.perform("drop", n)

    return StaticSource("counted", (look, happened, pay, send, drop))


async def _work(order: Order) -> None:
    settings = Settings.model_validate(
        {
            "model": {"name": "scripted", "base_url": order.url, "api_key": "none"},
            "budget": {"turns": 200, "tool_calls": 500},
            "policy": {"approval": "destructive"},
        }
    )
    home, sources, people = Path(order.folder) / "home", [_source(Actions(order))], People(approver=_Approving())
    async with (
        Engine.open(home, settings=settings, sources=sources, packs=False, people=people, environ={}) as engine,
        open_conversation(engine, stream=False) as conversation,
    ):
        if unfinished := engine.runs.interrupted():
            await conversation.resume(await runs_of(engine).open(unfinished[0]))
        elif not engine.runs.recent():
            await conversation.run(MESSAGE)


if __name__ == "__main__":
    serve(lambda order: asyncio.run(_work(order)), _BEGAN)
