"""`circuit_of`: names the circuit for the requests of a call."""

from engine.contract.context import CallContext


def circuit_of(ctx: CallContext) -> str:
    """Return the same name for all calls of a run, and another for every call outside runs."""
    return f"run {ctx.turn.run}" if ctx.turn.run else f"call {ctx.call_id}"
