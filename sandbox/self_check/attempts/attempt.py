"""Describes an attempt to escape from a box, or to harm other boxes. Data only.

An attempt has succeeded if its code calls `worked()`, if the host's secret is in its output, or if something on the
host has changed. `sandbox.self_check.attempts.trial` makes and judges attempts.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from sandbox.contract import End, Language, Limits, Writes
from sandbox.linux import system_calls

NAMESPACE = frozenset({"namespace"})
# Backends that apply our seccomp filter to the job, have our process 1 between the job and the host, and give the box a
# root folder and a /proc of its own.
FILTERED = frozenset({"namespace", "docker"})
MB = 1 << 20
# Small limits, so that an attempt to exhaust them ends soon. Node alone needs a dozen threads.
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

# Printed by code whose attempt succeeded. No job's source contains the whole string, so that printing the source does
# not print it.
WORKED = "escape-worked"
# Part of a forged answer. The attempt has succeeded if this text is in the outcome, but not in a stream, because a job
# may write anything to the streams.
FORGED = "answer-forged"
# Printed by code that holds a resource and waits, so that the host can be checked at the same time.
HOLDING = "holding-it-now"

# Printed last by an attempt in Bash or Node, where no exception distinguishes a refusal from a bug in the attempt.
TRIED = "tried-to-its-end"

# Prepended to the code of a Python attempt. Attempts name system calls by their numbers on x86_64, which `native` maps
# to those of this machine. `reach` is for calls that fail in any case: an error that is neither a
# refusal nor "no such call" shows that the kernel has checked the arguments.
_PYTHON = (
    f"native = {system_calls.from_x86_64()}"
    """
import ctypes, errno, fcntl, glob, mmap, os, resource, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def worked(what=""):
    print("escape" + "-worked", what, flush=True)

def hold(seconds=8):
    print("holding-" + "it-now", flush=True)
    time.sleep(seconds)

def call(number, *arguments):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(native.get(number, number)), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def reach(number, *arguments):
    try:
        call(number, *arguments)
    except OSError as problem:
        if problem.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            raise
        worked(f"the kernel processed the call: {problem}")
    else:
        worked()

def refused(attempt):
    try:
        attempt()
    except OSError as problem:
        return problem
    worked()
"""
)

_NODE = """
const fs = require('fs'), net = require('net'), child = require('child_process');
const worked = (what = '') => console.log('escape' + '-worked', what);
const refused = attempt => { try { attempt() } catch (problem) { return problem } worked() };
"""
_BASH = """
worked() { echo escape"-"worked "$@"; }
"""
_CALLS = re.compile(r"\b(?:call|reach)\((\d+)")
PRELUDES = {Language.PYTHON: _PYTHON, Language.NODE: _NODE, Language.BASH: _BASH}
POSTLUDES = {
    Language.PYTHON: "",
    Language.NODE: "\nprocess.on('exit', () => console.log('tried-' + 'to-its-end'));",
    Language.BASH: '\necho tried-"to-its-end"\n',
}


class AttemptFamily(StrEnum):
    """What an attempt targets."""

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
    """One thing to try from inside a box.

    Attributes:
        code: The code of the job. ``@NAME@`` is replaced by the value of that name in
            `sandbox.self_check.attempts.stage.Stage.names`, such as a path on the host.
        why: The reason why the attempt should fail, in one line.
        ends: How the job may end after a failed attempt.
        raises: Exceptions other than OSError that mean "refused"; "*" for any.
        only: Names of the backends that the attempt is meant for; empty for all.
        machine: The architecture of the machine code in `code`; "" for any.
        workspace: How the job may write to the workspace that the self-check provides; None if the box gets none.
        beside: Whether another box, with a secret, runs at the same time and must not be disturbed.
        then: Python code for a second, fresh box, whose output is judged, too.
        harmless: Whether the attempt does no damage even if it succeeds.
        stop_on_success: Whether nothing else may be tried after a success, because it shows that the box does not hide
            the host. Such attempts are harmless.
    """

    family: AttemptFamily
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
    stop_on_success: bool = False

    @property
    def name(self) -> str:
        return f"{self.family}: {self.attempt}"

    def applies(self, backend: str, machine: str) -> bool:
        """Return whether the attempt can be made on this backend and architecture."""
        if (self.only and backend not in self.only) or self.machine not in ("", machine):
            return False
        return all(system_calls.exists(number, machine) for number in self.system_calls)

    @property
    def system_calls(self) -> tuple[int, ...]:
        """The system calls that `code` makes by their numbers on x86_64."""
        return tuple(int(number) for number in _CALLS.findall(self.code))
