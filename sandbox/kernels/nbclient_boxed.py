"""Runs notebooks with nbclient, in boxed kernels whose messages are limited, because untrusted code sends them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from sandbox.contract import SandboxError
from sandbox.kernels.kernelspec import NAME, OneSpec, silent
from sandbox.kernels.provisioner import KnackboxProvisioner
from sandbox.kernels.spec import CellLimits, KernelDied

_READY_S = 60
_DRAIN_S = 10  # time for the outputs of a cell to arrive after its reply
_CELL_BYTES = CellLimits().output_bytes
_NOTEBOOK_BYTES = 4 * _CELL_BYTES
_MESSAGE_BYTES = 512  # the least memory that a message takes here
# The exceptions nbclient raises for a malformed message.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, nbformat.ValidationError)


@dataclass(frozen=True, slots=True)
class ShownOutput:
    """One output of the running cell, for display.

    Attributes:
        kind: The kind of the output.
        text: Its plain text, or its MIME types if it has none; for an error, the traceback with the kernel's colours.
    """

    kind: Literal["stdout", "stderr", "result", "display", "error"]
    text: str


OnOutput = Callable[[ShownOutput], None]


class KernelRejected(Exception):
    """A kernel was abandoned because it sent too much output (then `flood` is True) or a malformed message."""

    def __init__(self, why: str, *, flood: bool) -> None:
        super().__init__(why)
        self.flood = flood


class BoxedClient(NotebookClient):
    """Runs one notebook once.

    Besides the exceptions of nbclient, it raises SandboxError if no kernel can be started, and KernelRejected if the
    kernel sends too much output or a malformed message.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        config: Mapping[str, Any],
        *,
        timeout_s: float,
        allow_errors: bool,
        on_cell: Callable[[int], None],
        on_output: OnOutput,
    ) -> None:
        self._manager = AsyncKernelManager(kernel_name=NAME, kernel_spec_manager=OneSpec(config), log=silent())
        super().__init__(
            notebook,
            self._manager,
            timeout_func=lambda _: timeout_s,  # nbclient's own setting only takes whole seconds
            startup_timeout=_READY_S,
            iopub_timeout=_DRAIN_S,
            raise_on_iopub_timeout=True,
            allow_errors=allow_errors,
            record_timing=False,  # timestamps would make the file of each run different
            on_cell_execute=self._begin,
            log=silent(),
        )
        self._on_cell = on_cell
        self._on_output = on_output
        self._cell_bytes = self._notebook_bytes = 0
        self._broken: Exception | None = None
        self.at: int | None = None
        """The index of the code cell that was started last."""
        self.last_words = ""
        """The reason why the kernel ended, in a few words; "" if it has not ended."""

    @asynccontextmanager
    async def async_setup_kernel(self, **_: Any) -> AsyncGenerator[None, None]:
        """Start the kernel for an `async with` block, and end it afterwards.

        nbclient's own method would also install signal and exit handlers.
        """
        try:
            await self.async_start_new_kernel()
            self.kc = self._manager.client()
            self.kc.start_channels()
            try:
                await self.kc.wait_for_ready(timeout=_READY_S)
            except RuntimeError as error:
                raise KernelDied(self._why() or str(error)) from error
            self.kc.allow_stdin = False
            yield
        finally:
            self.last_words = self._why()
            if self.kc is not None:
                self.kc.stop_channels()
            if self._manager.has_kernel:
                await self._manager.shutdown_kernel(now=True)

    async def async_execute(self, *args: Any, **kwargs: Any) -> NotebookNode:
        try:
            return await super().async_execute(*args, **kwargs)
        except SandboxError:
            raise
        except _MALFORMED as error:
            raise _malformed(error) from error

    async def async_execute_cell(self, cell: NotebookNode, cell_index: int, *args: Any, **kwargs: Any) -> NotebookNode:
        try:
            return await super().async_execute_cell(cell, cell_index, *args, **kwargs)
        except DeadKernelError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # nbclient reports a cancellation as a dead kernel
                raise asyncio.CancelledError from None
            if self._broken is not None:
                raise self._broken from None
            raise

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        if self._broken is not None:
            return None
        size = _size_of(msg)
        self._cell_bytes += size
        self._notebook_bytes += size
        if self._cell_bytes > _CELL_BYTES or self._notebook_bytes > _NOTEBOOK_BYTES:
            most = min(_CELL_BYTES, _NOTEBOOK_BYTES - (self._notebook_bytes - self._cell_bytes))
            self._give_up(KernelRejected(f"its outputs are over {most >> 20} MiB", flood=True))
            return None
        try:
            shown = _shown(msg)
            made = super().process_message(msg, cell, cell_index)
        except _MALFORMED as error:
            self._give_up(_malformed(error))
            return None
        try:
            if shown is not None:
                self._on_output(shown)
        except OSError as error:
            self._give_up(error)
        return made

    def _begin(self, cell: NotebookNode, cell_index: int) -> None:  # noqa: ARG002 -- nbclient's names
        self.at, self._cell_bytes = cell_index, 0
        self._on_cell(cell_index)

    def _why(self) -> str:
        provisioner = self._manager.provisioner
        return provisioner.why if isinstance(provisioner, KnackboxProvisioner) else ""

    def _give_up(self, why: Exception) -> None:
        """Stop waiting for the cell that runs. The kernel is ended at the end of the run."""
        self._broken = why
        if self.task_poll_for_reply is not None:
            self.task_poll_for_reply.cancel()


def _malformed(error: Exception) -> KernelRejected:
    return KernelRejected(f"its kernel sent a malformed message ({type(error).__name__}: {error})", flood=False)


def _size_of(msg: Mapping[str, Any]) -> int:
    """Estimate the memory that a message takes, from its buffers and the characters of its strings at any depth."""
    size, left = _MESSAGE_BYTES, [msg.get("content"), *msg.get("buffers", ())]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += part.values()
            size += 64 * len(part)
        elif isinstance(part, list):
            left += part
            size += 64 * len(part)
        elif isinstance(part, str | bytes | memoryview):
            size += len(part)
    return size


def _shown(msg: Mapping[str, Any]) -> ShownOutput | None:
    """Return the output of a message, or None if it has none.

    Raises:
        _MALFORMED: The message is malformed.
    """
    content = msg["content"]
    match msg["msg_type"]:
        case "stream":
            if content["name"] not in {"stdout", "stderr"}:
                raise ValueError("a stream that is neither stdout nor stderr")
            return ShownOutput(content["name"], _text(content["text"]))
        case "execute_result" | "display_data" | "update_display_data" as kind:
            data = content["data"]
            text = _text(data["text/plain"]) if "text/plain" in data else ", ".join(f"[{_text(name)}]" for name in data)
            return ShownOutput("result" if kind == "execute_result" else "display", text)
        case "error":
            return ShownOutput("error", "\n".join(content["traceback"]) or f"{content['ename']}: {content['evalue']}")
    return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a string was expected")
    return value
