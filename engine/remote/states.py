"""`ModuleState`: the location, tools and reachability of one module."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["http", "mcp"]


@dataclass(frozen=True, slots=True)
class ModuleState:
    """The state of one configured module.

    Attributes:
        where: Its URL (without credentials) or its command.
        tools: Full names, sorted.
        reachable: Whether it answered the last request; None before the first request.
        error: Why it did not answer, in one line.
        refreshed_at: The time at which its manifest was fetched, UTC, ISO 8601; "" without a manifest.
        left_out: The tools of the manifest that were skipped, each with the reason.
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
