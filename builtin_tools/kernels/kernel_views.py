"""Describes a kernel for tools and `knackbox kernel`: as a row of a list, and as a notebook."""

import asyncio
import importlib
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict

from sandbox.contract import SandboxError

if TYPE_CHECKING:  # not imported at run time, since it would load ZeroMQ and Jupyter
    from sandbox.kernels.agent_kernel import AgentKernel

_MISSING = "pip install 'knackbox[kernels]', in the environment Knackbox runs in."
_MINUTE, _HOUR = 60, 3600


class KernelRow(TypedDict):
    """One kernel and its state.

    Attributes:
        since_s: How long the kernel has been busy or idle, in seconds.
        memory_bytes: null if unknown.
    """

    user: str
    agent: str
    kernel: str
    state: Literal["busy", "idle"]
    since_s: float
    cells: int
    memory_bytes: int | None
    workspace: str


def row_of(kernel: "AgentKernel", now: float) -> KernelRow:
    """Return the row for a kernel. `now` is the time of the kernel's event loop."""
    workspace = kernel.spec.workspace
    return {
        "user": kernel.owner.user,
        "agent": kernel.owner.agent,
        "kernel": kernel.name,
        "state": "idle" if kernel.idle else "busy",
        "since_s": round(now - kernel.last_used, 1),
        "cells": kernel.history.count,
        "memory_bytes": kernel.memory_bytes,
        "workspace": str(workspace.source) if workspace is not None else "",
    }


def line_of(row: KernelRow) -> str:
    """Format a row as a line for a model."""
    memory = megabytes(row["memory_bytes"])
    return f"{row['kernel']}: {row['state']} for {ago(row['since_s'])}, {row['cells']} cells, {memory} of memory"


def ago(seconds: float) -> str:
    """Format a duration, such as `5 s`, `12 min` or `3.5 h`."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def megabytes(size: int | None) -> str:
    """Format a size in MiB; `unknown` for None."""
    return "unknown" if size is None else f"{size / (1 << 20):,.0f} MiB"


async def export_notebook(kernel: "AgentKernel") -> bytes:
    """Return the history of a kernel as a notebook.

    Raises:
        SandboxError: The extra that writes notebooks is not installed.
    """
    history = kernel.history.copy()
    try:
        # nbformat is installed with an extra, and importing it takes 0.2 s.
        notebooks = await asyncio.to_thread(importlib.import_module, "builtin_tools.kernels.notebook_export")
    except ImportError as error:
        raise SandboxError(f"No notebook can be written: {error}.", remedy=_MISSING) from error
    made: bytes = await asyncio.to_thread(notebooks.notebook_of, history)
    return made
