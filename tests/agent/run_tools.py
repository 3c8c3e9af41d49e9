"""Tools with effects that can be counted: each effect is a line of a file that survives `kill -9`.

Code in boxes and kernels writes its lines to `done.txt` in the workspace.
"""

import os
from pathlib import Path

from engine.contract.context import CallContext
from engine.contract.spec import Annotations
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.registry.decorate import tool
from engine.registry.static import StaticSource


class Effects:
    """The effects of a run, a line for each."""

    def __init__(self, home: Path) -> None:
        self._file = home / "effects.txt"
        self._workspace = home / "workspace"

    def happen(self, what: str) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{what}\n".encode())
        os.close(descriptor)

    def all(self) -> list[str]:
        files = [self._file, *self._workspace.rglob("done.txt")]
        return [line for file in files if file.exists() for line in file.read_text().splitlines()]


def source(effects: Effects) -> StaticSource:
    @tool(annotations=Annotations(read_only=True))
    async def look(ctx: CallContext, n: int) -> str:
        """Look at something."""
        return f"saw {n}"

    @tool(annotations=Annotations(read_only=True))
    async def happened(ctx: CallContext, what: str) -> str:
        """Return whether an effect has happened, as yes or no."""
        return "yes" if what in effects.all() else "no"

    @tool(annotations=Annotations(), idempotency_key_fields=("n", "attempt"))
    async def pay(ctx: CallContext, n: int, attempt: int = 1) -> str:
        """Pay an order, once for each key."""
        effects.happen(f"pay {n}")
        return f"paid {n}"

    @tool(annotations=Annotations())
    async def send(ctx: CallContext, n: int) -> str:
        """Send a letter."""
        effects.happen(f"send {n}")
        return f"sent {n}"

    @tool(annotations=Annotations(destructive=True))
    async def drop(ctx: CallContext, n: int) -> str:
        """Delete something, after an approval."""
        effects.happen(f"drop {n}")
        return f"dropped {n}"

    return StaticSource("counted", (look, happened, pay, send, drop))


class Approving:
    """Approves every call."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer(True, request.digest, "", "ada")
