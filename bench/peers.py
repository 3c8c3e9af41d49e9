"""Other ways to run the same code: a plain process, bubblewrap, sandlock and containers."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

IMAGE_VARIABLE = "BENCH_DOCKER_IMAGE"
PLAIN = "python script.py"
_DOCKER_WAIT_S = 60
_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to run the code.

    Attributes:
        absent: Why it is not available and how to install it; "" if it is available.
    """

    name: str
    run: Callable[[], Awaitable[bool]]
    absent: str = ""


def plain(script: Path) -> Peer:
    """Return the baseline: a plain process without isolation."""
    return Peer(PLAIN, _process(sys.executable, str(script)))


def bubblewrap(script: Path) -> Peer:
    visible = {"/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, str(script.parent)}
    binds = [part for path in sorted(visible) if Path(path).exists() for part in ("--ro-bind", path, path)]
    command = [
        "bwrap", *binds, "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent",
        "--", sys.executable, str(script),
    ]  # fmt: skip
    absent = "" if shutil.which("bwrap") else "not installed (apt-get install bubblewrap)"
    return Peer("bubblewrap + python", _process(*command), absent)


def sandlock(script: Path) -> Peer:
    """Return sandlock, used as a library. The time includes the Python process that it starts for the script."""
    prefixes = (sys.prefix, sys.base_prefix, str(script.parent))
    visible = {"/usr", "/lib", "/lib64", "/bin", "/etc", "/dev", "/proc", *prefixes}
    readable = [path for path in sorted(visible) if Path(path).exists()]
    absent = "" if importlib.util.find_spec("sandlock") else "not installed (pip install sandlock)"

    async def run() -> bool:
        return await asyncio.to_thread(_run_in_sandlock, readable, script)

    return Peer("sandlock + python", run, absent)


def _run_in_sandlock(readable: list[str], script: Path) -> bool:
    import sandlock as peer  # noqa: PLC0415 -- optional: it may not be installed

    return bool(peer.Sandbox(fs_readable=readable).run([sys.executable, str(script)], timeout=_DOCKER_WAIT_S).success)


def docker_run(script: Path) -> Peer:
    """Return a peer that starts a fresh container for each call."""
    command = ["docker", "run", "--rm", *_container(script.parent), "python3", f"/job/{script.name}"]
    return Peer("docker run + python", _process(*command), absent_docker())


@contextlib.contextmanager
def docker_exec(script: Path) -> Iterator[Peer]:
    """Start a container and yield a peer that runs all calls in it. Calls see the files of earlier calls."""
    absent = absent_docker()
    if absent:
        yield Peer("docker exec + python", _process("false"), absent)
        return
    started = subprocess.run(
        ["docker", "run", "--rm", "--detach", *_container(script.parent), "sleep", "infinity"],
        capture_output=True,
        timeout=_DOCKER_WAIT_S,
        check=False,
        text=True,
    )
    name = started.stdout.strip()
    if started.returncode:
        yield Peer("docker exec + python", _process("false"), f"the container did not start: {started.stderr.strip()}")
        return
    try:
        yield Peer("docker exec + python", _process("docker", "exec", name, "python3", f"/job/{script.name}"))
    finally:
        subprocess.run(["docker", "kill", name], capture_output=True, timeout=_DOCKER_WAIT_S, check=False)


def absent_docker() -> str:
    if not shutil.which("docker"):
        return "not installed (apt-get install docker.io)"
    image = os.environ.get(IMAGE_VARIABLE)
    if not image:
        return f"set {IMAGE_VARIABLE} to an image with Python {_HERE}"
    try:
        inspected = subprocess.run(
            ["docker", "image", "inspect", image], capture_output=True, timeout=_DOCKER_WAIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer"
    return "" if inspected.returncode == 0 else f"the Docker engine is not running, or has no image {image}"


def _container(folder: Path) -> list[str]:
    packages = sysconfig.get_paths()["purelib"]
    return [
        "--network=none", "-v", f"{folder}:/job:ro", "-v", f"{packages}:/packages:ro",
        "-e", "PYTHONPATH=/packages", os.environ.get(IMAGE_VARIABLE, ""),
    ]  # fmt: skip


def _process(*command: str) -> Callable[[], Awaitable[bool]]:
    async def run() -> bool:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await process.communicate()
        return process.returncode == 0 and bool(output.strip())

    return run
