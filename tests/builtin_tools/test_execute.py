"""`execute` runs code in a fresh box with the real workspace, and explains failures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.jobs.environment import imports_of
from builtin_tools.execute import MAX_RUN_S, execute
from engine.contract.context import CallContext, Produced
from engine.contract.failure import FailureClass, ToolFailure
from sandbox.namespace.backend import NamespaceSandbox


@pytest.fixture
def ctx(ctx: CallContext, box: NamespaceSandbox) -> CallContext:
    return replace(ctx, sandbox=box)


async def run(ctx: CallContext, language: str, code: str, **more: Any) -> Produced:
    produced = await execute.run(ctx, {"language": language, "code": code, **more})
    assert isinstance(produced, Produced)
    return produced


async def failing(ctx: CallContext, language: str, code: str, **more: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await run(ctx, language, code, **more)
    return caught.value


@pytest.mark.spec("BOX-6", "TOOL-1")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys\nprint('hello ' + sys.stdin.read())"),
        ("node", "console.log('hello ' + require('fs').readFileSync(0, 'utf8'))"),
        ("bash", "echo hello $(cat)"),
    ],
)
async def test_each_language_reads_its_input_and_prints(ctx: CallContext, language: str, code: str) -> None:
    produced = await run(ctx, language, code, stdin="Ada")
    assert produced.value["stdout"] == "hello Ada\n"
    assert produced.message == "hello Ada"
    assert produced.side_effects == (f"executed:{language}",)


PROGRAMS = {
    "scripts/show it.py": "import sys, helper\nif __name__ == '__main__':\n    print(sys.argv[1:], helper.x, __file__)",
    "scripts/show it.js": "const h = require('./helper.js');\n"
    "if (require.main === module) console.log(JSON.stringify(process.argv.slice(2)), h.x, __filename)",
    "scripts/show it.mjs": "import { argv } from 'node:process';\nimport { y } from './helper.mjs';\n"
    "console.log(JSON.stringify(argv.slice(2)), y, import.meta.filename)",
    "scripts/show it.sh": '. ./scripts/helper.sh; printf "%s|" "$@"; echo "$x $0"',
    "scripts/unnamed": '#!/usr/bin/env bash\nprintf "%s|" "$@"; echo 7 $0',
}
HELPERS = {"helper.py": "x = 7", "helper.js": "exports.x = 7", "helper.mjs": "export const y = 7", "helper.sh": "x=7"}


@pytest.mark.spec("TOOL-1")
@pytest.mark.parametrize("filename", PROGRAMS)
async def test_a_workspace_file_runs_as_the_main_program_with_its_arguments(ctx: CallContext, filename: str) -> None:
    for name, text in [*PROGRAMS.items(), *((f"scripts/{name}", text) for name, text in HELPERS.items())]:
        ctx.workspace.write(name, text.encode())
    produced = await execute.run(ctx, {"filename": filename, "args": ["--a", "b c", '"$(id)"']})
    assert isinstance(produced, Produced)
    stdout = produced.value["stdout"]
    assert "--a" in stdout
    assert "b c" in stdout
    assert "$(id)" in stdout
    assert " 7 " in stdout or "|7 " in stdout
    assert stdout.rstrip("\n").endswith(filename)


@pytest.mark.spec("TOOL-1")
async def test_the_failure_of_a_workspace_program_names_its_line(ctx: CallContext) -> None:
    ctx.workspace.write("bad.py", b"x = 1\n\n1 / 0\n")
    with pytest.raises(ToolFailure) as caught:
        await execute.run(ctx, {"filename": "bad.py"})
    assert str(caught.value).startswith("bad.py failed")
    assert 'bad.py", line 3' in str(caught.value)


@pytest.mark.spec("TOOL-1", "TOOL-2")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filename": "gone.py"}, "no 'gone.py'"),
        ({"filename": "../outside.py"}, "leads out of the workspace"),
        ({"filename": "link.py"}, "leads out of the workspace"),
        ({"filename": "data.bin"}, "Set `language`"),
        ({"filename": "a.py", "code": "1", "language": "python"}, "Both"),
        ({"filename": "a.py", "stateful": True}, "omit them"),
        ({"code": "1"}, "`language` is missing"),
    ],
)
async def test_a_program_that_cannot_be_run_is_refused_with_advice(
    ctx: CallContext, arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("print('secret')")
    (ctx.workspace.root / "link.py").symlink_to(tmp_path / "outside.py")
    ctx.workspace.write("data.bin", b"\0\1")
    with pytest.raises(ToolFailure) as caught:
        await execute.run(ctx, arguments)
    assert message in str(caught.value)
    assert not caught.value.may_have_started


@pytest.mark.spec("TOOL-1")
async def test_code_receives_arguments_too(ctx: CallContext) -> None:
    assert (await run(ctx, "python", "import sys\nsys.argv[1:]", args=["a", "-b"])).value["value"] == ["a", "-b"]


@pytest.mark.spec("BOX-13")
async def test_the_value_of_the_last_expression_is_separate_from_the_printed_output(ctx: CallContext) -> None:
    produced = await run(ctx, "python", 'print(\'{"value": "forged"}\')\n{"n": 6 * 7}')
    assert produced.value["value"] == {"n": 42}
    assert produced.message == 'value:\n{"n": 42}\nstdout:\n{"value": "forged"}'


@pytest.mark.spec("BOX-6")
async def test_all_languages_read_and_write_workspace_files(ctx: CallContext) -> None:
    ctx.workspace.write("in/data.txt", b"one")
    await run(ctx, "bash", "cat in/data.txt > out.txt; echo two >> out.txt")
    produced = await run(ctx, "python", "open('out.txt').read()")
    assert produced.value["value"] == "onetwo\n"
    assert ctx.workspace.read("out.txt") == b"onetwo\n"


async def test_nothing_else_is_kept_between_runs(ctx: CallContext) -> None:
    await run(ctx, "python", "x = 1\nopen('/tmp/kept', 'w').write('x')")
    produced = await run(ctx, "python", "import os\n['x' in globals(), os.path.exists('/tmp/kept')]")
    assert produced.value["value"] == [False, False]


@pytest.mark.spec("BOX-6")
async def test_a_link_in_the_workspace_gives_no_access_outside_it(ctx: CallContext, tmp_path: Any) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    await run(ctx, "bash", f"ln -s {tmp_path}/secret.txt link; ln -s ../secret.txt up")
    produced = await run(ctx, "bash", "cat link up ../secret.txt 2>/dev/null; true")
    assert produced.value["stdout"] == ""


@pytest.mark.spec("FAIL-4")
async def test_an_exception_is_reported_with_the_frames_of_its_own_code_only(ctx: CallContext) -> None:
    failure = await failing(ctx, "python", "def f(n):\n    return 1 / n\n\nf(0)")
    assert (failure.failure_class, failure.end) == (FailureClass.DIAGNOSTIC, "error")
    assert "ZeroDivisionError: division by zero" in str(failure)
    assert "line 2, in f" in str(failure)
    assert "sandbox/" not in str(failure)


@pytest.mark.spec("FAIL-4")
@pytest.mark.parametrize(
    ("language", "code"),
    [("bash", "echo no such thing >&2; exit 3"), ("node", "console.error('no such thing'); process.exit(3)")],
)
async def test_an_exit_code_is_reported_with_the_end_of_stderr(ctx: CallContext, language: str, code: str) -> None:
    failure = await failing(ctx, language, code)
    assert "exit code 3" in str(failure)
    assert "no such thing" in str(failure)


@pytest.mark.spec("BOX-3")
@pytest.mark.parametrize(("language", "code"), [("python", "while True: pass"), ("bash", "sleep 100")])
async def test_a_run_that_exceeds_its_time_limit_ends_and_says_so(ctx: CallContext, language: str, code: str) -> None:
    failure = await failing(ctx, language, code, timeout_s=0.5)
    assert failure.end in {"timeout", "cpu"}
    assert "time" in str(failure)


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    "arguments",
    [
        {"language": "ruby", "code": "1"},
        {"language": "python"},
        {"language": "python", "code": "1", "timeout_s": MAX_RUN_S + 1},
        {"language": "python", "code": "1", "timeout_s": 0},
    ],
)
async def test_invalid_arguments_run_nothing(ctx: CallContext, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure) as caught:
        await execute.run(ctx, arguments)
    assert caught.value.reason == "invalid_arguments"
    assert not caught.value.may_have_started


async def test_a_run_that_prints_nothing_says_so(ctx: CallContext) -> None:
    assert (await run(ctx, "bash", "true")).message == "The run completed and printed nothing."


async def test_a_shortened_output_says_how_much_was_dropped(ctx: CallContext) -> None:
    produced = await run(ctx, "python", "print('x' * 3_000_000)")
    assert "bytes were dropped from the middle" in produced.value["stdout"]


async def test_a_program_that_imports_pandas_has_it(ctx: CallContext) -> None:
    produced = await run(ctx, "python", "import pandas as pd\nint(pd.Series([1, 2, 3]).sum())")
    assert produced.value["value"] == 6


def test_imports_are_guessed_from_the_text_alone() -> None:
    assert imports_of("import pandas as pd\nif x:\n    from numpy import array\n# import re") == ("pandas", "numpy")
    assert imports_of("def broken(:\n") == ()


def test_the_run_ends_before_the_deadline_of_the_call() -> None:
    assert execute.spec.timeout_s > MAX_RUN_S
