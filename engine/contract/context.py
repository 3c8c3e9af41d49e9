"""`CallContext`: everything a tool can use during one call. Tools hold no state of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from typing_extensions import TypeVar as TypeVarWithDefault  # in the standard library from Python 3.13

from engine.contract.events import StreamName
from engine.contract.ports import LlmClient, MemorySystem
from engine.contract.result import ToolContext
from engine.contract.scheduler import Scheduler
from engine.contract.turn import Turn
from sandbox.contract import Sandbox

T = TypeVar("T")
Value_co = TypeVarWithDefault("Value_co", covariant=True, default=Any)


class Clock(Protocol):
    """A source of time. It is passed in wherever time matters, so that tests can control it."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic time in seconds."""
        ...


class Workspace(Protocol):
    """The folder that an agent may read and write. Paths are relative POSIX paths and cannot lead out of it."""

    @property
    def root(self) -> Path: ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None:
        """Replace the file atomically. Parent folders are created."""
        ...


class VisionClient(Protocol):
    """A model that can read images."""

    async def describe(self, prompt: str, images: list[tuple[bytes, str]]) -> str:
        """Answer the question `prompt` about the images. Each image is a pair of bytes and media type."""
        ...


class ImageClient(Protocol):
    """A model that generates images."""

    @property
    def sizes(self) -> tuple[str, ...]:
        """The supported sizes, such as ``"1024x768"`` (width x height in pixels). The default comes first."""
        ...

    async def generate(self, prompt: str, size: str) -> bytes:
        """Generate an image and return it as a PNG file.

        Args:
            size: One of `sizes`.

        Raises:
            ToolFailure: The image cannot be generated.
        """
        ...


class MissingService(LookupError):
    """A tool requested a service that the configuration does not provide."""


@dataclass(frozen=True)  # without slots, which break `Produced[int](1)` in Python 3.11
class Produced(Generic[Value_co]):
    """A tool's return value with a message and side effects.

    The type of the value, as in ``Produced[list[int]]``, becomes the tool's output schema.

    Attributes:
        message: Text for the model; None for no message. If a tool returns a plain value instead of a `Produced`, the
            message is the value as JSON.
    """

    value: Value_co = cast("Value_co", None)  # noqa: RUF009 -- the call of `cast` only affects the type
    message: str | None = None
    side_effects: tuple[str, ...] = ()


def no_progress(message: str, fraction: float | None = None) -> None:
    """Ignore progress. The default for calls without a progress listener."""


@runtime_checkable
class OutputListener(Protocol):
    """A progress listener that also receives what a tool's code prints, as it is printed."""

    def __call__(self, message: str, fraction: float | None = None) -> None: ...

    def output(self, stream: StreamName, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool can use during one call: the services and data that belong to this call.

    Attributes:
        sandbox: Runs code in boxes. Its jobs wait in the queue of the turn's agent.
        services: Objects by class, provided by packs (`ctx.need(SkillLibrary)`), so that the engine need not know these
            classes.
        progress: Reports progress to the caller: ``progress("downloading", 0.4)``. A listener that implements
            `OutputListener` also receives partial output.
        images: Image clients by name. The first is the default.
        tool_context: The message that led to the call, if the host provides it. `raw_arg`, `user_message`, `chat_id`,
            `kb_context` and `confidence` are read from it, and are empty without it.
        audit: What the tool puts here becomes the `data` of the call's audit, whether the call succeeds or fails. JSON
            values, a few kilobytes in total; excess is dropped.
        memory_system, llm_client, scheduler: The ports of `engine.contract.ports`, created for this call's turn. None
            if no pack implements them.
        on_undelivered: Callbacks that run if the result cannot be delivered, because the task that awaited the call was
            cancelled after the tool had returned or raised. The tool adds them to this list. They run in the event loop
            and must be fast.
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
    on_undelivered: list[Callable[[], None]] = field(default_factory=list)
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
        """The message that the model is answering. Defaults to the turn's query."""
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
        """The workspace folder, which is the working directory of code in a box."""
        return self.workspace.root

    def need(self, kind: type[T]) -> T:
        """Return the service of this class.

        Raises:
            MissingService: No pack provides it.
        """
        try:
            found: T = self.services[kind]
        except KeyError:
            raise MissingService(f"{kind.__name__} is not available in this configuration.") from None
        return found
