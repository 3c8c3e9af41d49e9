"""`StubBlock`: shows the signatures of the tools that fit a message, for programs that call them (CODE-5)."""

from collections.abc import Sequence

from builtin_tools.bridge.signatures import stub
from builtin_tools.bridge.tool_names import NOT_WITHIN
from engine.contract.pack import Need
from engine.contract.prompt_block import Placement
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.turn.discovery import Discovery
from sandbox.agent_sandbox import has_bridges
from sandbox.contract import Sandbox

MOST = 10  # stubs in a block; each takes 40 to 80 tokens
_MOST_CHARACTERS = 6_000
_LONGEST = 1_500  # the characters of a stub; a tool with a longer one is found by searching
_MESSAGE = 2_000  # the characters of a message that are searched for
_HEADING = "Tools that may fit, for programs of `execute` (from knackbox import tools; tools.NAME(…)):"


class StubBlock:
    """A prompt block with one line for each tool that fits the message.

    It is placed beside the message, so that the instructions stay byte-identical. Only turns with the tool search flow
    whose agent may call `execute` have it.
    """

    name = "stubs"
    placement: Placement = "message"
    most_characters = _MOST_CHARACTERS

    def __init__(self, sandbox: Sandbox, tool: ToolSpec) -> None:
        """Create the block.

        Args:
            sandbox: Runs the programs.
            tool: The specification of `execute`.
        """
        self._bridged = has_bridges(sandbox)
        self._tool = tool
        self._discovery: Discovery | None = None

    async def start(self, need: Need) -> None:
        """Take the service that finds tools. Until then the block is empty."""
        self._discovery = need(Discovery)

    async def text(self, turn: Turn, message: str) -> str:
        """Return the stubs, best first; "" if the turn has none."""
        if self._discovery is None or not self._bridged or not turn.use_tool_search_flow or not message.strip():
            return ""
        if not await self._discovery.look_up([self._tool.name], turn):
            return ""
        found = await self._discovery.search(message[:_MESSAGE], turn, MOST + len(NOT_WITHIN))
        stubs = [stub(spec) for spec in found.specs if spec.name not in NOT_WITHIN][:MOST]
        return _bounded([_HEADING, *stubs]) if stubs else ""


def _bounded(lines: Sequence[str]) -> str:
    """Join the lines that fit into the block. A tool with a very long stub must not displace the others."""
    kept: list[str] = []
    left = _MOST_CHARACTERS
    for line in lines:
        if len(line) <= _LONGEST and len(line) < left:
            kept.append(line)
            left -= len(line) + 1
    return "\n".join(kept)
