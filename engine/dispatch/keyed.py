"""`KeyedCalls`: runs a call with an idempotency key once, however often it is requested (CALL-9).

The key is claimed before the call runs. Later and concurrent calls with the same key get the result of the first. An
interrupted call is never repeated automatically, because its effect may have happened.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, TypeVar

from engine.contract.canonical import digest
from engine.contract.failure import REFUSED, FailureClass, ToolFailure
from engine.contract.guard import GuardRequest
from engine.contract.result import ToolResult
from engine.stores.key_ledger import Claim, Key, KeyLedger

T = TypeVar("T")

_log = logging.getLogger("knackbox.dispatch")

_POLL_S = 0.05  # poll interval for a call of another process; calls of this process are awaited
_HASHED = re.compile(r"sha256\((\w+)\)\Z")


class KeyedCalls:
    """Ensures that each call with an idempotency key runs only once in an engine. Use it in one event loop."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._ledger = ledger
        self._running: dict[Key, asyncio.Event] = {}
        self._background: set[asyncio.Task[Any]] = set()

    async def earlier(self, request: GuardRequest) -> ToolResult | None:
        """Return the result of the first call with this key, after waiting for it within the tool's deadline.

        Returns:
            The result, or None if this call is the first one. In that case, `store` must be called when the call has
            ended.

        Raises:
            ToolFailure: It is unknown how the first call ended (DIAGNOSTIC).
        """
        key = key_of(request)
        try:
            async with asyncio.timeout(request.spec.timeout_s):
                claim = await self._claim(key)
        except TimeoutError:
            raise _unsure(request, "has been running longer than its deadline") from None
        if claim.mine:
            return None
        if claim.result is None:
            raise _unsure(request, "was interrupted, because it was cancelled or its engine ended")
        return claim.result

    def store(self, request: GuardRequest, result: ToolResult | None) -> Awaitable[None]:
        """Start storing the result of the first call. It is stored even if the caller does not await the return value.

        Args:
            request: The first call.
            result: Its result; None if the result is unknown.
        """
        return asyncio.shield(self._in_background(self._store(key_of(request), result)))

    async def aclose(self) -> None:
        """Wait until all results are stored."""
        while self._background:
            await asyncio.wait(self._background)

    async def _claim(self, key: Key) -> Claim:
        while True:
            ours = self._running.get(key)
            if ours is not None:
                await ours.wait()
                continue
            self._running[key] = asyncio.Event()
            taking = self._in_background(asyncio.to_thread(self._ledger.claim, key))
            try:
                claim = await asyncio.shield(taking)
            except asyncio.CancelledError:
                self._in_background(self._give_back(key, taking))
                raise
            except BaseException:
                self._free(key)
                raise
            if claim.mine:
                return claim
            self._free(key)
            if not claim.running:
                return claim
            await asyncio.sleep(_POLL_S)

    async def _store(self, key: Key, result: ToolResult | None) -> None:
        failure = result.failure if result is not None else None
        try:
            if result is None:
                await asyncio.to_thread(self._ledger.lost, key)
            elif failure is not None and not failure.may_have_started:
                await asyncio.to_thread(self._ledger.free, key)
            else:
                await asyncio.to_thread(self._ledger.done, key, result)
        except Exception:  # noqa: BLE001 - any error of the records; the call itself has ended
            _log.exception("The result of a keyed call of %s was not stored. The call will not be repeated.", key.tool)
        finally:
            self._free(key)

    async def _give_back(self, key: Key, taking: "asyncio.Task[Claim]") -> None:
        """Release the key of a call that was cancelled while it was claiming the key."""
        try:
            if (await taking).mine:
                await asyncio.to_thread(self._ledger.free, key)
        finally:
            self._free(key)

    def _free(self, key: Key) -> None:
        """Wake the calls in this engine that wait for the key."""
        waited_for = self._running.pop(key, None)
        if waited_for is not None:
            waited_for.set()

    def _in_background(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def key_of(request: GuardRequest) -> Key:
    """Return the key of a call: user, tool, version, and a digest of the key fields. A missing field counts as null."""
    fields = {name: _value(name, request.call.arguments) for name in request.spec.idempotency_key_fields}
    return Key(request.turn.user, request.spec.name, request.spec.version, digest(fields))


def _value(name: str, arguments: Mapping[str, Any]) -> Any:
    hashed = _HASHED.match(name)
    return arguments.get(name) if hashed is None else digest(arguments.get(hashed[1]))


def _unsure(request: GuardRequest, what: str) -> ToolFailure:
    return ToolFailure(
        f"{request.spec.name} was called with the same key before, and that call {what}. It may have had an effect, "
        "so it was not repeated. Check whether it had one. To call the tool anyway, change an argument that the "
        "key includes.",
        failure_class=FailureClass.DIAGNOSTIC,
        reason="may_have_happened",
        may_have_started=True,
        end=REFUSED,
    )
