"""`Parts`: the collaborators of a pipeline, and the protocols they implement."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.contract.context import Clock
from engine.contract.failure import FailureClass
from engine.contract.guard import Guard
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BindContext
from engine.dispatch.cap import OutputCap
from engine.dispatch.keyed import KeyedCalls
from engine.dispatch.watchdog import DEFAULT_STALL_S
from engine.recovery.fallback import FallbackChains
from engine.recovery.retry import Retrier
from engine.registry.registry import Registry

_ID_BYTES = 8
_IDS_AT_ONCE = 256

Observer = Callable[[ToolCall, ToolResult, Turn], None]


class FailureSink(Protocol):
    """Records failed calls for people. `engine.stores.failure_log.FailureLog` implements it. `record` blocks."""

    def record(
        self, tool: str, failure_class: FailureClass, reason: str, error_text: str, *, ts: str, call_id: str
    ) -> None: ...


class CallIds:
    """Generates call ids: 64 random bits in hexadecimal.

    Random bytes are read in blocks: each read releases the GIL, and reacquiring it from the thread that writes audit
    rows takes longer than the rest of a call. For use in one event loop.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []

    def __call__(self) -> str:
        if not self._drawn:
            block = secrets.token_hex(_ID_BYTES * _IDS_AT_ONCE)
            width = 2 * _ID_BYTES
            self._drawn = [block[at : at + width] for at in range(0, len(block), width)]
        return self._drawn.pop()


class OfferedTools(Protocol):
    """The tools on a turn's list, by name or alias (`engine.turn.look_up`)."""

    async def specs(self, turn: Turn, names: Collection[str]) -> Mapping[str, ToolSpec]:
        """Return the listed tools among these names."""
        ...

    async def nearest(self, turn: Turn, name: str) -> list[str]:
        """Return the most similar names, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The collaborators of a pipeline. Only registry, bind and clock have no default.

    chains: None runs without fallbacks. failures: None keeps no log of failures.
    access_guards: decide who may call a tool; asked before the arguments are validated. guards: asked after that.
        Both are asked in order, and are notified of the end of each call that they admitted.
    offered: looks up the tools of a turn. Suggestions for unknown tools and failed calls are limited to these. None
        allows every tool that the turn's user and agent may call.
    keyed: makes calls with an idempotency key happen only once; None runs them like any other call.
    observers: called once with every call and its result, in the event loop, so they must be fast. Their exceptions
        are logged and otherwise ignored. They also get the results of calls whose waiter was cancelled.
    """

    registry: Registry
    bind: BindContext
    clock: Clock
    chains: FallbackChains | None = None
    failures: FailureSink | None = None
    access_guards: Sequence[Guard] = ()
    guards: Sequence[Guard] = ()
    offered: OfferedTools | None = None
    keyed: KeyedCalls | None = None
    observers: Sequence[Observer] = ()
    retrier: Retrier = field(default_factory=Retrier)
    cap: OutputCap = field(default_factory=OutputCap)
    new_id: Callable[[], str] = field(default_factory=CallIds)
    stall_s: float = DEFAULT_STALL_S
