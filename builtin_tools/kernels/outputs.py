"""What each action of `kernels` returns, as programs read it."""

from typing import Literal, Required

from typing_extensions import TypedDict


class KernelRow(TypedDict):
    """One kernel and what it is doing. memory_bytes: none where it is not known."""

    user: str
    agent: str
    kernel: str
    state: Literal["busy", "idle"]
    since_s: float
    cells: int
    memory_bytes: int | None
    workspace: str


class KernelListOutput(TypedDict):
    """Of list."""

    kernels: list[KernelRow]


class VariableRow(TypedDict, total=False):
    """One variable: its name and type, and what else is known of it."""

    name: Required[str]
    type: Required[str]


class VariablesOutput(TypedDict):
    """Of variables. total: how many there are, of which only the first are given."""

    kernel: str
    total: int
    variables: list[VariableRow]


class KernelOutput(TypedDict):
    """Of interrupt and stop."""

    kernel: str


class ExportOutput(TypedDict):
    """Of export. path: of the notebook."""

    kernel: str
    path: str
