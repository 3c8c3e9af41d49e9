"""`ModuleState`: the location, tools and reachability of one module."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["http", "mcp"]


@dataclass(frozen=True, slots=True)
class ModuleState:
    """The state of one configured module.

    Attributes:
        where: The module's URL (without credentials) or its command.
        tools: The full names of its tools, sorted.
        reachable: Whether the module answered the last request; None before the first request.
        error: Why the module did not answer, in one line.
        refreshed_at: When the manifest was fetched (UTC, ISO 8601); "" if there is no manifest.
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
