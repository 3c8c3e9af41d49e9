"""What one attempt to get out of a box, or to spoil it for others, is made of. Data only.

An attempt says itself when it worked, by `worked()` in its code, or is seen to have worked: the host's secret comes
back, or something on the host is no longer as it was. See `sandbox.self_check.attempts.trial` for how it is judged.
"""

from dataclasses import dataclass
from enum import StrEnum

from sandbox.contract import End, Language, Limits, Writes

NAMESPACE = frozenset({"namespace"})
# Those that put our filter on the job, have a process 1 of ours between it and the host, and a root and /proc of the
# box's own.
FILTERED = frozenset({"namespace", "docker"})
MB = 1 << 20
# Small, so that an attempt to use everything up is over soon; Node alone needs a dozen threads.
LIMITS = Limits(
    wall_s=10,
    cpu_s=5,
    memory_bytes=256 * MB,
    processes=32,
    threads=64,
    open_files=64,
    disk_bytes=32 * MB,
    output_bytes=4 * MB,
)

# Said by code that got what it wanted. Never in a job's text as a whole, so that echoing the code does not say it.
WORKED = "escape-worked"
# The same, for what a job writes where it may write anything: it counts in the outcome's fields, not in its streams.
FORGED = "answer-forged"
# Said by code that holds what it has and waits, so that the host can be looked at meanwhile.
HOLDING = "holding-it-now"

# Said last by an attempt in Bash or Node, which has no exception that would tell a refusal from a slip in its own text.
TRIED = "tried-to-its-end"

# Stands before the code of an attempt in Python. `reach` is for calls that fail in any case: an answer that is neither
# a refusal nor "no such call" shows that the kernel looked at the arguments.
_PYTHON = """
import ctypes, errno, fcntl, glob, mmap, os, resource, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def worked(what=""):
    print("escape" + "-worked", what, flush=True)

def hold(seconds=8):
    print("holding-" + "it-now", flush=True)
    time.sleep(seconds)

def call(number, *arguments):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def reach(number, *arguments):
    try:
        call(number, *arguments)
    except OSError as problem:
        if problem.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            raise
        worked(f"the kernel took it up: {problem}")
    else:
        worked()

def refused(attempt):
    try:
        attempt()
    except OSError as problem:
        return problem
    worked()
"""

_NODE = """
const fs = require('fs'), net = require('net'), child = require('child_process');
const worked = (what = '') => console.log('escape' + '-worked', what);
const refused = attempt => { try { attempt() } catch (problem) { return problem } worked() };
"""
_BASH = """
worked() { echo escape"-"worked "$@"; }
"""
PRELUDES = {Language.PYTHON: _PYTHON, Language.NODE: _NODE, Language.BASH: _BASH}
POSTLUDES = {
    Language.PYTHON: "",
    Language.NODE: "\nprocess.on('exit', () => console.log('tried-' + 'to-its-end'));",
    Language.BASH: '\necho tried-"to-its-end"\n',
}


class Family(StrEnum):
    """What an attempt goes for."""

    KERNEL = "kernel surface"
    IDENTITY = "identity and privileges"
    DEVICES = "devices"
    PROC = "proc and sys"
    SIGNALS = "signals and other processes"
    SOCKETS = "sockets"
    FILES = "file tricks"
    WORKSPACE = "workspace"
    ENVIRONMENT = "environment"
    DESCRIPTORS = "inherited descriptors"
    FORGING = "forged results"
    EXHAUSTION = "exhaustion"
    PERSISTENCE = "persistence"
    NEIGHBOURS = "neighbours"
    SHELLS = "host as seen from bash and node"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing tried from inside a box.

    code: of the job; ``@NAME@`` stands for something on the host, see `sandbox.self_check.attempts.stage.Stage.names`.
    why: why it fails, in a line.
    ends: how the job may end when it failed. raises: exceptions beside OSError that mean
        "refused"; "*" for whatever the code says of its own end.
    only: names of the backends this holds for; empty: for all.
    machine: the architecture whose system call numbers or instructions the code has; "" for any.
    workspace: how the box may write the stage's workspace; None: it sees none.
    beside: another box, with a secret of its own, runs meanwhile; it must not be disturbed.
    then: Python for a second, fresh box after the first; what it says is judged.
    harmless: does no damage even where it works.
    wall: harmless, and where it works nothing else should be tried: the box hides nothing of the host.
    """

    family: Family
    attempt: str
    language: Language
    code: str
    why: str
    ends: tuple[End, ...] = (End.OK, End.ERROR)
    limits: Limits = LIMITS
    raises: tuple[str, ...] = ()
    only: frozenset[str] = frozenset()
    machine: str = ""
    workspace: Writes | None = None
    beside: bool = False
    then: str = ""
    harmless: bool = False
    wall: bool = False

    @property
    def name(self) -> str:
        return f"{self.family}: {self.attempt}"

    def applies(self, backend: str, machine: str) -> bool:
        """Whether it can be tried on this backend and architecture."""
        return (not self.only or backend in self.only) and self.machine in ("", machine)
