"""`RemoteModule`: one place elsewhere that has tools, whatever it speaks. `Modules` makes one source of them all."""

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
    """What a module says of itself cannot be used; one line why. Nothing of it was taken."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a manifest comes to. dropped: names of tools left out, with the reason."""

    description: str
    specs: tuple[ToolSpec, ...]
    dropped: Mapping[str, str]


class RemoteModule(Protocol):
    """A module as it is configured. Nothing is asked and nothing is started before it is needed."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def where(self) -> str:
        """Its URL without credentials, or its command: for people."""
        ...

    @property
    def identity(self) -> str:
        """A digest of where it is: a cached manifest of another place is not its own."""
        ...

    async def fetch(self) -> Any:
        """Its manifest as JSON, as it was sent. Raises ManifestError for what is none, else why there was no answer."""
        ...

    def read(self, manifest: Any) -> Offer:
        """What a manifest, just fetched or from a cache, offers. Blocks for milliseconds. Raises ManifestError."""
        ...

    async def run(self, spec: ToolSpec, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Call one of its tools, once. Raises what `engine.recovery` can classify."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever the module says by itself that its tools changed."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool of a module."""

    spec: ToolSpec
    module: RemoteModule

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return await self.module.run(self.spec, ctx, arguments)


def split_name(name: str) -> tuple[str, str]:
    """Module and tool of a full name, split at the first dot only. Raises ToolFailure for what is no such name."""
    module, _, tool = name.partition(".")
    if not module or not tool:
        raise refusal(f"Invalid tool name format: {name}. Expected 'module.tool_name'.", "invalid_tool_name")
    return module, tool


def timed_out(seconds: float) -> str:
    return f"Tool execution timed out ({seconds:g}s)."
