"""The overview of a kernel's variables: what is asked of the kernel, and its answer taken over field by field."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WALL_S = 3.0
_PROGRAM = Path(__file__).with_name("inside.py").read_text("utf-8")
# An expression, so that no name of the namespace is touched; and its builtins come from a function, since a variable
# may well be called `exec`.
EXPRESSION = (
    f"(lambda b, n, s: (b['exec']({_PROGRAM!r}, s), s['answer'](n))[1])"
    "((lambda: 0).__builtins__, (lambda: 0).__globals__, {'__name__': 'knackbox'})"
)
_MOST = 200
_LONGEST = 120
_MOST_DIMENSIONS = 32
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Variable:
    """shape: of an array or a table. length: of a built-in container. size_bytes: without what it refers to."""

    name: str
    type: str
    length: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    size_bytes: int | None = None

    @property
    def line(self) -> str:
        """For a reader."""
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
    """total: how many variables there are; only the first of them, by name, are told."""

    total: int
    variables: tuple[Variable, ...]

    @property
    def value(self) -> dict[str, Any]:
        rows = [{k: v for k, v in asdict(each).items() if v not in (None, "")} for each in self.variables]
        return {"total": self.total, "variables": rows}

    @property
    def message(self) -> str:
        lines = [each.line for each in self.variables]
        if self.total > len(lines):
            lines.append(f"[{len(lines):,} of {self.total:,} variables shown]")
        return "\n".join(lines) or "The kernel holds no variables."


def overview_of(answer: object) -> Overview | None:
    """None for an answer that is none: code in the kernel can say what it likes."""
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
    """On one line, and no longer than it need be."""
    return "".join(each if each.isprintable() else "?" for each in text[:_LONGEST])
