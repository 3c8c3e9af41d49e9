"""`Attempts`: the stage of the pipeline that runs the tool. One deadline covers all attempts of a call."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from engine.contract.context import CallContext, Clock, no_progress
from engine.contract.failure import Failure, FailureClass, ToolFailure
from engine.contract.source import Tool
from engine.dispatch.forwarding import FromThread
from engine.dispatch.in_flight import InFlightCall, InFlightCalls, Stop
from engine.dispatch.threads import WorkerThreads
from engine.recovery.classify import FailureFacts, classify
from engine.recovery.retry import Retrier
from sandbox.contract import Busy

_log = logging.getLogger("knackbox.dispatch")


class Attempts:
    """Runs a tool until it succeeds, fails permanently, or reaches its deadline."""

    def __init__(
        self,
        clock: Clock,
        in_flight: InFlightCalls,
        retrier: Retrier,
        threads: WorkerThreads,
        facts: Callable[[InFlightCall], FailureFacts],
    ) -> None:
        self._clock = clock
        self._in_flight = in_flight
        self._retrier = retrier
        self._threads = threads
        self._facts = facts

    async def run(self, inflight: InFlightCall, tool: Tool, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Run the tool and return its value. The exception of its last attempt propagates.

        If a tool that was cancelled by its deadline or its caller raises another exception, the call still counts as
        cancelled.

        Raises:
            TimeoutError: The deadline passed; `inflight.out_of_time` is set.
        """
        self._in_flight.set_deadline(inflight, tool.spec.timeout_s)
        try:
            try:
                return await self._once(inflight, tool, ctx, arguments)
            except Exception as error:
                if isinstance(error, Busy) and not inflight.patient:
                    raise
                return await self._retry(error, inflight, tool, ctx, arguments)
        except asyncio.CancelledError:
            if inflight.stopping is Stop.DEADLINE and inflight.uncancel():
                raise TimeoutError from None
            raise
        finally:
            inflight.deadline = math.inf

    async def _once(self, inflight: InFlightCall, tool: Tool, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        inflight.attempts += 1
        blocking = getattr(tool, "run_blocking", None)
        try:
            if blocking is not None:
                if ctx.progress is not no_progress:
                    ctx = replace(ctx, progress=FromThread(ctx.progress))
                return await self._threads.run(partial(blocking, ctx, arguments), entered=inflight.enter)
            inflight.started = True
            return await tool.run(ctx, arguments)
        except asyncio.CancelledError as error:
            if inflight.asked_to_stop:
                raise
            # The call was not cancelled: the tool cancelled itself, or awaited something that was cancelled.
            raise ToolFailure(
                f"{inflight.name} was cancelled by its own code or by something that it awaited.",
                failure_class=FailureClass.UNKNOWN,
                reason="cancelled_within",
            ) from error
        except Exception as error:
            if inflight.asked_to_stop:
                raise asyncio.CancelledError from error
            raise

    async def _retry(
        self, error: Exception, inflight: InFlightCall, tool: Tool, ctx: CallContext, arguments: Mapping[str, Any]
    ) -> Any:
        end = inflight.t0 + tool.spec.timeout_s

        def failure_of(error: BaseException) -> Failure:
            return classify(error, self._facts(inflight))

        async def once_more() -> Any:
            # The name of this log event comes from the module protocol; it is used for all tools.
            _log.warning(
                "tool_call_failed_retrying tool=%s call=%s attempt=%d",
                inflight.name,
                inflight.call_id,
                inflight.attempts + 1,
            )
            return await self._once(inflight, tool, ctx, arguments)

        return await self._retrier.again(
            error,
            once_more,
            failure_of,
            lambda: end - self._clock.monotonic(),
        )
