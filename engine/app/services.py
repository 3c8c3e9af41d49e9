"""`Services`: what a pack receives from the engine when it opens (`engine.contract.pack`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.child_runs import ChildLoop
from engine.contract.context import Clock
from engine.contract.ports import LlmClient
from engine.registry.updates import RegistryUpdates
from engine.stores.child_runs import ChildRunStore
from engine.stores.program_store import ProgramStore
from engine.stores.records import Records
from sandbox.contract import Sandbox
from sandbox.secrets.redactor import Redactor

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.stores.vectors import VectorStore


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the engine that packs share. A pack must not close them.

    Attributes:
        vectors: Returns the vector store, which takes a second to load.
        embedder: Returns the embedder, which takes a second to load.
        static_names: Returns the names and aliases of all tools except skills. No skill may take one of them.
        updates: Publishes changes of registered tools, prompts and agents.
        child_runs: The runs that other runs have started.
        child_loop: Works on child runs.
        programs: The programs of runs, with their calls.
        redactor: Replaces the values of secrets in what packs store; None if there are no secrets.
        llm_client: The configured chat model, for single prompts; None if there is none.
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
    child_runs: ChildRunStore
    child_loop: ChildLoop
    programs: ProgramStore
    llm_client: LlmClient | None = None
    redactor: Redactor | None = None
