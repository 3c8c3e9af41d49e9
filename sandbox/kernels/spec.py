"""What a kernel is asked to be, and what running one cell in it gives. Nothing here runs code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.contract import CodeError, End, Mount, SandboxError

OutputKind = Literal["stream", "result", "display", "error"]


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A Python kernel. Bytes, seconds and counts; the limits hold for the whole kernel and all its children together.

    preload: modules the box's template has imported already. workspace: shown at `/work`, where the kernel starts.
    cpu_s, lifetime_s: over all cells; a kernel that has used them up ends, and its state is lost.
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
    """Of one cell. wall_s: after which it is interrupted. grace_s: after which a cell that goes on costs the kernel.

    output_bytes: past it the cell is interrupted. kept_bytes: of its outputs; what is over is counted, not kept.
    """

    wall_s: float = 30.0
    grace_s: float = 3.0
    output_bytes: int = 64 << 20
    kept_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """One output, as Jupyter's messages have it. name: stdout or stderr, of a stream. text: of a stream.

    data, metadata: MIME bundle of a result or a display. traceback: of an error, with the kernel's colours.
    """

    kind: OutputKind
    name: str = ""
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    display_id: str = ""
    traceback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of a cell. Never an exception for anything the *code* did.

    count: the kernel's number for it, None when it had none. dropped_bytes: of outputs, seen and not kept.
    state_lost: why everything earlier cells had made is gone; "" when it is not. Said once, by the first result after.
    """

    end: End
    outputs: tuple[Output, ...] = ()
    error: CodeError | None = None
    count: int | None = None
    dropped_bytes: int = 0
    wall_s: float = 0.0
    state_lost: str = ""

    @property
    def ok(self) -> bool:
        return self.end is End.OK

    @property
    def stdout(self) -> str:
        """What it printed, without what went to stderr."""
        return "".join(output.text for output in self.outputs if output.name == "stdout")


@dataclass(frozen=True, slots=True)
class KernelState:
    """A kernel that holds state. since_s: how long it has been busy, or idle. memory_bytes: None when not known."""

    agent: str
    name: str
    busy: bool
    since_s: float
    memory_bytes: int | None


class TooManyKernels(SandboxError):
    """The agent has as many kernels as it may have; the message names them."""


class Occupied(SandboxError):
    """A cell is running where only an idle kernel can answer."""


class KernelDied(SandboxError):
    """The kernel ended before it could answer. why: in a few words, the kernel's own last ones among them."""

    def __init__(self, why: str) -> None:
        missing = "'ipykernel'" in why or "'zmq'" in why
        remedy = (
            "Install ipykernel where kernels run: pip install 'knackbox[kernels]' beside Knackbox; for containers, "
            "pip install ipykernel in their image."
        )
        super().__init__(f"The kernel did not get ready: {why}.", remedy=remedy if missing else "")
