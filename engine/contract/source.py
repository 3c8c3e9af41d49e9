"""`Tool` and `ToolSource`, the central abstractions. Built-in tools, skills, modules and packs are all sources.

Cross-cutting behaviour (filtering, prefixing, approving, observing) belongs in a small wrapper around a source, not in
a branch inside one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.contract.context import CallContext
from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


@runtime_checkable
class Tool(Protocol):
    """A tool: a frozen spec and an async function.

    `run` may return any JSON-like value or a `Produced` (a value with message and side effects), or raise an exception.
    In every case the pipeline makes exactly one `ToolResult` of it.
    """

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any: ...


@runtime_checkable
class RedirectingTool(Tool, Protocol):
    """A static tool that can redirect calls to another tool. The deadline, policy and audit of that tool then apply."""

    def redirect(self, call: ToolCall) -> ToolCall | None:
        """Return the target call, or None to run this tool itself."""
        ...


class NoTools(tuple[Tool, ...]):  # noqa: SLOT001 -- a subclass of tuple cannot have nonempty slots
    """An empty or incomplete list of tools, with the reason why tools are missing.

    Attributes:
        what: A description of the missing tools.
        why: Why they are missing.
    """

    what: str
    why: str

    @classmethod
    def because(cls, what: str, why: str, tools: Iterable[Tool] = ()) -> "NoTools":
        """Create the list.

        Args:
            what: A description of the missing tools.
            why: Why they are missing.
            tools: The tools that are available nevertheless.
        """
        none = cls(tools)
        none.what, none.why = what, why
        return none


@runtime_checkable
class ToolSource(Protocol):
    """Offers tools for turns, and finds tools by name."""

    @property
    def name(self) -> str: ...

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        """Return the tools for this turn, in a stable order.

        Returning the same tuple object again means that nothing has changed, so the caller need not read it again.
        If the result is a list, the caller reads it every time.
        """
        ...

    async def find(self, name: str) -> Tool | None:
        """Return the tool of exactly this name or alias, whether or not the current turn offers it."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """A tool found for a query.

    Attributes:
        fit: The probability that it is useful, 0 to 1; comparable between sources.
        evidence: The summands of the log-odds of `fit`, by name; empty if they are not known.
    """

    tool: Tool
    fit: float
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matches:
    """Tools that a source found for a query, best first.

    Attributes:
        gap: What could not be searched, and why; "" for nothing.
        ranking: Which version of a learned ranking was used, and why; "" for none.
    """

    found: tuple[Match, ...] = ()
    gap: str = ""
    ranking: str = ""


@runtime_checkable
class PagedSource(ToolSource, Protocol):
    """A source with so many tools that callers read them page by page, or search them.

    The methods cover the tools that `tools` returns for a turn without a query. These tools must not have aliases.
    """

    async def page(self, after: str, limit: int) -> Sequence[Tool]:
        """Return the next tools in the order of their names.

        Args:
            after: The last name of the previous page; "" for the first page.
            limit: The size of a page. Only the last page may be shorter.
        """
        ...

    async def search(self, query: str, limit: int) -> Matches:
        """Return the tools that best match a query."""
        ...

    async def listed(self, name: str) -> Tool | None:
        """Return the tool of exactly this name, or None."""
        ...

    async def names(self) -> Sequence[str]:
        """Return all names, sorted."""
        ...
