"""Checks of a job's inputs and outputs: values, streams, files, languages, randomness."""

import json
import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sandbox.contract import Call, End, Job, Language, Limits, Mount, Sandbox, SandboxError, Unsupported, Writes
from sandbox.self_check.attempts.stage import workspace_owner
from sandbox.self_check.check import Check, CheckFailed, Missing, require, run

_ECHO = b"def echo(value):\n    return value\n"
_VALUE: dict[str, Any] = {
    "text": "Grüße \u2603 \0 end",
    "list": [1, -2.5, 10**30, True, None, {}],
    "deep": {"a": {"b": [[]]}},
}
_RUNS = 4
_RANDOM = (
    "import random, uuid, ssl, os\n[random.random(), str(uuid.uuid4()), ssl.RAND_bytes(8).hex(), os.urandom(8).hex()]"
)
_NUMPY = "import numpy\n[float(numpy.random.random())]"
_ECHOES = {
    Language.PYTHON: "import sys; print(sys.stdin.read().upper(), sys.argv[1])",
    Language.NODE: "console.log(require('fs').readFileSync(0, 'utf8').toUpperCase(), process.argv[2])",
    Language.BASH: 'tr a-z A-Z; echo " $1"',
}


async def _a_function_returns_its_value(sandbox: Sandbox) -> None:
    job = Job(files={"echo.py": _ECHO}, call=Call("echo.py", "echo", {"value": _VALUE}))
    outcome = await sandbox.run(job)
    require(outcome.ok and outcome.value == _VALUE, outcome)


async def _a_script_returns_its_last_expression(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="x = 20\nx * 2 + 2"))
    require(outcome.ok and outcome.value == 6 * 7, outcome)


async def _printed_text_is_not_a_result(sandbox: Sandbox) -> None:
    forged = json.dumps({"end": "ok", "value": "forged"})
    outcome = await sandbox.run(Job(code=f"print({forged!r})\n'real'"))
    require(outcome.value == "real" and b"forged" in outcome.stdout, outcome)


async def _an_exception_is_reported(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="def f():\n    raise ValueError('no such colour')\nf()"))
    error = outcome.error
    require(outcome.end is End.ERROR and outcome.exit_code == 1 and error is not None, outcome)
    if error is not None:
        require((error.type, error.message) == ("ValueError", "no such colour"), error)
        require("in f" in error.traceback and "worker.py" not in error.traceback, error.traceback)


async def _exit_codes_come_back(sandbox: Sandbox) -> None:
    for code, expected in (("raise SystemExit(3)", 3), ("import os; os._exit(4)", 4), ("raise SystemExit", 0)):
        outcome = await sandbox.run(Job(code=code))
        require(outcome.exit_code == expected and outcome.ok == (expected == 0), (code, outcome))


async def _streams_are_kept_apart(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="import os\nos.write(1, b'out\\xff'); os.write(2, b'err')"))
    require((outcome.stdout, outcome.stderr) == (b"out\xff", b"err"), outcome)


async def _output_streams_while_the_job_runs(sandbox: Sandbox) -> None:
    seen: list[bytes] = []
    outcome = await sandbox.run(
        Job(code="for i in range(3): print(i, flush=True)"), on_output=lambda _, d: seen.append(d)
    )
    require(b"".join(seen) == outcome.stdout == b"0\n1\n2\n", seen)


async def _head_and_tail_are_kept(sandbox: Sandbox) -> None:
    job = Job(code="import os\nos.write(1, b'a' * 600 + b'b' * 10_000 + b'c' * 600)", limits=Limits(capture_bytes=1000))
    outcome = await sandbox.run(job)
    kept = outcome.stdout
    require(kept.startswith(b"a" * 500) and kept.endswith(b"c" * 500) and outcome.stdout_dropped == 10_200, outcome)  # noqa: PLR2004


async def _files_go_in_and_out(sandbox: Sandbox) -> None:
    job = Job(
        code="import os\nos.mkdir('out')\nopen('out/b', 'wb').write(open('in/a', 'rb').read()[::-1])",
        files={"in/a": b"\0\xff1"},
        collect=("out/b", "absent", "../etc/passwd", "/etc/passwd"),
    )
    outcome = await sandbox.run(job)
    require(outcome.ok and dict(outcome.files) == {"out/b": b"1\xff\0"}, outcome)


async def _only_plain_files_are_collected(sandbox: Sandbox) -> None:
    code = "import os\nos.mkfifo('p'); os.mkdir('d'); open('f', 'w')"
    code += "\nos.symlink('/etc/passwd', 'l'); os.symlink('..', 'u')"
    outcome = await sandbox.run(Job(code=code, collect=("p", "d", "l", "u/etc/passwd", "f")))
    require(outcome.ok and dict(outcome.files) == {"f": b""}, outcome)


async def _a_path_that_leaves_the_folder_is_refused(sandbox: Sandbox) -> None:
    for path in ("../x", "/etc/x", "a/../../x"):
        try:
            outcome = await sandbox.run(Job(code="1", files={path: b""}))
        except SandboxError as refusal:
            require(not refusal.may_have_started, refusal)
        else:
            raise CheckFailed(f"a file at {path!r} was accepted: {outcome}")


def _filled(folder: str, name: str, text: str) -> Path:
    (Path(folder) / name).write_text(text)
    return Path(folder)


