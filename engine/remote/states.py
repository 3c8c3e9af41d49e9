"""`ModuleState`: the location, tools and reachability of one module."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["http", "mcp"]


@dataclass(frozen=True, slots=True)
class ModuleState:
    """The state of one configured module.

    where: its URL (without credentials) or its command. tools: full names, sorted. reachable: whether it answered when
        it
    was last asked; None if it was not asked yet. error: why not, one line. refreshed_at: when its manifest was fetched,
    UTC, ISO 8601; "" without one. left_out: skipped tools of the manifest, each with the reason.
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
