"""`Parts`: what a pipeline is made of, and what it tells others."""

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
    """Where failed calls are noted for people; `engine.stores.failure_log.FailureLog` is one. Calls block."""

    def record(
        self, tool: str, failure_class: FailureClass, reason: str, error_text: str, *, ts: str, call_id: str
    ) -> None: ...


class CallIds:
    """Call it for 64 random bits in hexadecimal: enough to name the calls of one engine apart.

    Drawn from the system for many calls at once: each draw lets go of the interpreter's lock, and getting it back from
    the thread that writes audit rows takes longer than the rest of a call. For one event loop.
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
        """Those of these names that are on the list."""
        ...

    async def nearest(self, turn: Turn, name: str) -> list[str]:
        """The names most like this one, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pipeline is made of. Only registry, bind and clock have no sensible default.

    chains: None runs without fallbacks. failures: None keeps no log of failures.
    access_guards: who may call the tool at all; asked before its arguments are looked at. guards: each may refuse a call whose
        arguments are valid. Both are asked in this order, and hear how those they admitted have ended.
    offered: looks up the tools of a turn, which alone are named to a model that asks for one there is not, or whose
        call failed; None: all that the turn's user and agent may call.
    keyed: makes a call with a key happen once; None runs it as any other.
    observers: each is told of every call and its result, once, in the event loop: be quick. What one raises is
        logged and changes nothing. Cancelled waiters get no result, observers do.
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
