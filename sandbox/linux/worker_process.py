"""`WorkerProcess`: the confined process that waits for a job and runs it. Standard library only.

The functions are the steps it runs itself, whatever the backend.
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
        pid: Its process id, as its parent sees it.
        job: The descriptor to write the job's frame to.
        results: Where it reports the result.
    """

    pid: int
    job: int
    results: ResultChannel

    def hand_over(self, frame: bytes) -> None:
        """Send the worker the job's frame, as received from the engine, and close the descriptor."""
        with contextlib.suppress(BrokenPipeError):  # the worker died while it was waiting; its exit status says how
            worker.write_all(self.job, frame)
        os.close(self.job)


def wait_for_job(descriptor: int) -> tuple[worker.Message, bytes]:
    """In the worker: wait for its job, and return its header and body. Exits if the parent ends without sending one."""
    with os.fdopen(descriptor, "rb") as source:
        head = source.read(worker.HEADER.size)
        if not head:
            os._exit(0)
        header_length, body_length = worker.unpack_head(head)
        header: worker.Message = json.loads(source.read(header_length))
        return header, source.read(body_length)


def take_stdin(scratch: int, body: bytes, size: int) -> bytes:
    """In the worker: make the end of the body readable as descriptor 0; return the rest of it, the job's files.

    `scratch` is the descriptor of an unnamed file, which is closed.
    """
    worker.write_all(scratch, body[-size:])
    os.lseek(scratch, 0, os.SEEK_SET)
    os.dup2(scratch, 0)
    os.close(scratch)
    return body[:-size]
