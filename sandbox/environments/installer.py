"""Runs uv once, to install wheels into one folder within limits on time and size.

Only wheels are accepted, so no code of a package runs: uv unpacks them, and compiles their modules to bytecode without
running them. See docs/design/environments.md.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from sandbox.capture import Capture
from sandbox.contract import SandboxError, UnresolvedRequirements
from sandbox.environments.folders import contents
from sandbox.environments.indexes import IndexSettings

OnProgress = Callable[[str], None]

MAX_FILES = 200_000  # files in one environment; PyTorch with CUDA has about 20,000
_MAX_MESSAGE_BYTES = 4000
_MAX_LINE_BYTES = 1000
_LOOK_S = 0.25
_SOURCE = str(Path(__file__).parents[2])
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sandbox.environments.launch import main; main(sys.argv[2:])"
)
_NOT_NEWS = ("Using CPython", "Using PyPy", "warning: Failed to hardlink")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a build. `wall_s` limits its duration in seconds, `size_bytes` its size on disk."""

    wall_s: float
    size_bytes: int


async def install(
    requirements: Sequence[str], staging: Path, bounds: Bounds, indexes: IndexSettings, on_progress: OnProgress
) -> Path:
    """Install into `staging`, an empty folder that the caller removes; return the site-packages folder below it.

    Cancelling the call kills uv before it returns.

    Raises:
        UnresolvedRequirements: uv failed, took too long or used too much space, or a package has a module named like
            one of the standard library. The message contains uv's output without addresses.
    """
    target = staging / "site-packages"
    for name in ("site-packages", "scratch"):
        (staging / name).mkdir()
    listener = _Listener(indexes, staging, on_progress)
    process = await asyncio.create_subprocess_exec(
        *_command(requirements, staging, target, bounds, indexes.options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(staging, indexes),
        cwd=staging / "scratch",
        start_new_session=True,
        limit=1 << 16,
    )
    hearing = asyncio.ensure_future(listener.read(process))
    growing = asyncio.ensure_future(_until_too_large(staging, bounds.size_bytes))
    try:
        done, _ = await asyncio.wait({hearing, growing}, timeout=bounds.wall_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(process, hearing, growing)
    if growing in done:
        raise _too_large(growing.result(), bounds)
    if hearing not in done:
        raise UnresolvedRequirements(
            f"Installing {_named(requirements)} took longer than {bounds.wall_s:g} s. {listener.said()}".strip()
        )
    hearing.result()
    if process.returncode == -signal.SIGXFSZ:
        raise _too_large("a single file", bounds)
    if process.returncode != 0:
        said = listener.said() or f"uv ended with exit code {process.returncode} and printed no message"
        raise UnresolvedRequirements(f"{_named(requirements)} could not be installed. {said}")
    over = await asyncio.to_thread(_over, staging, bounds.size_bytes)
    if over:
        raise _too_large(over, bounds)
    _refuse_disguised(target, requirements)
    return target


def _command(
    requirements: Sequence[str], staging: Path, target: Path, bounds: Bounds, options: Sequence[str]
) -> list[str]:
    try:
        program = os.fspath(find_uv_bin())
    except FileNotFoundError:
        raise SandboxError(
            "uv, which installs the requirements of jobs, is missing.", remedy="Run `pip install uv`."
        ) from None
    python = getattr(sys, "_base_executable", sys.executable)  # the interpreter that boxes run
    return [
        *(python, "-I", "-S", "-B", "-c", _BOOTSTRAP, _SOURCE),
        *(str(os.getpid()), str(bounds.size_bytes), str(staging)),
        *(program, "pip", "install", "--target", str(target), "--python", python),
        *("--only-binary", ":all:", "--compile-bytecode", "--color", "never", "--no-progress", *options),
        *("--", *requirements),
    ]


def _environment(staging: Path, indexes: IndexSettings) -> dict[str, str]:
    scratch = str(staging / "scratch")
    environment = {
        **indexes.environment,
        "PATH": "/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        # The cache is removed with the scratch folder, so that no environment contains files from another build.
        "UV_CACHE_DIR": f"{scratch}/cache",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if "UV_CONFIG_FILE" not in environment:
        environment["UV_NO_CONFIG"] = "1"
    return environment


class _Listener:
    """Reads uv's output, forwards it line by line, and keeps a bounded part of it for an error message."""

    def __init__(self, indexes: IndexSettings, staging: Path, on_progress: OnProgress) -> None:
        self._kept = Capture(_MAX_MESSAGE_BYTES)
        self._indexes = indexes
        self._staging = str(staging)
        self._on_progress = on_progress

    async def read(self, process: asyncio.subprocess.Process) -> None:
        """Read uv's output until uv has ended."""
        assert process.stderr is not None  # noqa: S101  (requested above)
        rest = b""
        while data := await process.stderr.read(1 << 14):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)
            rest = rest[:_MAX_LINE_BYTES]
        self._take(rest)
        await process.wait()

    def said(self) -> str:
        return self._kept.value().decode(errors="replace").strip()

    def _take(self, line: bytes) -> None:
        text = "".join(c for c in line[:_MAX_LINE_BYTES].decode(errors="replace") if c.isprintable()).rstrip()
        if not text or text.startswith(_NOT_NEWS):
            return
        text = self._indexes.redact(text.replace(self._staging, "<environment>"))
        self._kept.feed(text.encode() + b"\n")
        self._on_progress(text)


async def _until_too_large(folder: Path, limit: int) -> str:
    while True:
        await asyncio.sleep(_LOOK_S)
        over = await asyncio.to_thread(_over, folder, limit)
        if over:
            return over


def _over(folder: Path, limit: int) -> str:
    """Return a description of what exceeds its limit, or "" if nothing does."""
    size, files, seen = 0, 0, set()
    for _, status in contents(folder):
        files += 1
        if (status.st_dev, status.st_ino) not in seen:  # uv hard-links from its cache
            seen.add((status.st_dev, status.st_ino))
            size += status.st_blocks * 512
    if size > limit:
        return f"{size:,} bytes"
    return f"{files:,} files" if files > 2 * MAX_FILES else ""  # each file is also in the cache


def _too_large(what: str, bounds: Bounds) -> UnresolvedRequirements:
    return UnresolvedRequirements(
        f"The required packages are too large: {what}; the limits are {bounds.size_bytes:,} bytes and {MAX_FILES:,} "
        "files.",
        remedy="Require fewer packages, or raise the size limit of environments.",
    )


def _refuse_disguised(target: Path, requirements: Sequence[str]) -> None:
    """Refuse packages with a module that is named like one of the standard library, such as `msvcrt`.

    The standard library may import such a module, so a template would run it outside of any box.
    """
    found = sorted({entry.name.partition(".")[0] for entry in target.iterdir()} & sys.stdlib_module_names)
    if found:
        raise UnresolvedRequirements(
            f"{_named(requirements)} cannot be used: it contains `{found[0]}`, which is the name of a module of the "
            "standard library.",
            remedy="Require another package.",
        )


def _named(requirements: Sequence[str]) -> str:
    text = ", ".join(requirements)
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004  (one line)


async def _end(process: asyncio.subprocess.Process, *tasks: asyncio.Future[Any]) -> None:
    """Kill uv and its child processes, and wait until uv has ended, even if this task is cancelled."""
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    waiting = asyncio.ensure_future(process.wait())
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:  # the folder cannot be removed before the process has ended
            cancelled = True
    for task in tasks:
        task.cancel()
    if cancelled:
        raise asyncio.CancelledError
