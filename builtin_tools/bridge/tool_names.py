"""`ToolNames`: the tools that a program may name, and what is known about each."""

from dataclasses import dataclass

from builtin_tools.bridge.signatures import identifier
from engine.contract.spec import DECLARED_READ_ONLY
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.turn.discovery import Discovery

# A program inside a program would have a budget of calls and time of its own. `execute_tool` calls any tool by name.
NOT_WITHIN = frozenset({"execute", "execute_tool"})
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool by the name that a program uses.

    Attributes:
        name: Its name in the engine; the name that the program uses if there is no such tool.
        reads: Whether its calls change nothing.
        repeatable: Whether a call may be made again although it may have taken effect.
    """

    name: str
    reads: bool = False
    repeatable: bool = False


class ToolNames:
    """The tools of one turn."""

    def __init__(self, turn: Turn, inner: InnerCalls, discovery: Discovery) -> None:
        self._turn = turn
        self._inner = inner
        self._discovery = discovery
        self._known: dict[str, KnownTool] = {}

    async def find(self, asked: str) -> KnownTool:
        """Return the tool of this name, which may be the form of its name as an identifier."""
        return self._known.get(asked) or await self._find(asked)

    async def all(self) -> list[str]:
        """Return the names of the tools that a program of the turn may call, at most 1,000."""
        names: list[str] = []
        after = ""
        while len(names) < _MOST:
            page = await self._discovery.page(self._turn, after)
            names += [spec.name for spec in page.specs if spec.name not in NOT_WITHIN]
            after = page.next
            if not after:
                break
        return names[:_MOST]

    async def _find(self, asked: str) -> KnownTool:
        tool = await self._inner.find(asked, self._turn)
        if tool is None:
            fitting = [each for each in await self.all() if identifier(each) == asked]
            tool = await self._inner.find(fitting[0], self._turn) if len(fitting) == 1 else None
        known = KnownTool(asked)
        if tool is not None:
            spec = tool.spec
            reads = spec.annotations.read_only or spec.meta.get(DECLARED_READ_ONLY) is True
            known = KnownTool(spec.name, reads, spec.replay_safe)
        if len(self._known) < _MOST:
            self._known[asked] = known
        return known
