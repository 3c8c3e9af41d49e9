"""Other ways of running the same code: a plain process, bubblewrap, a container."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.skills import Skill

IMAGE_VARIABLE = "BENCH_DOCKER_IMAGE"
_DOCKER_WAIT_S = 10


@dataclass(frozen=True, slots=True)
class Peer:
    """absent: why it is not here and how to get it; "" when it is."""

    name: str
    run: Callable[[], Awaitable[bool]]
    absent: str = ""


def peers(folder: Path, skill: Skill) -> list[Peer]:
    """Every peer, those that are absent too."""
    script = folder / f"{skill.name}_script.py"
    call = f"print({skill.name}(**{json.dumps(dict(skill.arguments))}))\n"
    script.write_text(f"{skill.code}\n\n{call}")
    return [
        Peer("python script.py", _process(sys.executable, str(script))),
        Peer("bubblewrap + python", _process(*_bubblewrap(script)), _absent_bubblewrap()),
        Peer("docker run + python", _process(*_docker(script)), _absent_docker()),
    ]


def _process(*command: str) -> Callable[[], Awaitable[bool]]:
    async def run() -> bool:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await process.communicate()
        return process.returncode == 0 and bool(output.strip())

    return run


def _bubblewrap(script: Path) -> list[str]:
    shown = {"/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, str(script.parent)}
    binds = [part for path in sorted(shown) if Path(path).exists() for part in ("--ro-bind", path, path)]
    return [
        "bwrap", *binds, "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent",
        "--", sys.executable, str(script),
    ]  # fmt: skip


def _absent_bubblewrap() -> str:
    return "" if shutil.which("bwrap") else "not installed (apt-get install bubblewrap)"


def _docker(script: Path) -> list[str]:
    packages = sysconfig.get_paths()["purelib"]
    return [
        "docker", "run", "--rm", "--network=none", "-v", f"{script.parent}:/job:ro", "-v", f"{packages}:/packages:ro",
        "-e", "PYTHONPATH=/packages", os.environ.get(IMAGE_VARIABLE, ""), "python3", f"/job/{script.name}",
    ]  # fmt: skip


def _absent_docker() -> str:
    if not shutil.which("docker"):
        return "not installed (apt-get install docker.io)"
    image = os.environ.get(IMAGE_VARIABLE)
    if not image:
        return f"set {IMAGE_VARIABLE} to an image with Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        asked = subprocess.run(
            ["docker", "image", "inspect", image], capture_output=True, timeout=_DOCKER_WAIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "its engine does not answer"
    return "" if asked.returncode == 0 else f"no engine runs, or it has no image {image}"
