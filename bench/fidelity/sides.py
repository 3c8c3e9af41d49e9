"""The two places a module of tests runs in: a plain unprivileged process, and a box."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from bench.fidelity import outside, report
from sandbox.contract import Job, Language, Limits, Sandbox
from sandbox.wire.programs import find_programs, own_packages

_RECORD = ".record"
_MAIN = "main.py"
_FILES = {Language.PYTHON: _MAIN, Language.BASH: "main.sh", Language.NODE: "main.js"}
_GRACE_S = 30.0
_SCRATCH_BYTES = 2 << 30
_TAIL = 500
_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
_PREFIX = os.path.realpath(sys.base_prefix)


@dataclass(frozen=True, slots=True)
class Unit:
    """One module of tests: the runner's file in this folder, and its arguments after the record's path."""

    name: str
    runner: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return (Path(__file__).parent / self.runner).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Script:
    """A feature of a language, shown by what a script prints and how it ends."""

    name: str
    language: Language
    source: str


class Side(Protocol):
    """Where things run."""

    async def run(self, unit: Unit) -> report.Report: ...

    async def say(self, script: Script) -> str:
        """What it prints, and its exit code."""
        ...


class Inside:
    """A box with limits so generous that no test should notice them."""

    def __init__(self, sandbox: Sandbox, timeout_s: float) -> None:
        self._sandbox = sandbox
        self._limits = Limits(
            wall_s=timeout_s,
            cpu_s=2 * timeout_s,
            memory_bytes=6 << 30,
            processes=2048,
            open_files=1024,
            file_size_bytes=8 << 30,
            disk_bytes=_SCRATCH_BYTES,
            output_bytes=256 << 20,
        )

    async def run(self, unit: Unit) -> report.Report:
        job = Job(
            code=unit.source,
            argv=(_RECORD, *unit.arguments),
            env=_as_by_default(unit),
            collect=(_RECORD,),
            limits=self._limits,
        )
        outcome = await self._sandbox.run(job)
        said = outcome.stderr[-_TAIL:].decode(errors="replace")
        ended = "" if outcome.ok else f"{outcome.end} (exit {outcome.exit_code}, signal {outcome.signal}): {said}"
        return report.parse(outcome.files.get(_RECORD, b""), ended)

    async def say(self, script: Script) -> str:
        outcome = await self._sandbox.run(Job(script.language, script.source, limits=self._limits))
        return f"{outcome.stdout.decode(errors='replace')}exit {outcome.exit_code}\n"


class Outside:
    """A plain process of an unprivileged user, see `bench.fidelity.outside`."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._packages = own_packages()
        programs = find_programs(self._packages)
        self._real = {f"/env/{index}": folder for index, folder in enumerate(self._packages)}
        self._environment = {
            "PATH": ":".join(self._here(path) for path in programs.path),
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "USER": "nobody",
            "LANG": "C.UTF-8",
            "PYTHONPATH": ":".join(self._packages),
        }
        self._interpreters = {Language.BASH: programs.bash, Language.NODE: programs.node}

    async def run(self, unit: Unit) -> report.Report:
        command = [_PYTHON, _MAIN, _RECORD, *unit.arguments]
        code, record, said = await self._start(command, {**self._environment, **_as_by_default(unit)}, unit.source)
        return report.parse(record, f"exit {code}: {said[-_TAIL:].decode(errors='replace')}" if code else "")

    async def say(self, script: Script) -> str:
        interpreter = self._here(self._interpreters[script.language] or "")
        file = _FILES[script.language]
        line = f'("{interpreter}" {file}; echo "exit $?") | cat > {_RECORD}'
        _, record, _ = await self._start(["/bin/bash", "-c", line], self._environment, script.source, file)
        return record.decode(errors="replace")

    def _here(self, path: str) -> str:
        """A path of the box as the host's."""
        shown, found = next(((shown, real) for shown, real in self._real.items() if path.startswith(shown)), ("", ""))
        return found + path.removeprefix(shown)

    async def _start(
        self, command: list[str], environment: Mapping[str, str], source: str, file: str = _MAIN
    ) -> tuple[int, bytes, bytes]:
        """Exit code, record, and what it printed."""
        shown = [_PREFIX, *self._packages]
        wish = outside.Wish(command, dict(environment), {file: source}, shown, self._timeout_s, _SCRATCH_BYTES)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            outside.__file__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                record, said = await process.communicate(json.dumps(asdict(wish)).encode())
        except BaseException:
            process.kill()  # and with it its process 1, and with that all others
            await process.wait()
            raise
        return process.returncode or 0, record, said


def _as_by_default(unit: Unit) -> dict[str, str]:
    """Boxes write no bytecode unless told to (a setting of CPython's own); the suites test that it is written."""
    return {"PYTHONDONTWRITEBYTECODE": "", **unit.environment}
