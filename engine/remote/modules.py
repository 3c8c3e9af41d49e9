"""`Modules`: tools that live elsewhere, as one source."""

from collections.abc import Iterable, Sequence

from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.remote.states import ModuleState


class Modules:
    """The configured modules. Their tools are called ``module.tool``."""

    @property
    def name(self) -> str:
        return "modules"

    def states(self) -> list[ModuleState]:
        """What is known of every configured module, by name. Asks nobody."""
        return []

    async def refresh(self, names: Iterable[str] | None = None) -> list[ModuleState]:  # noqa: ARG002 -- for now
        """Ask modules for their manifests, all at the same time; all of them when no names are given (MOD-2).

        Returns the states of those asked. One that fails keeps what is cached of it. Raises ToolFailure for a name that
        is not configured.
        """
        return []

    async def tools(self, turn: Turn) -> Sequence[Tool]:  # noqa: ARG002 -- for now
        """What the modules offer."""
        return ()

    async def find(self, name: str) -> Tool | None:  # noqa: ARG002 -- for now
        """The tool of this full name."""
        return None

    async def aclose(self) -> None:
        """End connections and processes."""
