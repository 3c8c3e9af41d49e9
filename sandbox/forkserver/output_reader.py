"""`OutputReader`: reads what a job prints, keeps its beginning and end, and counts all of it."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from sandbox.capture import Capture
from sandbox.contract import Limits, OnOutput, Stream

_READ = 1 << 16
_READS_PER_WAKE = 16  # limited so that a job that never stops printing does not block the event loop


class OutputReader:
    """The output of one job, read from two pipes. Create it inside a running event loop."""

    def __init__(
        self,
        pipes: dict[Stream, int],
        limits: Limits,
        on_output: OnOutput | None,
        on_too_much: Callable[[], None],
        on_problem: Callable[[Exception], None],
    ) -> None:
        """Create the object. `start` starts reading.

        Args:
            pipes: The non-blocking descriptor of each stream. The caller closes them.
            limits: The job's limits: how much it may print, and how much is kept.
            on_output: Called with the output as it arrives.
            on_too_much: Called once, when the job has printed more than it may.
            on_problem: Called with an exception that `on_output` raised. It is not called again.
        """
        self._loop = asyncio.get_running_loop()
        self._pipes = pipes
        self._limit = limits.output_bytes
        self._on_output = on_output
        self._on_too_much = on_too_much
        self._on_problem = on_problem
        self._captures: dict[Stream, Capture] = {stream: Capture(limits.capture_bytes) for stream in pipes}
        self.seen = 0
        """The number of bytes printed so far."""
        self.too_much = False
        """Whether the job has printed more than it may."""

    def start(self) -> None:
        for stream, descriptor in self._pipes.items():
            self._loop.add_reader(descriptor, self._read, stream, descriptor)

    def stop(self) -> None:
        for descriptor in self._pipes.values():
            self._loop.remove_reader(descriptor)

    def read_rest(self) -> None:
        """Read what the pipes still hold, at the end of the job."""
        for stream, descriptor in self._pipes.items():
            self._read(stream, descriptor)

    def captured(self) -> dict[str, Any]:
        """Return the fields of an `Outcome` that contain output."""
        out, err = self._captures["stdout"], self._captures["stderr"]
        return {
            "stdout": out.value(),
            "stderr": err.value(),
            "stdout_dropped": out.dropped,
            "stderr_dropped": err.dropped,
        }

    def _read(self, stream: Stream, descriptor: int) -> None:
        """Read the available output, in a limited number of reads."""
        for _ in range(_READS_PER_WAKE):
            try:
                data = os.read(descriptor, _READ)
            except BlockingIOError:
                return
            if not data:
                self._loop.remove_reader(descriptor)
                return
            self._take(stream, data)

    def _take(self, stream: Stream, data: bytes) -> None:
        self.seen += len(data)
        self._captures[stream].feed(data)
        if self._on_output is not None:
            try:
                self._on_output(stream, data)
            except Exception as problem:  # noqa: BLE001  (the caller's function may raise anything)
                self._on_output = None
                self._on_problem(problem)
        if not self.too_much and self.seen > self._limit:
            self.too_much = True
            self._on_too_much()
