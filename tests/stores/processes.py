"""Processes for tests, forked from a server that has done the slow imports."""

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 60.0
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "chromadb",
        "engine.registry.registries",
        "engine.retrieval.index",
        "engine.stores.vectors",
        "tests.builtin_tools.schedule.job_process",
        "tests.stores.processes",
    ]
)


class Other:
    """A running process and a pipe to it."""

    def __init__(self, process: Any, pipe: "multiprocessing.connection.Connection[Any, Any]") -> None:
        self.process = process
        self.pipe = pipe

    def ask(self, question: Any) -> Any:
        self.pipe.send(question)
        return self.hear()

    def hear(self) -> Any:
        if not self.pipe.poll(PATIENCE_S):
            raise TimeoutError("The other process says nothing.")
        return self.pipe.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE_S)

    def end(self) -> int:
        """Wait until it ends, and return its exit code, which is negative if a signal ended it."""
        self.process.join(PATIENCE_S)
        if self.process.exitcode is None:
            raise TimeoutError("The other process does not end.")
        return int(self.process.exitcode)


@contextmanager
def other(body: Callable[..., None], *arguments: Any) -> Iterator[Other]:
    """Run `body(pipe, *arguments)`, a function of a module, in another process."""
    here, there = SERVER.Pipe()
    process = SERVER.Process(target=body, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    running = Other(process, here)
    try:
        yield running
    finally:
        if process.is_alive():
            running.kill()
        here.close()
