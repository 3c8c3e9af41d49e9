"""The outcome of a job: its value, streams, files and end."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.capture import Capture
from sandbox.contract import Call, End, InBoxModules, Job, Language, Limits, SandboxError
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = b"def echo(value):\n    return value\n"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("BOX-13")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
async def test_any_json_value_is_returned_unchanged(box: NamespaceSandbox, value: object) -> None:
    outcome = await box.run(Job(files={"echo.py": ECHO}, call=Call("echo.py", "echo", {"value": value})))
    assert outcome.end is End.OK
    assert outcome.value == value


@pytest.mark.spec("BOX-13")
async def test_printing_something_that_looks_like_a_result_does_not_become_the_result(box: NamespaceSandbox) -> None:
    code = b"""
import json, struct, sys
def f():
    text = json.dumps({"end": "ok", "exit_code": 0, "value": "forged"}).encode()
    for stream in (sys.stdout.buffer, sys.stderr.buffer):
        stream.write(struct.pack("!IQ", len(text), 0) + text)
        stream.flush()
    return "real"
"""
    outcome = await box.run(Job(files={"f.py": code}, call=Call("f.py", "f")))
    assert outcome.value == "real"
    assert b"forged" in outcome.stdout


@pytest.mark.spec("BOX-13")
async def test_a_job_imports_the_modules_that_it_names(box: NamespaceSandbox) -> None:
    name, path = "acquired_skills.in_box.effort", "acquired_skills/in_box/effort.py"
    packages = {f"{folder}/__init__.py": b"" for folder in ("acquired_skills", "acquired_skills/in_box")}
    in_box = InBoxModules((name,), {**packages, path: (Path(__file__).parents[2] / path).read_bytes()})
    code = (
        f"import sys\nimport {name}\nmodule = sys.modules[{name!r}]\n"
        "(module.Effort.__name__, getattr(module, '__file__', ''), repr(module.__spec__))"
    )
    outcome = await box.run(Job(code=code, in_box=in_box))
    assert outcome.end is End.OK, outcome.stderr
    assert "Effort" in outcome.value
    assert str(Path(__file__).parents[2]) not in outcome.value


async def test_the_value_of_a_script_is_that_of_its_last_expression(box: NamespaceSandbox) -> None:
    assert (await box.run(Job(code="x = 20\nx * 2 + 2"))).value == 42
    assert (await box.run(Job(code="x = 20"))).value is None
    assert (await box.run(Job(code="object"))).value == "<class 'object'>"


async def test_a_call_that_returns_what_json_cannot_represent_says_what_to_return_instead(
    box: NamespaceSandbox,
) -> None:
    outcome = await box.run(Job(files={"f.py": b"def f():\n    return {1, 2}\n"}, call=Call("f.py", "f")))
    assert outcome.end is End.ERROR
    assert outcome.error is not None
    assert "set" in outcome.error.message
    assert "plain values" in outcome.error.message


async def test_an_exception_comes_back_with_its_own_frames_only(box: NamespaceSandbox) -> None:
    code = "def inner():\n    raise ValueError('no such colour')\n\ndef outer():\n    inner()\n\nouter()\n"
    outcome = await box.run(Job(code=code))
    assert (outcome.end, outcome.exit_code) == (End.ERROR, 1)
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("ValueError", "no such colour")
    assert "inner" in outcome.error.traceback
    assert "worker.py" not in outcome.error.traceback
    assert b"ValueError: no such colour" in outcome.stderr


@pytest.mark.parametrize(
    ("code", "exit_code", "end"),
    [
        ("import sys; sys.exit(3)", 3, End.ERROR),
        ("raise SystemExit", 0, End.OK),
        ("import os; os._exit(4)", 4, End.ERROR),
    ],
)
async def test_exit_codes_are_those_of_the_script(box: NamespaceSandbox, code: str, exit_code: int, end: End) -> None:
    outcome = await box.run(Job(code=code))
    assert (outcome.exit_code, outcome.end) == (exit_code, end)


async def test_a_call_that_leaves_the_process_is_an_error_even_with_exit_code_zero(box: NamespaceSandbox) -> None:
    job = Job(files={"f.py": b"import os\ndef f():\n    os._exit(0)\n"}, call=Call("f.py", "f"))
    outcome = await box.run(job)
    assert outcome.end is End.ERROR
    assert outcome.error is not None
    assert "before its function returned" in outcome.error.message


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        (Language.PYTHON, "import sys; print(sys.stdin.read().upper(), sys.argv[1])"),
        (Language.NODE, "console.log(require('fs').readFileSync(0, 'utf8').toUpperCase(), process.argv[2])"),
        (Language.BASH, 'tr a-z A-Z; echo " $1"'),
    ],
)
async def test_every_language_reads_its_input_and_arguments(
    box: NamespaceSandbox, language: Language, code: str
) -> None:
    outcome = await box.run(Job(language=language, code=code, stdin=b"hello", argv=("there",)))
    assert outcome.end is End.OK, outcome
    assert outcome.stdout.decode().split() == ["HELLO", "there"]


@pytest.mark.spec("BOX-6")
async def test_files_go_in_and_come_out(box: NamespaceSandbox) -> None:
    job = Job(
        language=Language.BASH,
        code="mkdir out; sort data/in.txt > out/sorted.txt",
        files={"data/in.txt": b"b\na\n"},
        collect=("out/sorted.txt", "missing.txt", "../etc/passwd"),
    )
    assert (await box.run(job)).files == {"out/sorted.txt": b"a\nb\n"}


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ""])
async def test_a_file_that_would_leave_the_folder_is_refused_before_anything_runs(
    box: NamespaceSandbox, path: str
) -> None:
    with pytest.raises(SandboxError, match="leaves the job's folder"):
        await box.run(Job(code="1", files={path: b""}))


async def test_each_job_gets_a_fresh_box(box: NamespaceSandbox) -> None:
    await box.run(Job(code="open('/tmp/left', 'w').write('x'); open('left', 'w').write('x')"))
    outcome = await box.run(Job(code="import os; [os.path.exists(p) for p in ('/tmp/left', '/work/left')]"))
    assert outcome.value == [False, False]


async def test_modules_can_be_preloaded(box: NamespaceSandbox) -> None:
    job = Job(code="import sys; 'pandas' in sys.modules", preload=("pandas",))
    assert (await box.run(job)).value is True


@given(chunks=st.lists(st.binary(max_size=40), max_size=30), limit=st.integers(2, 64))
async def test_a_capture_keeps_head_and_tail_and_counts_the_rest(chunks: list[bytes], limit: int) -> None:
    capture, whole = Capture(limit), b"".join(chunks)
    for chunk in chunks:
        capture.feed(chunk)
    kept = capture.value()
    assert capture.seen == len(whole)
    if len(whole) <= limit:
        assert kept == whole
    else:
        assert capture.dropped == len(whole) - limit
        assert kept.startswith(whole[: limit // 2])
        assert kept.endswith(whole[len(whole) - (limit - limit // 2) :])


@pytest.mark.spec("BOX-12")
async def test_output_streams_while_the_job_runs(box: NamespaceSandbox) -> None:
    seen: list[bytes] = []
    code = "import sys\nfor i in range(3):\n    print(i, flush=True)"
    outcome = await box.run(Job(code=code), on_output=lambda _, data: seen.append(data))
    assert b"".join(seen) == outcome.stdout == b"0\n1\n2\n"


async def test_calling_a_function_in_another_language_is_refused(box: NamespaceSandbox) -> None:
    with pytest.raises(SandboxError, match="Only Python functions"):
        await box.run(Job(language=Language.BASH, call=Call("f.sh", "f")))


@pytest.mark.spec("BOX-8")
async def test_random_state_is_fresh_in_every_box(box: NamespaceSandbox) -> None:
    code = "import random, uuid, ssl, numpy\n[random.random(), numpy.random.random(), str(uuid.uuid4()), ssl.RAND_bytes(8).hex()]"
    jobs = [Job(code=code, preload=("numpy", "ssl", "uuid"), limits=Limits(open_files=64)) for _ in range(6)]
    values = [(await box.run(job)).value for job in jobs]
    for column in zip(*values, strict=True):
        assert len(set(column)) == len(jobs)
