"""The contract of sandbox backends: a backend runs a `Job` and returns an `Outcome`.

These are the data types of the lowest layer. Nothing here knows of tools, agents or skills, and nothing here runs code.
Backends (``sandbox.namespace`` is the default on Linux) are found through the entry-point group ``knackbox.sandboxes``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from sandbox.changes import Change
from sandbox.secrets.secret import Secret

_LAST_PORT = 65_535
Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]


class Language(StrEnum):
    """The languages a box can run."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


class End(StrEnum):
    """Why a job ended. The same enum is used everywhere, from the box to the audit."""

    OK = "ok"
    ERROR = "error"  # the code raised an exception, or exited with a status other than 0
    TIMEOUT = "timeout"  # wall clock
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    DISK = "disk"
    PROCESSES = "processes"
    FILES = "files"  # too many open files
    FILE_SIZE = "file_size"
    KILLED = "killed"  # cancelled by the caller, or killed from outside
    POLICY = "policy"  # the code was killed for trying something the box forbids


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job, in bytes, seconds and counts. A job that exceeds a limit ends with the matching `End`."""

    wall_s: float = 30.0
    cpu_s: float = 30.0
    memory_bytes: int = 512 << 20
    processes: int = 64
    threads: int = 128  # total for all processes; each process has at least one thread
    open_files: int = 256
    file_size_bytes: int = 64 << 20
    disk_bytes: int = 128 << 20
    output_bytes: int = 16 << 20  # stdout and stderr together; a job that prints more ends with `End.OUTPUT`
    capture_bytes: int = 1 << 20  # how much of each stream is kept, half from its head and half from its tail


class Writes(StrEnum):
    """What happens to a job's writes to its workspace."""

    NO = "no"  # mounted read-only
    THROUGH = "through"  # written directly to the folder
    COPY = "copy"  # written to a layer above the folder; the outcome lists the changes, which the caller may apply


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host that is mounted in the box at `/work`, the job's working directory."""

    source: Path
    writes: Writes = Writes.THROUGH


@dataclass(frozen=True, slots=True)
class Destination:
    """A host and port a job may connect to. `host` is a DNS name or an IP address, as the code writes it."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Destination":
        """Parse ``host:port`` or ``[v6]:port``.

        Raises:
            ValueError: The text has another form.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.removeprefix("[").removesuffix("]").lower().rstrip("."), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Connection:
    """An attempt to connect out of a box, as seen by the egress proxy.

    `address` is the IP address that the proxy chose for the destination; "" if it did not choose one.
    """

    destination: str
    allowed: bool
    reason: str
    address: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call to a function in a Python file, with keyword arguments. Its JSON result is the outcome's `value`."""

    path: str  # path of the Python file in the job's `files`, such as "roman_numeral.py"
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InBoxModules:
    """Modules of Knackbox itself that a job imports in its box, such as those that convert the arguments of a skill.

    A template loads them once, outside of any box. Boxes that are not forked from such a template get them as files.

    Attributes:
        names: The dotted names of these modules and of the modules of Knackbox that they import, but not of packages.
            They are read below the folder that contains the package `sandbox`. The job itself must not import modules
            of `sandbox`: with a template, it does not find them.
        files: The same modules, with their packages, as files of a job.
    """

    names: tuple[str, ...]
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Job:
    """A job for a fresh box: either `code` in a language, or a `call` of a function in one of `files`.

    Attributes:
        files: Placed below the box's private working directory before the start; keys are relative POSIX paths. With a
            workspace mounted at `/work` they go to the box's `/tmp/job` instead, so that none of them is written to the
            user's folder.
        preload: Modules the box's template has already imported (`("pandas",)`). Modules that are not preloaded can be
            imported too, but this takes longer. Has no effect with `requirements`: a template runs its imports outside
            of any box, so it must not import packages chosen by the code's author.
        in_box: Modules of Knackbox itself that the job imports. With `requirements`, no template loads them.
        collect: Relative paths of files below the working directory to bring back in `Outcome.files`.
        egress: The destinations to which the job may connect; none if empty.
        requirements: PEP 508 requirements of the job's environment, which the backend resolves and keeps.
        agent: The agent the job is for; the queue for boxes is fair between agents.
        prelude: Python code that runs before a Python script, in a namespace of its own. It is not the job's own code:
            tracebacks do not show it.
    """

    language: Language = Language.PYTHON
    code: str = ""
    call: Call | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    in_box: InBoxModules | None = None
    workspace: Mount | None = None
    collect: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    egress: tuple[Destination, ...] = ()
    requirements: tuple[str, ...] = ()
    agent: str = ""
    prelude: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that all processes of the job have used in total."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    output_bytes: int = 0
    limits_hit: tuple[str, ...] = ()  # names of `End` members, including limits whose error the code caught


