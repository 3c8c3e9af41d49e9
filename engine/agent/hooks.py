"""`LoopHooks`: what an embedder may do before and after the turns and calls of a run.

Hooks are no policy. They see the calls that the model makes, before the pipeline decides about them, and can only
refuse more: no hook can allow a call, change its arguments, or change its result. Calls that tools or jobs make do not
pass them. Rules that must always hold belong in the policy of the engine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.agent.events import CallFinished, HookFailed, OnEvent
from engine.contract.result import ToolCall, ToolResult
from engine.contract.turn import Turn

DEADLINE_S = 5.0  # of each call of a hook

_log = logging.getLogger("knackbox.hooks")


@dataclass(frozen=True, slots=True)
class HookedTurn:
    """The turn that a hook is called for.

    Attributes:
        run: The id of the run in the journal; "" if it is not in one.
        number: The number of the turn in the run, from 1.
        turn: Its user, agent and query.
    """

    run: str
    number: int
    turn: Turn


class LoopHooks:
    """Called by the loop. Inherit from this class and override the methods that you need.

    A hook that fails or takes longer than `DEADLINE_S` is reported (`HookFailed`), and the run goes on. If a run is
    interrupted, hooks may be called again for the same turn or call when it is resumed.

    Attributes:
        guards: Whether a call is refused if `before_call` fails. By default, it is made.
    """

    guards: bool = False

    async def before_turn(self, turn: HookedTurn) -> None:
        """The model is about to be asked."""

    async def after_turn(self, turn: HookedTurn, text: str, calls: Sequence[CallFinished]) -> None:
        """The model has responded with a text and calls, and each of the calls has a result."""

    async def before_call(self, turn: HookedTurn, call: ToolCall) -> str | None:  # noqa: ARG002 -- for subclasses
        """A call that the model made is about to be passed to the pipeline.

        Returns:
            The reason why the call must not be made, which the model is told; None to pass it on.
        """
        return None

    async def after_call(self, turn: HookedTurn, call: ToolCall, result: ToolResult) -> None:
        """A call has a result, which is recorded."""


class HookCalls:
    """Calls the hooks of a conversation, in order, each within a time limit. Its methods do not raise."""

    def __init__(self, hooks: Sequence[LoopHooks] = (), on_event: OnEvent = lambda _: None) -> None:
        """Create the object.

        Args:
            hooks: The hooks.
            on_event: Called with a `HookFailed` if a hook fails.
        """
        self._hooks = hooks
        self._on_event = on_event

    async def before_turn(self, turn: HookedTurn) -> None:
        for hook in self._hooks:
            await self._bounded(hook, "before_turn", partial(hook.before_turn, turn))

    async def after_turn(self, turn: HookedTurn, text: str, calls: Sequence[CallFinished]) -> None:
        for hook in self._hooks:
            await self._bounded(hook, "after_turn", partial(hook.after_turn, turn, text, calls))

    async def before_call(self, turn: HookedTurn, call: ToolCall) -> str:
        """Return why the call must not be made, from the first hook that refuses it; "" if none does."""
        for hook in self._hooks:
            reason, failed = await self._bounded(hook, "before_call", partial(hook.before_call, turn, call))
            if failed and hook.guards:
                return f"{type(hook).__name__} could not check the call, because it failed."
            if reason is not None and not failed:
                return str(reason) or "no reason was given"
        return ""

    async def after_call(self, turn: HookedTurn, call: ToolCall, result: ToolResult) -> None:
        for hook in self._hooks:
            await self._bounded(hook, "after_call", partial(hook.after_call, turn, call, result))

    async def _bounded(
        self, hook: LoopHooks, method: str, begin: Callable[[], Awaitable[str | None]]
    ) -> tuple[str | None, bool]:
        """Return what the method returned, and whether it failed or was too slow."""
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await begin(), False
        except TimeoutError:
            error = f"took longer than {DEADLINE_S:g} s"
        except asyncio.CancelledError as cancelled:
            if task is None or task.cancelling():
                raise
            error = repr(cancelled)  # the hook itself raised it
        except Exception as raised:  # noqa: BLE001 -- hooks are other people's code
            error = repr(raised)
        name = f"{type(hook).__name__}.{method}"
        _log.warning("The hook %s failed: %s", name, error)
        self._on_event(HookFailed(name, error))
        return None, True
