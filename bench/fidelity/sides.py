"""The two sides on which tests run: a plain unprivileged process, and a box."""

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
    """One module of tests.

    Attributes:
        runner: A file in this folder.
        arguments: Passed to it after the record's path.
    """

    name: str
    runner: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return (Path(__file__).parent / self.runner).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Script:
    """A script that tests one feature of a language by its output and exit code."""

    name: str
    language: Language
    source: str


class Side(Protocol):
    """A place where tests run."""

    async def run(self, unit: Unit) -> report.Report: ...

    async def output(self, script: Script) -> str:
        """Run a script; return its output and its exit code."""
        ...


class Inside:
    """A box with limits that are generous enough for all tests."""

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
            env=_environment(unit),
            collect=(_RECORD,),
            limits=self._limits,
        )
        outcome = await self._sandbox.run(job)
        stderr = outcome.stderr[-_TAIL:].decode(errors="replace")
        ended = "" if outcome.ok else f"{outcome.end} (exit {outcome.exit_code}, signal {outcome.signal}): {stderr}"
        return report.parse(outcome.files.get(_RECORD, b""), ended)

    async def output(self, script: Script) -> str:
        outcome = await self._sandbox.run(Job(script.language, script.source, limits=self._limits))
        return f"{outcome.stdout.decode(errors='replace')}exit {outcome.exit_code}\n"


class Outside:
    """A plain process of an unprivileged user. See `bench.fidelity.outside`."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._packages = own_packages()
        programs = find_programs(self._packages)
        self._real = {f"/env/{index}": folder for index, folder in enumerate(self._packages)}
        self._environment = {
            "PATH": ":".join(self._host_path(path) for path in programs.path),
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "USER": "nobody",
            "LANG": "C.UTF-8",
            "PYTHONPATH": ":".join(self._packages),
        }
        self._interpreters = {Language.BASH: programs.bash, Language.NODE: programs.node}

    async def run(self, unit: Unit) -> report.Report:
        command = [_PYTHON, _MAIN, _RECORD, *unit.arguments]
        code, record, stderr = await self._start(command, {**self._environment, **_environment(unit)}, unit.source)
        return report.parse(record, f"exit {code}: {stderr[-_TAIL:].decode(errors='replace')}" if code else "")

    async def output(self, script: Script) -> str:
        interpreter = self._host_path(self._interpreters[script.language] or "")
        file = _FILES[script.language]
        line = f'("{interpreter}" {file}; echo "exit $?") | cat > {_RECORD}'
        _, record, _ = await self._start(["/bin/bash", "-c", line], self._environment, script.source, file)
        return record.decode(errors="replace")

    def _host_path(self, path: str) -> str:
        """Convert a path in the box to the path on the host."""
        shown, found = next(((shown, real) for shown, real in self._real.items() if path.startswith(shown)), ("", ""))
        return found + path.removeprefix(shown)

    async def _start(
        self, command: list[str], environment: Mapping[str, str], source: str, file: str = _MAIN
    ) -> tuple[int, bytes, bytes]:
        """Run a command; return its exit code, its record, and its stderr."""
        shown = [_PREFIX, *self._packages]
        request = outside.ProcessRequest(
            command, dict(environment), {file: source}, shown, self._timeout_s, _SCRATCH_BYTES
        )
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
                record, stderr = await process.communicate(json.dumps(asdict(request)).encode())
        except BaseException:
            process.kill()  # this also kills process 1 of its pid namespace, and thereby all others
            await process.wait()
            raise
        return process.returncode or 0, record, stderr


def _environment(unit: Unit) -> dict[str, str]:
    """Return the environment of a unit. Bytecode is enabled because the suites test it; boxes disable it by default."""
    return {"PYTHONDONTWRITEBYTECODE": "", **unit.environment}
