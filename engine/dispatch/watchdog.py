"""`StallWatchdog`: logs which tool blocks the event loop, and the line of code at which it is stuck."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from types import FrameType

from engine.dispatch.in_flight import InFlightCall, InFlightCalls

_log = logging.getLogger("knackbox.dispatch")

# An async tool that holds the loop this long delays every other call noticeably.
DEFAULT_STALL_S = 1.0
_BUSY_SHARE = 0.5  # if the CPU time of the loop's thread exceeds this share of the stall, the thread was computing
_TICKS = 4  # checks per stall time, so that a stall is detected at most a quarter of that time late
# The thread goes to sleep after this many checks without a call in flight. It does not do so at once, because waking it
# takes more time than all stages of a call.
_LINGERS = 40


class StallWatchdog:
    """A thread that checks that the loop responds while calls are in flight, and sleeps otherwise.

    It adds only one attribute read to each call. `reported` counts stalls caused by code in the loop, each of which is
    logged once as a warning; `starved` counts stalls with another cause.
    """

    def __init__(self, in_flight: InFlightCalls, *, stall_s: float = DEFAULT_STALL_S) -> None:
        self._in_flight = in_flight
        self._stall_s = stall_s
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._beat = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self.awake = False
        self.reported = 0
        self.starved = 0

    def wake(self) -> None:
        """Start watching. Call it from the loop when a call begins and `awake` is False."""
        self.awake = True
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._loop_thread = threading.get_ident()
            self._thread = threading.Thread(target=self._watch, name="knackbox-watchdog", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._beat.set()  # the loop is busy with this very call and cannot send the heartbeat
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._wanted.wait()
            self._wanted.clear()
            idle = 0
            while idle < _LINGERS and not self._closed.is_set():
                idle = 0 if len(self._in_flight) else idle + 1
                if not idle and not self._beats():
                    return
                self._closed.wait(self._stall_s / _TICKS)
            self.awake = False
            if len(self._in_flight):  # a call began between the last check and going to sleep
                self.awake = True
                self._wanted.set()

    def _beats(self) -> bool:
        """Wait for one heartbeat of the loop, and report a late one. Return False if the loop has been closed."""
        beat = self._beat = threading.Event()
        if self._closed.is_set():
            return False
        assert self._loop is not None  # noqa: S101 - the thread is started after it is set
        cpu_s = self._cpu_s()
        try:
            self._loop.call_soon_threadsafe(beat.set)
        except RuntimeError:
            return False
        if beat.wait(self._stall_s):
            return not self._closed.is_set()
        self._judge(beat, cpu_s)
        while not beat.wait(self._stall_s):
            if self._closed.is_set():
                return False
        return True

    def _judge(self, beat: threading.Event, cpu_s: float) -> None:
        """Report what blocks the loop, or that the machine is overloaded and nothing blocks it."""
        frame = _frame_of(self._loop_thread)
        used = self._cpu_s() - cpu_s
        computing = used >= self._stall_s * _BUSY_SHARE
        # A tool that sleeps still blocks after a short wait; a process that was stopped or got no CPU time continues.
        if _in_a_callback(frame) and (computing or not beat.wait(self._stall_s / _TICKS)):
            self._report(frame)
            return
        self.starved += 1
        _log.debug(
            "The event loop responded late (after more than %g s) and used %.2f s of CPU time meanwhile. No tool "
            "blocks it: the machine is overloaded, or another thread holds the GIL.",
            self._stall_s,
            used,
        )

    def _cpu_s(self) -> float:
        """Return the CPU time that the loop's thread has used, in seconds."""
        return time.clock_gettime(time.pthread_getcpuclockid(self._loop_thread))

    def _report(self, frame: FrameType | None) -> None:
        task = asyncio.current_task(self._loop)
        in_flight = list(self._in_flight)
        at_fault = next((each for each in reversed(in_flight) if each.task is task), None)
        self.reported += 1
        _log.warning(
            "%s has blocked the event loop for %.1f s%s; all other calls wait. Make the tool a sync function, which "
            "runs in a worker thread, or await the operation that blocks.",
            _named(at_fault, in_flight),
            self._stall_s,
            _where(frame),
        )


def _frame_of(thread: int) -> FrameType | None:
    return sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to see another thread's stack


def _in_a_callback(frame: FrameType | None) -> bool:
    """Return whether the loop's thread runs a callback rather than waiting for events."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "asyncio.events" and frame.f_code.co_name == "_run":
            return True
        if module == "asyncio.base_events" and frame.f_code.co_name == "_run_once":
            return False
        frame = frame.f_back
    return True  # an unknown kind of loop


def _where(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    last = traceback.extract_stack(frame, limit=1)[-1]
    return f" at {last.filename}:{last.lineno} in {last.name}"


def _named(at_fault: InFlightCall | None, in_flight: list[InFlightCall]) -> str:
    if at_fault is not None:
        return f"Tool {at_fault.name!r}"
    names = sorted({each.name for each in in_flight})
    return f"One of the tools in flight ({', '.join(names)}), or other code," if names else "Code other than a tool's"