def _given_away(folder: Path, sandbox: Sandbox) -> int:
    """Change the owner of the folder to a user that this backend accepts, and return the user id."""
    owner = workspace_owner(sandbox.name)
    for path in (folder, *folder.iterdir()):
        os.chown(path, owner, -1)
    return owner


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def _owners(folder: Path) -> set[int]:
    return {path.stat().st_uid for path in (folder, *folder.iterdir())}


async def _a_workspace_is_shared(sandbox: Sandbox) -> None:
    with TemporaryDirectory(prefix="knackbox-check-") as folder:
        work = _filled(folder, "in", "hello")
        owner = _given_away(work, sandbox)
        outcome = await sandbox.run(Job(code="open('out', 'w').write(open('in').read() * 2)", workspace=Mount(work)))
        require(outcome.ok and _texts(work) == {"in": "hello", "out": "hellohello"}, (outcome, _texts(work)))
        require(_owners(work) == {owner}, f"users {_owners(work)} own the workspace and its files")


async def _a_workspace_can_be_read_only(sandbox: Sandbox) -> None:
    with TemporaryDirectory(prefix="knackbox-check-") as folder:
        _given_away(Path(folder), sandbox)
        outcome = await sandbox.run(Job(code="open('x', 'w')", workspace=Mount(Path(folder), Writes.NO)))
        require(outcome.end is End.ERROR and not _texts(Path(folder)), outcome)


async def _a_language_reads_input_and_arguments(language: Language, sandbox: Sandbox) -> None:
    job = Job(language=language, code=_ECHOES[language], stdin=b"hello", argv=("there",), limits=Limits(wall_s=20))
    outcome = await run(sandbox, job)
    require(outcome.ok and outcome.stdout.split() == [b"HELLO", b"there"], outcome)


async def _random_state_is_fresh(sandbox: Sandbox) -> None:
    runs = [(await sandbox.run(Job(code=_RANDOM, preload=("ssl", "uuid")))).value for _ in range(_RUNS)]
    _all_differ(runs)


async def _numpys_random_state_is_fresh(sandbox: Sandbox) -> None:
    outcomes = [await sandbox.run(Job(code=_NUMPY, preload=("numpy",))) for _ in range(_RUNS)]
    error = outcomes[0].error
    if error is not None and error.type == "ModuleNotFoundError":
        raise Missing("numpy is not installed")
    _all_differ([outcome.value for outcome in outcomes])


def _all_differ(runs: list[object]) -> None:
    require(all(isinstance(values, list) for values in runs), runs)
    for column in zip(*(values for values in runs if isinstance(values, list)), strict=True):
        require(len(set(column)) == len(runs), column)


async def _every_box_is_fresh(sandbox: Sandbox) -> None:
    places = "import os, json, tempfile\nplaces = (tempfile.gettempdir() + '/x', 'x')\n"
    left = await sandbox.run(Job(code=f"{places}for p in places: open(p, 'w')\nos.environ['X'] = json.x = '1'"))
    require(left.ok, left)
    code = f"{places}[*map(os.path.exists, places), 'X' in os.environ, hasattr(json, 'x')]"
    outcome = await sandbox.run(Job(code=code))
    require(outcome.value == [False] * 4, outcome)


async def _a_workspace_can_be_copied(sandbox: Sandbox) -> None:
    with TemporaryDirectory(prefix="knackbox-check-") as folder:
        work = _filled(folder, "a", "before")
        code = "import os\nopen('a', 'w').write('after'); open('b', 'w').write('new')"
        try:
            outcome = await sandbox.run(Job(code=code, workspace=Mount(work, Writes.COPY)))
        except Unsupported as refusal:
            raise Missing(refusal.message) from None
        changed = {change.path: change.kind for change in outcome.changes}
        require(outcome.ok and changed == {"a": "modified", "b": "added"}, outcome)
        require(_texts(work) == {"a": "before"}, _texts(work))


CHECKS = (
    Check("values", "a function returns its value", _a_function_returns_its_value),
    Check("values", "a script returns its last expression", _a_script_returns_its_last_expression),
    Check("values", "printed text is not a result", _printed_text_is_not_a_result),
    Check("values", "an exception is reported", _an_exception_is_reported),
    Check("values", "the exit code is reported", _exit_codes_come_back),
    Check("streams", "streams are kept apart, byte for byte", _streams_are_kept_apart),
    Check("streams", "output is passed on while the job runs", _output_streams_while_the_job_runs),
    Check("streams", "the head and tail of long output are kept", _head_and_tail_are_kept),
    Check("files", "files are passed into the box and back", _files_go_in_and_out),
    Check("files", "only plain files are collected", _only_plain_files_are_collected),
    Check("files", "a path that leaves the folder is refused", _a_path_that_leaves_the_folder_is_refused),
    Check("files", "files that a job writes to a workspace belong to its owner", _a_workspace_is_shared),
    Check("files", "a workspace can be read-only", _a_workspace_can_be_read_only),
    Check("files", "a workspace can be copied", _a_workspace_can_be_copied),
    *(
        Check(
            "languages",
            f"{language} reads input and arguments",
            partial(_a_language_reads_input_and_arguments, language),
        )
        for language in Language
    ),
    Check("randomness", "random, uuid, ssl", _random_state_is_fresh),
    Check("randomness", "numpy", _numpys_random_state_is_fresh),
    Check("isolation", "every box is fresh", _every_box_is_fresh),
)
