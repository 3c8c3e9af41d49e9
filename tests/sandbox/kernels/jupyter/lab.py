"""A JupyterLab server of our own on loopback, with folders of its own, and a page of it in Chromium."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox.kernels.jupyter import private_jupyter

CHROMIUM = "/usr/bin/chromium"  # Debian's
WAIT_S = 40


@dataclass(frozen=True)
class Server:
    url: str
    token: str
    pid: int


@contextmanager
def serving(home: Path, notebooks: Path, *options: str) -> Iterator[Server]:
    """JupyterLab, on a port that is free; ended, with its kernels, at the end."""
    words = (
        *("-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={notebooks}"),
        *("--allow-root", "--LabApp.news_url=", "--LabApp.extension_manager=readonly"),
        *options,
    )
    environ = {**os.environ, **private_jupyter(home)}
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], env=environ, stdout=log, stderr=log, cwd=notebooks)
    try:
        facts = wait_for_facts(home, process)
        yield Server(f"http://127.0.0.1:{facts['port']}", facts["token"], process.pid)
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_facts(home: Path, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What the server writes down of itself once it listens."""
    place = Path(private_jupyter(home)["JUPYTER_RUNTIME_DIR"], f"jpserver-{process.pid}.json")
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if place.exists():
            try:
                return json.loads(place.read_text())  # type: ignore[no-any-return]
            except ValueError:
                pass  # half written
        time.sleep(0.1)
    raise AssertionError("JupyterLab did not start: " + (home / "server.log").read_text()[-2000:])
