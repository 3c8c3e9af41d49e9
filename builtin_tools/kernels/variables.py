"""Asks a kernel for an overview of its variables. The answer is untrusted, so each field of it is checked."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.contract import SandboxError

if TYPE_CHECKING:  # not imported at run time, since it would load ZeroMQ and Jupyter
    from sandbox.kernels.agent_kernel import AgentKernel

_WALL_S = 3.0
_PROGRAM = Path(__file__).with_name("variables_program.py").read_text("utf-8")
# The program runs as an expression, which does not change any name in the namespace. It takes the builtins from a
# function, because the user may have a variable called `exec`.
_EXPRESSION = (
    f"(lambda b, n, s: (b['exec']({_PROGRAM!r}, s), s['answer'](n))[1])"
    "((lambda: 0).__builtins__, (lambda: 0).__globals__, {'__name__': 'knackbox'})"
)
_MOST = 200
_LONGEST = 120
_MOST_DIMENSIONS = 32
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a kernel.

    Attributes:
        length: The length of a built-in container.
        shape: The shape of an array or a table.
        size_bytes: The size of the object itself, without objects that it refers to.
    """

    name: str
    type: str
    length: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    size_bytes: int | None = None

    @property
    def line(self) -> str:
        """Describe the variable on one line."""
        shape = " x ".join(map(str, self.shape)) if self.shape is not None else ""
        facts = (
            f"length {self.length:,}" if self.length is not None else "",
            f"shape {shape or '()'}" if self.shape is not None else "",
            self.dtype,
            f"{self.size_bytes:,} bytes" if self.size_bytes is not None else "",
        )
        return f"{self.name}: {', '.join((self.type, *filter(None, facts)))}"


@dataclass(frozen=True, slots=True)
class Overview:
    """The variables of a kernel.

    Attributes:
        total: The number of variables in the kernel.
        variables: The first variables, sorted by name.
    """

    total: int
    variables: tuple[Variable, ...]

    @property
    def value(self) -> dict[str, Any]:
        """The overview as JSON."""
        rows = [{k: v for k, v in asdict(each).items() if v not in (None, "")} for each in self.variables]
        return {"total": self.total, "variables": rows}

    @property
    def message(self) -> str:
        """The overview as text for a model."""
        lines = [each.line for each in self.variables]
        if self.total > len(lines):
            lines.append(f"[{len(lines):,} of {self.total:,} variables shown]")
        return "\n".join(lines) or "The kernel has no variables."


async def variables_of(kernel: "AgentKernel") -> Overview:
    """Return the variables of an idle kernel.

    Raises:
        Occupied: A cell is running.
        NoKernel: The kernel has ended.
        SandboxError: There was no valid answer.
    """
    overview = overview_of(await kernel.ask(_EXPRESSION, _WALL_S))
    if overview is None:
        raise SandboxError("The kernel's answer was not an overview of variables.")
    return overview


def overview_of(answer: object) -> Overview | None:
    """Parse the kernel's answer; return None if it is malformed, because code in the kernel can forge it."""
    rows = answer.get("rows") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(rows, list):
        return None
    variables = tuple(found for found in map(_variable, rows[:_MOST]) if found is not None)
    return Overview(max(_number(answer.get("total")) or 0, len(variables)), variables)


def _variable(row: object) -> Variable | None:
    match row:
        case [str(name), str(kind), size, bytes_]:
            length, shape, dtype = _number(size), None, ""
            match size:
                case [list(found), str(text)]:
                    shape, dtype = tuple(_number(each) or 0 for each in found[:_MOST_DIMENSIONS]), text
            return Variable(_word(name), _word(kind), length, shape, _word(dtype), _number(bytes_))
    return None


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _word(text: str) -> str:
    """Return the text on one line of limited length."""
    return "".join(each if each.isprintable() else "?" for each in text[:_LONGEST])
