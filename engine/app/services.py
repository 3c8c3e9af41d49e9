"""`Services`: what the engine lends to a pack when it opens (`engine.contract.pack`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.context import Clock
from engine.registry.updates import RegistryUpdates
from engine.stores.records import Records
from sandbox.contract import Sandbox

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.stores.vectors import VectorStore


@dataclass(frozen=True, slots=True)
class Services:
    """Shared, long-lived parts. A pack keeps what it needs; it closes none of them.

    vectors, embedder: called for lazily, since loading them takes a second.
    static_names: every name and alias of a static tool, so that nothing acquired shadows one.
    updates: where news of registered tools, prompts and agents are told.
    """

    home: Home
    settings: Settings
    sandbox: Sandbox
    records: Records
    clock: Clock
    vectors: "Callable[[], VectorStore]"
    embedder: "Callable[[], Embedder]"
    static_names: Callable[[], frozenset[str]]
    updates: RegistryUpdates
