"""Process 1 of a container: starts a confined worker, reports facts about the container, runs one job and exits.

Process 1 reads frames on descriptor 0 and writes frames on descriptor 1. The worker has neither descriptor, and under
the host's kernel it can neither read, trace nor signal process 1. gVisor lets it open `/proc/1/fd/1`, so an answer
carries a key that came with the job and that the worker never sees, and process 1 sends the answer only once every
other process is dead. When process 1 exits, the kernel kills the remaining processes, and Docker removes the container.
Process 1 also exits at the end of descriptor 0, which means that the engine is gone. Standard library only.
"""

import contextlib
import importlib
import json
import os
import signal
from typing import NoReturn, Protocol

from sandbox import worker
from sandbox.docker.inside import confine, counters, facts
from sandbox.docker.inside.job_supervisor import JobSupervisor
from sandbox.docker.inside.outbox import Outbox
from sandbox.linux import answer

_ORDERS, _OUT = 0, 1
_SEND_WAIT_S = 30.0
# The container's own process limit applies, not rlimits, which also count the user's processes outside the container.
_UNBOUND = 1 << 20


class Orders(Protocol):
    """Reads the engine's frames from descriptor 0. The code `sandbox.docker.bundle.BOOT` provides this object."""

    def read(self, size: int, /) -> bytes:
        """Return exactly `size` bytes.

        Raises:
            EOFError: The stream ended before `size` bytes had arrived.
        """
        ...


def main(preload: list[str], orders: Orders) -> NoReturn:
    """Run one job and exit. Never returns. `orders` is the stream that the boot frame was read from."""
    outbox, key = Outbox(_OUT), None
    try:
        _prepare(preload)
        running = confine.start()
        outbox.put({"ready": facts.gather(running.pid, running.landlock_abi)})
        outbox.drain(_ORDERS, _SEND_WAIT_S)
        header, body = _receive(orders)
        key = header.pop("key")  # the worker never sees the key, and an answer without it is rejected
        outbox.put({"taken": True})
        disks = (confine.TMP, confine.SHM) if header["mount"] else (confine.TMP, confine.SHM, confine.WORK)
        limits = header["limits"]
        watch = counters.ContainerWatch(disks)
        running.hand_over(
            worker.pack({**header, "limits": {**limits, "processes": _UNBOUND, "threads": _UNBOUND}}, body)
        )
        watch.begin(limits, running.pid, confine.WORK if header["mount"] == "through" else "")
        ended = JobSupervisor(running, _ORDERS, outbox, header["inlets"]).run(limits, watch)
        said, files = answer.conclude(header, ended, watch)
        outbox.put({"answer": said, "key": key}, files)
        outbox.drain(_ORDERS, _SEND_WAIT_S)
    except EOFError:  # the engine is gone, or does not need this container
        pass
    except BaseException as problem:  # noqa: BLE001  (any failure is reported to the engine)
        with contextlib.suppress(EOFError):
            outbox.put({"failed": f"{type(problem).__name__}: {problem}", "key": key})
            outbox.drain(_ORDERS, _SEND_WAIT_S)
    finally:
        os._exit(0)


def _prepare(preload: list[str]) -> None:
    """Do the preparations that are the same for every job. The worker is forked afterwards and inherits them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # without a handler, process 1 gets no signals from its own container
    os.umask(0o077)
    worker.prepare_template()
    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _receive(orders: Orders) -> tuple[worker.Message, bytes]:
    """Return the job's frame.

    Raises:
        EOFError: The engine is gone, or does not need this container.
    """
    header_length, body_length = worker.unpack_head(orders.read(worker.HEADER.size))
    header: worker.Message = json.loads(orders.read(header_length))
    return header, orders.read(body_length)
