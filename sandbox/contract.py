"""What every sandbox backend promises: one job in, one outcome out.

The nouns of the ground floor. Nothing here knows of tools, agents or skills, and nothing here runs code.
Backends live beside this file (``sandbox.namespace`` is the default on Linux) and are found through the entry-point
group ``knackbox.sandboxes``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from sandbox.changes import Change

_LAST_PORT = 65_535
Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]


class Language(StrEnum):
    """Languages a box can run."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


class End(StrEnum):
    """Why a job ended. One enum everywhere, from the box to the audit row."""

    OK = "ok"
    ERROR = "error"  # the code raised, or exited with something other than 0
    TIMEOUT = "timeout"  # wall clock
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    DISK = "disk"
    PROCESSES = "processes"
    FILES = "files"  # too many open files
    FILE_SIZE = "file_size"
    KILLED = "killed"  # cancelled by the caller, or killed from outside
    POLICY = "policy"  # the code tried what the box forbids and died of it


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may use. Bytes, seconds and counts; every limit ends the job with its own `End`."""

    wall_s: float = 30.0
    cpu_s: float = 30.0
    memory_bytes: int = 512 << 20
    processes: int = 64
    threads: int = 128  # of all processes together; each process has at least one
    open_files: int = 256
    file_size_bytes: int = 64 << 20
    disk_bytes: int = 128 << 20
    output_bytes: int = 16 << 20  # stdout and stderr together; past it the job ends with `End.OUTPUT`
    capture_bytes: int = 1 << 20  # kept of each stream, half from its head and half from its tail


class Writes(StrEnum):
    """What becomes of what a job writes into its workspace."""

    NO = "no"  # mounted read-only
    THROUGH = "through"  # straight into the folder
    COPY = "copy"  # into a layer above it, which is listed in the outcome and kept or thrown away afterwards


@dataclass(frozen=True, slots=True)
class Mount:
    """A host directory shown in the box at `/work`, the job's working directory."""

    source: Path
    writes: Writes = Writes.THROUGH


@dataclass(frozen=True, slots=True)
class Destination:
    """One host and port a job may connect to. host: a DNS name or an IP address, as the code will write it."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Destination":
        """From ``host:port`` (``[v6]:port``). Raises ValueError."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.removeprefix("[").removesuffix("]").lower().rstrip("."), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Connection:
    """One attempt to get out of a box, as the egress proxy saw it. address: the one that was pinned, "" if none was."""

    destination: str
    allowed: bool
    reason: str
    address: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Call one function of a Python file with keyword arguments; its JSON value is the outcome's `value`."""

    path: str  # of the file in the job's `files`, such as "roman_numeral.py"
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to run in one fresh box: either `code` in a language, or a `call` into one of `files`.

    files: placed below the box's private working directory before the start; keys are relative POSIX paths.
        With a workspace mounted at `/work` they go to the box's `/tmp/job` instead, so nothing of a job
        is written to the user's folder by us.
    preload: modules the box's template has imported already (`("pandas",)`). Importing the same in a box
        without a preload works too, only slower. Without effect beside `requirements`: a template imports outside
        of every box, so never what the code's author picked.
    collect: relative paths (files) below the working directory to bring back in `Outcome.files`.
    egress: where the job may connect to. Empty: nowhere.
    requirements: PEP 508 requirements of the environment the job runs in; the backend resolves and keeps it.
    agent: whom the job is for; the queue for boxes is fair between agents.
    """

    language: Language = Language.PYTHON
    code: str = ""
    call: Call | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    workspace: Mount | None = None
    collect: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    egress: tuple[Destination, ...] = ()
    requirements: tuple[str, ...] = ()
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the job used, all of its processes together."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    output_bytes: int = 0
    limits_hit: tuple[str, ...] = ()  # also those whose error the code caught and survived; names of `End`


@dataclass(frozen=True, slots=True)
class CodeError:
    """An exception of the job's own code: type, message, and the traceback of its own frames."""

    type: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job. Never an exception for anything the *code* did.

    value: JSON value of the called function, or of a Python script's last expression; None without one.
    dropped_*: bytes of the stream that were seen but not kept.
    connections: every attempt to get out of the box. changes: what was written to a copied workspace.
    """

    end: End
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    value: Any = None
    error: CodeError | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    connections: tuple[Connection, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def ok(self) -> bool:
        return self.end is End.OK


class State(StrEnum):
    """How a protection stands on this machine."""

    ENFORCED = "enforced"
    ABSENT = "absent"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Protection:
    """One layer of the box: whether it holds here, why not, and what would enable it."""

    name: str
    state: State
    required: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Protections:
    """What a backend really enforces on this machine."""

    backend: str
    items: tuple[Protection, ...]

    @property
    def missing(self) -> tuple[Protection, ...]:
        """Required layers that do not hold: with any of these, nothing runs."""
        return tuple(p for p in self.items if p.required and p.state is State.ABSENT)


class SandboxError(Exception):
    """What *we* could not do. The code under test is never the cause.

    may_have_started: whether the job may have begun to run, so that the caller knows if a repeat is safe.
    remedy: what a person can do about it, in one line.
    """

    def __init__(self, message: str, *, may_have_started: bool = False, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.may_have_started = may_have_started
        self.remedy = remedy


class Busy(SandboxError):
    """Every box is in use and the queue is full. retry_after: seconds after which it is worth asking again."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unsupported(SandboxError):
    """The backend has no such thing, whatever the machine; nothing was run."""


class UnresolvedRequirements(SandboxError):
    """The requirements of a job have no solution, or could not be fetched. The message is the resolver's own."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the house tells a backend when it opens one. A backend that has no use for a part leaves it alone.

    cache: a folder for what can be made again, such as environments of packages; nothing is kept elsewhere.
    environments_bytes: the most that environments nobody uses may take there. build_s: seconds to make one.
    allow_private: hosts and addresses that jobs with egress may reach although they are not public.
    image, runtime, engine_url: of containers: what they are made of, the OCI runtime that runs them, where the engine
        that makes them answers; "" is what the backend takes by itself.
    """

    cache: Path
    environments_bytes: int = 8 << 30
    build_s: float = 300.0
    allow_private: frozenset[str] = frozenset()
    image: str = ""
    runtime: str = ""
    engine_url: str = ""


class Sandbox(Protocol):
    """One way of running untrusted code. The entry point of a backend makes one from `SandboxSettings`."""

    name: str

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in one fresh box. Cancelling this kills the whole tree before it returns."""
        ...

    async def report(self) -> Protections: ...

    async def aclose(self) -> None: ...
