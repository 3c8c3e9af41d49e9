"""Run `knackbox` commands in this process or in a subprocess."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.interfaces.cli.main import run

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> Any:
        """The JSON object in the last line of stdout."""
        return json.loads(self.out.rstrip("\n").rsplit("\n", 1)[-1])


def here(capfd: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    """Run a command in this process."""
    capfd.readouterr()
    code = run(arguments)
    captured = capfd.readouterr()
    return Ran(code, captured.out, captured.err)


def command(*arguments: str, python: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs `knackbox` in a subprocess, from the repository's folder."""
    return [sys.executable, *python, "-m", "engine.interfaces.cli.main", *arguments]


def run_as_process(*arguments: str, environ: dict[str, str] | None = None, python: Sequence[str] = ()) -> Ran:
    """Run a command in a subprocess."""
    done = subprocess.run(
        command(*arguments, python=python),
        cwd=REPOSITORY,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
