"""Adapters for the tests."""

from engine.contract.context import CallContext
from engine.registry.decorate import tool


def add(a: int, b: int) -> int:
    return a + b


async def whose(ctx: CallContext, greeting: str = "hello") -> str:
    return f"{greeting} {ctx.turn.agent}"


@tool(name="shout")
async def shout(text: str) -> str:
    """Return the text in capital letters."""
    return text.upper()


def strange(other: int) -> int:
    return other


number = 7
