"""`WorkerProcess`: the confined process that waits for a job and runs it. Standard library only."""

import contextlib
import os
from dataclasses import dataclass

from sandbox import worker
from sandbox.wire.results import ResultChannel


@dataclass(frozen=True)
class WorkerProcess:
    """A confined process that waits for its job.

    Attributes:
        pid: Its process id, as its parent sees it.
        job: The descriptor to write the job's frame to.
        results: Where it reports the result.
    """

    pid: int
    job: int
    results: ResultChannel

    def hand_over(self, frame: bytes) -> None:
        """Send it the job's frame, as received from the engine, and close the descriptor."""
        with contextlib.suppress(BrokenPipeError):  # it died while waiting: its exit status says how
            worker.write_all(self.job, frame)
        os.close(self.job)
