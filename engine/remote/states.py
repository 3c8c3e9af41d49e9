"""`ModuleState`: what is known of one module: where it is, what it offers, whether it answered."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["http", "mcp"]


@dataclass(frozen=True, slots=True)
class ModuleState:
    """One configured module.

    where: its URL (without credentials) or its command. tools: full names, sorted. reachable: whether it answered when
    it was last asked; None when it was not asked yet. error: why not, one line. refreshed_at: when its manifest was
    fetched, UTC, ISO 8601; "" when there is none. left_out: tools of the manifest that cannot be used, each with why.
    """

    name: str
    kind: Kind
    where: str
    description: str = ""
    tools: tuple[str, ...] = ()
    reachable: bool | None = None
    error: str = ""
    refreshed_at: str = ""
    left_out: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
