"""HTTP servers in separate processes, and tokens for them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from engine.app.home import Home
from engine.interfaces.http.tokens import Caller, Tokens
from engine.stores.clock import SystemClock
from engine.stores.records import Records
from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 40.0
# For httpx: ignore the environment and do not load certificates (20 ms per client), since nothing here uses TLS.
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}
SCRIPT = [sys.executable, "-m", "tests.interfaces.http.server_script"]


@dataclass(frozen=True)
class Server:
    """A running server."""

    home: Home
    url: str
    process: "subprocess.Popen[str]"
    tokens: Tokens
    made: dict[str, str] = field(default_factory=dict)

    def token(self, caller: Caller) -> str:
        """Return the token of a caller, created on first use."""
        if caller.name not in self.made:
            self.made[caller.name] = self.tokens.add(caller)
        return self.made[caller.name]

    def client(self, caller: Caller) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token(caller)}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=DEADLINE_S, **PLAIN)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def note(self, name: str) -> str:
        """Return the text of a file in the workspace, or "" if it does not exist."""
        path = self.home.workspace / name
        return path.read_text() if path.exists() else ""


@contextmanager
def running(
    root: Path, config: str = "", *, words: list[str] | None = None, callers: Iterable[Caller] = ()
) -> Iterator[Server]:
    """Run a server with the tools of the tests, or the command `words`, which prints its address on stdout.

    Tokens for `callers` are created first, because the command needs one.
    """
    home = Home(root)
    home.create()
    home.config.write_text(config)
    records = Records.open(home.records_url)
    tokens = Tokens(records, SystemClock())
    made = {caller.name: tokens.add(caller) for caller in callers}
    with (
        (home.root / "stderr").open("w") as errors,
        subprocess.Popen(
            words or [*SCRIPT, str(root)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (home.root / "stderr").read_text()
            yield Server(home, json.loads(line)["url"], process, tokens, made)
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE_S)
            finally:
                process.kill()
                records.close()


def knackbox_serve(root: Path, *more: str) -> list[str]:
    """Return the real command. It needs an existing token."""
    return command("--home", str(root), "serve", "--port", "0", "--json", *more)
