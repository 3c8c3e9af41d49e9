"""`CallContext`: what one call is bound to. Tools hold no state; whatever they need arrives here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from typing_extensions import TypeVar as TypeVarWithDefault  # of the standard library from Python 3.13 on

from engine.contract.events import StreamName
from engine.contract.ports import LlmClient, MemorySystem, Scheduler
from engine.contract.result import ToolContext
from engine.contract.turn import Turn
from sandbox.contract import Sandbox

T = TypeVar("T")
Value_co = TypeVarWithDefault("Value_co", covariant=True, default=Any)


class Clock(Protocol):
    """Time, injected so that tests own it."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        ...


class Workspace(Protocol):
    """The one folder an agent may touch. Paths are relative POSIX paths and never leave it."""

    @property
    def root(self) -> Path: ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None:
        """Replace the file atomically; parents are made."""
        ...


class VisionClient(Protocol):
    """A model that sees."""

    async def describe(self, prompt: str, images: list[tuple[bytes, str]]) -> str:
        """Answer `prompt` about the images, given as (bytes, media type)."""
        ...


class ImageClient(Protocol):
    """Something that draws."""

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes it takes, such as ``"1024x768"`` (width x height in pixels), the usual one first. Never empty."""
        ...

    async def generate(self, prompt: str, size: str) -> bytes:
        """One PNG. size: one of `sizes`. Raises ToolFailure."""
        ...


class MissingService(LookupError):
    """A tool asked its context for something the configuration does not provide."""


@dataclass(frozen=True)  # without slots: Python 3.11 cannot make a `Produced[int](1)` with them
class Produced(Generic[Value_co]):
    """What a tool returns when it has more to say than a value.

    The type of the value, as in ``Produced[list[int]]``, becomes the tool's output schema.

    message: text for the model; None is silent. With no `Produced`, the message is the value as JSON.
    """

    value: Value_co = cast("Value_co", None)  # noqa: RUF009 -- a cast only
    message: str | None = None
    side_effects: tuple[str, ...] = ()


def no_progress(message: str, fraction: float | None = None) -> None:
    """Where progress goes when nobody listens."""


@runtime_checkable
class HearsOutput(Protocol):
    """A listener for progress that wants what a tool's code prints as well, as it is printed."""

    def __call__(self, message: str, fraction: float | None = None) -> None: ...

    def output(self, stream: StreamName, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """Everything one call is bound to.

    sandbox: its jobs are queued as those of the turn's agent.
    services: objects by their class, put there by the packs that own them (`ctx.need(SkillLibrary)`), so that
        the engine does not have to know them.
    progress: tell whoever waits how far it is: ``progress("downloading", 0.4)``. Who is a `HearsOutput` is told
        partial output apart from that.
    images: what draws, by name; the first is used where none is asked for.
    tool_context: of the message behind the call, where the host gave one; `raw_arg`, `user`, `user_message`, `chat_id`,
        `kb_context` and `confidence` read it, and are empty without it.
    audit: what the tool puts here is the `data` of the call's audit, whether the call succeeds or fails. Any JSON
        values, a few kilobytes in all; what is more is cut.
    memory_system, llm_client, scheduler: the ports of `engine.contract.ports`, made for this call's turn; None where no
        pack implements them.
    if_unheard: what is to be done when the tool's result reaches nobody, because its waiter was cancelled after the
        tool had returned or raised. The tool appends to it; each is called in the event loop, and must be quick.
    """

    turn: Turn
    call_id: str
    sandbox: Sandbox
    workspace: Workspace
    clock: Clock
    vision: VisionClient | None = None
    images: Mapping[str, ImageClient] = field(default_factory=dict)
    services: Mapping[type, Any] = field(default_factory=dict)
    progress: Callable[..., None] = no_progress
    tool_context: ToolContext | None = None
    if_unheard: list[Callable[[], None]] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    memory_system: MemorySystem | None = None
    llm_client: LlmClient | None = None
    scheduler: Scheduler | None = None

    @property
    def user(self) -> str:
        return self.turn.user

    @property
    def raw_arg(self) -> str:
        return self.tool_context.raw_arg if self.tool_context is not None else ""

    @property
    def user_message(self) -> str:
        """What the model answers with this call; the turn's query where the host gave nothing else."""
        given = self.tool_context.user_message if self.tool_context is not None else ""
        return given or self.turn.query or ""

    @property
    def chat_id(self) -> str:
        return self.tool_context.chat_id if self.tool_context is not None else ""

    @property
    def kb_context(self) -> str:
        return self.tool_context.kb_context if self.tool_context is not None else ""

    @property
    def confidence(self) -> float:
        return self.tool_context.confidence if self.tool_context is not None else 0.0

    @property
    def sandbox_dir(self) -> Path:
        """The folder of the workspace, which is the working directory of code that runs in a box."""
        return self.workspace.root

    def need(self, kind: type[T]) -> T:
        """The service of this class. Raises MissingService, naming it, when no pack provides one."""
        try:
            found: T = self.services[kind]
        except KeyError:
            raise MissingService(f"{kind.__name__} is not available in this configuration.") from None
        return found
