"""The central abstraction: a `ToolSource` offers tools. Built-ins, skills, modules and packs are all just sources.

Cross-cutting behaviour (filter, prefix, approve, observe) is a small wrapper around a source, never a branch in one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from engine.contract.context import CallContext
from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


@runtime_checkable
class Tool(Protocol):
    """A frozen spec and one way to run it.

    `run` may return any JSON-like value, a `Produced` (value with message and side effects), or raise; the
    pipeline makes exactly one `ToolResult` of it.
    """

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any: ...


@runtime_checkable
class RedirectingTool(Tool, Protocol):
    """A static tool whose calls are calls of another tool, which then gets the deadline, the policy and the audit."""

    def redirect(self, call: ToolCall) -> ToolCall | None:
        """The call it stands for; None to be called itself."""
        ...


class NoTools(tuple[Tool, ...]):  # noqa: SLOT001 -- a tuple can have no slots that hold anything
    """What a source may give in place of an answer that is empty, or lacks something, so that the list can say why.

    what: it would have offered.
    """

    what: str
    why: str

    @classmethod
    def because(cls, what: str, why: str, tools: Iterable[Tool] = ()) -> "NoTools":
        """tools: what there is all the same."""
        none = cls(tools)
        none.what, none.why = what, why
        return none


@runtime_checkable
class ToolSource(Protocol):
    """Something that has tools."""

    @property
    def name(self) -> str: ...

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        """What it offers for this turn, in a stable order.

        The very tuple it gave before says that nothing changed, and saves looking at it again; a list is always read.
        """
        ...

    async def find(self, name: str) -> Tool | None:
        """The tool of exactly this name or alias, whether or not it is on this turn's list."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """A tool found for a query. fit: how likely it is that it is of use, from 0 to 1; comparable between sources."""

    tool: Tool
    fit: float


@dataclass(frozen=True, slots=True)
class Matches:
    """What a source found for a query, best first. gap: what could not be searched, and why; "" for nothing."""

    found: tuple[Match, ...] = ()
    gap: str = ""


@runtime_checkable
class PagedSource(ToolSource, Protocol):
    """A source with so many tools that a caller reads them a page at a time, or only those it asks for.

    The methods below cover the tools that `tools` gives without a query. None of these tools has an alias.
    """

    async def page(self, after: str, limit: int) -> Sequence[Tool]:
        """The next tools by name, `limit` at most; fewer only at the end. after: the last name of the page before."""
        ...

    async def search(self, query: str, limit: int) -> Matches:
        """The tools nearest to a query."""
        ...

    async def listed(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        ...

    async def names(self) -> Sequence[str]:
        """The names of all of them, sorted."""
        ...
