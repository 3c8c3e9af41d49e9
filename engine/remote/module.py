"""`RemoteModule`: a remote provider of tools, over any protocol. `Modules` combines all of them into one source."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.contract.context import CallContext
from engine.contract.failure import refusal
from engine.contract.spec import ToolSpec
from engine.remote.states import Kind

log = logging.getLogger("knackbox.modules")

LONGEST_TOOL_NAME = 128


class ManifestError(Exception):
    """A module's manifest is invalid, and no part of it was used. The message is one line."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The content of a manifest.

    Attributes:
        dropped: The reasons why tools were skipped, by name.
    """

    description: str
    specs: tuple[ToolSpec, ...]
    dropped: Mapping[str, str]


class RemoteModule(Protocol):
    """A configured module. It is contacted, or its process is started, only when needed."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def where(self) -> str:
        """The module's URL without credentials, or its command, for display to people."""
        ...

    @property
    def identity(self) -> str:
        """A digest of the module's location. A manifest cached for another location is not used."""
        ...

    async def fetch(self) -> Any:
        """Fetch the module's manifest as JSON. Connection errors propagate.

        Raises:
            ManifestError: The answer is not a manifest.
        """
        ...

    def read(self, manifest: Any) -> Offer:
        """Read a fetched or cached manifest. This blocks for milliseconds.

        Raises:
            ManifestError: The manifest is invalid.
        """
        ...

    async def run(self, spec: ToolSpec, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Call one of the module's tools once. Raises exceptions that `engine.recovery` can classify."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Register a callback that runs when the module announces a change of its tools."""
        ...

    async def aclose(self) -> None: ...


def split_name(name: str) -> tuple[str, str]:
    """Split a full name at the first dot into module and tool.

    Raises:
        ToolFailure: The name is not a full name.
    """
    module, _, tool = name.partition(".")
    if not module or not tool:
        raise refusal(f"Invalid tool name format: {name}. Expected 'module.tool_name'.", "invalid_tool_name")
    return module, tool


def timed_out(seconds: float) -> str:
    return f"Tool execution timed out ({seconds:g}s)."
