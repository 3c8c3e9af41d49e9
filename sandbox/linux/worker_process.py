"""`WorkerProcess`: the confined process that waits for a job and runs it. Standard library only.

The module's functions run in the worker itself, in every backend.
"""

import contextlib
import json
import os
from dataclasses import dataclass

from sandbox import worker
from sandbox.wire.results import ResultChannel


@dataclass(frozen=True)
class WorkerProcess:
    """A confined process that waits for its job.

    Attributes:
        pid: The worker's process id, as its parent sees it.
        job: The descriptor to write the job's frame to.
        results: The channel on which the worker reports the result.
    """

    pid: int
    job: int
    results: ResultChannel

    def hand_over(self, frame: bytes) -> None:
        """Send the worker the job's frame, as received from the engine, and close `job`."""
        with contextlib.suppress(BrokenPipeError):  # the worker died while it was waiting; its exit status says how
            worker.write_all(self.job, frame)
        os.close(self.job)


def wait_for_job(descriptor: int) -> tuple[worker.Message, bytes]:
    """Wait for the job, and return its header and body. The worker calls this.

    Exits if the parent ends without sending a job.
    """
    with os.fdopen(descriptor, "rb") as source:
        head = source.read(worker.HEADER.size)
        if not head:
            os._exit(0)
        header_length, body_length = worker.unpack_head(head)
        header: worker.Message = json.loads(source.read(header_length))
        return header, source.read(body_length)


def take_stdin(scratch: int, body: bytes, size: int) -> bytes:
    """Make the end of the body readable as standard input, and return the rest, which contains the job's files.

    The worker calls this.

    Args:
        scratch: The descriptor of an unnamed file, which is closed.
        body: The body of the job's frame.
        size: The number of bytes at the end of the body that are standard input.
    """
    worker.write_all(scratch, body[-size:])
    os.lseek(scratch, 0, os.SEEK_SET)
    os.dup2(scratch, 0)
    os.close(scratch)
    return body[:-size]