@dataclass(frozen=True, slots=True)
class CodeError:
    """An exception raised by the job's code: its type, its message, and the traceback of the job's own frames."""

    type: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job. Failures of the *code* are never raised as exceptions.

    Attributes:
        value: The JSON value of the called function, or of the last expression of a Python script; otherwise None.
        stdout_dropped, stderr_dropped: Bytes of the stream that were read but not kept.
        connections: Every attempt to connect out of the box.
        changes: The changes in a copied workspace.
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
    """The state of a protection on this machine."""

    ENFORCED = "enforced"
    ABSENT = "absent"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Protection:
    """One layer of a box's isolation: whether this machine enforces it, why not, and what would enable it."""

    name: str
    state: State
    required: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Protections:
    """The protections of a backend on this machine."""

    backend: str
    items: tuple[Protection, ...]

    @property
    def missing(self) -> tuple[Protection, ...]:
        """The required layers that are not enforced. If there are any, no job runs."""
        return tuple(p for p in self.items if p.required and p.state is State.ABSENT)


class SandboxError(Exception):
    """A failure of the sandbox itself, never of the code that it runs.

    Attributes:
        may_have_started: Whether the job may have begun to run. If not, the job can safely be run again.
        remedy: What a person can do about the failure, in one line.
    """

    def __init__(self, message: str, *, may_have_started: bool = False, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.may_have_started = may_have_started
        self.remedy = remedy


class Busy(SandboxError):
    """Every box is in use and the queue is full. `retry_after` is the number of seconds to wait before trying again."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unsupported(SandboxError):
    """The job needs a feature that the backend lacks on every machine. Nothing was run."""


class UnresolvedRequirements(SandboxError):
    """The requirements of a job have no solution, or could not be fetched. The message comes from the resolver."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The application's settings for a backend. A backend ignores settings that do not apply to it.

    Attributes:
        cache: A folder for data that can be rebuilt, such as package environments. A backend keeps no other data.
        environments_bytes: Bytes that unused environments may take in the cache.
        build_s: The time limit for building one environment, in seconds.
        allow_private: Hosts and addresses that jobs with egress may reach although they are not public.
        secrets: Values that the egress proxy substitutes for their placeholders. A backend without egress ignores them.
        image: The image of containers; "" for the backend's default.
        runtime: The OCI runtime of containers; "" for the backend's default.
        engine_url: The address of the container engine, such as Docker's; "" for the backend's default.
    """

    cache: Path
    environments_bytes: int = 8 << 30
    build_s: float = 300.0
    allow_private: frozenset[str] = frozenset()
    secrets: tuple[Secret, ...] = ()
    image: str = ""
    runtime: str = ""
    engine_url: str = ""


class Sandbox(Protocol):
    """Runs untrusted code. The entry point of a backend creates a sandbox from `SandboxSettings`."""

    @property
    def name(self) -> str: ...

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in a fresh box. Cancelling the call kills all processes of the job before it returns."""
        ...

    async def report(self) -> Protections: ...

    async def aclose(self) -> None: ...
