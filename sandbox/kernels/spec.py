"""Data types of kernels: what a kernel is started with, the result of a cell, and errors. Nothing here runs code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sandbox.contract import CodeError, End, Mount, SandboxError

OutputKind = Literal["stream", "result", "display", "error"]
DEFAULT_NAME = "default"  # name of an agent's kernel if none is given


class KernelOwner(NamedTuple):
    """The user and agent that a kernel belongs to. Kernels are never shared between users or agents."""

    user: str
    agent: str


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A Python kernel. Limits are in bytes, seconds and counts, for the kernel and all its children together.

    Attributes:
        preload: Modules the box's template has already imported.
        workspace: A folder mounted at `/work`, where the kernel starts.
        cpu_s: CPU time of all cells; a kernel that has used it up ends, and its state is lost.
        lifetime_s: Wall-clock time after which the kernel ends, and its state is lost.
    """

    preload: tuple[str, ...] = ()
    workspace: Mount | None = None
    memory_bytes: int = 1 << 30
    processes: int = 64
    threads: int = 128
    open_files: int = 256
    disk_bytes: int = 256 << 20
    cpu_s: float = 3600.0
    lifetime_s: float = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class CellLimits:
    """The limits of one cell.

    Attributes:
        wall_s: Seconds after which the cell is interrupted.
        grace_s: Seconds to wait after the interrupt. If the cell still runs after that, the kernel is killed.
        output_bytes: Bytes of output beyond which the cell is interrupted.
        kept_bytes: Bytes of output that are kept; the rest is only counted.
    """

    wall_s: float = 30.0
    grace_s: float = 3.0
    output_bytes: int = 64 << 20
    kept_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """One output, as in Jupyter's messages.

    Attributes:
        name: stdout or stderr, for a stream.
        text: The text of a stream.
        data, metadata: The MIME bundle of a result or a display.
        traceback: The traceback of an error, with the kernel's colours.
    """

    kind: OutputKind
    name: str = ""
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    display_id: str = ""
    traceback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateLoss:
    """The loss of everything that earlier cells created. Its text, `str(loss)`, is for people and models.

    Attributes:
        reasons: Why the state was lost, oldest first; more than one if an earlier loss was not reported yet.
        in_cell: Whether the kernel ended during the cell that reports the loss.
    """

    reasons: tuple[str, ...]
    in_cell: bool = False

    def __str__(self) -> str:
        return f"State was lost: {'; then '.join(self.reasons)}. Variables and imports of earlier cells are gone."


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a cell. Failures of the *code* are never raised as exceptions.

    Attributes:
        error: The exception that ended the cell.
        count: The number that the kernel gave the cell; None if it gave none.
        number: The number of the cell in the history of an `AgentKernel`; 0 if the cell is not in a history.
        kept_bytes: The size of `outputs` in bytes, counted as text or JSON.
        dropped_bytes: Bytes of outputs that were seen but not kept.
        state_lost: The loss that this result reports; None when the state was kept. Each loss is reported by one
            result.
    """

    end: End
    outputs: tuple[Output, ...] = ()
    error: CodeError | None = None
    count: int | None = None
    number: int = 0
    kept_bytes: int = 0
    dropped_bytes: int = 0
    wall_s: float = 0.0
    state_lost: StateLoss | None = None

    @property
    def ok(self) -> bool:
        return self.end is End.OK

    @property
    def stdout(self) -> str:
        """The text that the cell printed to stdout."""
        return "".join(output.text for output in self.outputs if output.name == "stdout")


class NoKernel(LookupError):
    """The agent has no running kernel with that name. The message lists those that are running."""


class TooManyKernels(SandboxError):
    """The agent has as many kernels as allowed; the message names them."""


class Occupied(SandboxError):
    """A cell is running, but the request needs an idle kernel."""


class KernelDied(SandboxError):
    """The kernel ended before it could answer.

    `why` is the reason in a few words, including the kernel's last output.
    """

    def __init__(self, why: str) -> None:
        missing = "'ipykernel'" in why or "'zmq'" in why
        remedy = (
            "Install ipykernel where kernels run: pip install 'knackbox[kernels]' in the environment of "
            "Knackbox; for containers, pip install ipykernel in their image."
        )
        super().__init__(f"The kernel did not become ready: {why}.", remedy=remedy if missing else "")
