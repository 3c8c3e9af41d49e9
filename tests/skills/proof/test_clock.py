"""Tests of a skill can fix the time that its code reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box import fixed_clock
from acquired_skills.model.parsed import ParsedSource
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.clock_calls import clock_calls, reads_clock
from acquired_skills.proof.static_checks import check
from sandbox.bridge.in_box import knackbox_clock
from sandbox.contract import Call, Job
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-6")]
CODE = '''from datetime import date, datetime
from time import time


def greeting(name: str) -> str:
    """Greet somebody by the time of the day.

    Args:
        name: who is greeted.
    """
    now = datetime.now()
    if now.hour < 12:
        return f"Good morning, {name}"
    return f"Good day, {name}, of {date.today()}, {int(time())}"
'''
TESTS = """from greeting import greeting


def test_morning(clock):
    clock("2026-03-01T09:30")
    assert greeting("Ann") == "Good morning, Ann"
    clock("2026-03-01T11:59:59")
    assert greeting("Bob") == "Good morning, Bob"


def test_day(clock):
    clock("2026-03-01T12:00")
    assert greeting("Ann") == "Good day, Ann, of 2026-03-01, 1772366400"
    assert greeting("Bob") == "Good day, Bob, of 2026-03-01, 1772366400"
"""


def greeter(tests: str = TESTS, code: str = CODE) -> Proposal:
    return Proposal("greeting", "Greets somebody by the time of the day.", code, tests)


async def proposed(box: NamespaceSandbox, given: Proposal) -> Admission | SkillRefused:
    try:
        return await admit(check(given, frozenset()), box, seed=1, effort=UNHURRIED)
    except SkillRefused as refused:
        return refused


async def test_a_skill_that_reads_the_clock_is_admitted_when_its_tests_fix_it(box: NamespaceSandbox) -> None:
    found = await proposed(box, greeter())
    assert isinstance(found, Admission), str(found)
    assert found.report["mutants"]["killed"] >= 2
    assert found.report["green_runs"] >= 2


async def test_mutants_answer_at_the_fixed_time_and_at_others(box: NamespaceSandbox) -> None:
    """A mutant of the hour differs only at noon, which these tests leave out."""
    found = await proposed(box, greeter(TESTS.replace("T12:00", "T18:00").replace("1772366400", "1772388000")))
    lines = str(found) if isinstance(found, SkillRefused) else str(found.report["mutants"]["survived"])
    assert "now.hour < 12" in lines
    assert "now.hour <= 12" in lines


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(
            "from greeting import greeting\n\n\ndef test_it():\n    assert greeting('Ann') == 'Good day, Ann, of 2001'\n",
            id="real_time",
        ),
        pytest.param(
            "import greeting as module\nfrom greeting import greeting\n\n\ndef test_it(monkeypatch):\n"
            "    monkeypatch.setattr(module, 'time', lambda: 3)\n    assert greeting('Ann')[:4] == 'Good'\n",
            id="patched",
        ),
    ],
)
async def test_a_refusal_suggests_the_fixed_clock(box: NamespaceSandbox, tests: str) -> None:
    found = await proposed(box, greeter(tests))
    assert isinstance(found, SkillRefused)
    assert 'clock("2026-03-01T09:30")' in str(found)


async def test_a_result_with_elapsed_time_is_refused_with_what_to_do(box: NamespaceSandbox) -> None:
    code = CODE.replace("from time import time", "from time import perf_counter as time").replace("int(", "(")
    found = await proposed(box, greeter(code=code))
    assert isinstance(found, SkillRefused)
    assert "elapsed time" in str(found)


async def test_a_wrong_result_at_a_fixed_time_is_refused(box: NamespaceSandbox) -> None:
    found = await proposed(box, greeter(code=CODE.replace("now.hour < 12", "now.hour < 10")))
    assert isinstance(found, SkillRefused)
    assert "test_morning fails" in str(found)


async def test_without_a_test_that_fixes_it_the_clock_of_a_box_is_real(box: NamespaceSandbox) -> None:
    """Otherwise code could distinguish admission from an agent's call."""
    code = (
        "import time\n\n\ndef greeting(name: str) -> str:\n    '''Greet.\n\n    Args:\n        name: who.\n    '''\n"
        "    return name + type(time.time).__name__\n"
    )
    tests = "from greeting import greeting\n\n\ndef test_it():\n" + "".join(
        f"    assert greeting('{name}') == '{name}builtin_function_or_method'\n" for name in ("a", "", "ccc")
    )
    assert isinstance(await proposed(box, greeter(tests, code)), Admission)


async def test_every_function_of_the_wall_clock_reads_the_fixed_time(box: NamespaceSandbox) -> None:
    source = (
        "import datetime as dt\nimport time\nfrom acquired_skills.in_box.fixed_clock import FixedClock\n\n\n"
        "def read():\n    class Own(dt.datetime):\n        pass\n\n    clock = FixedClock()\n    clock.install()\n"
        "    clock.fix('2026-03-01T12:00:00+00:00')\n"
        "    own = type(Own.now()) is Own and type(dt.datetime.now()) is dt.datetime\n"
        "    found = [dt.datetime.now(dt.UTC), dt.datetime.utcnow(), dt.datetime.today(), dt.date.today(), time.time(),\n"
        "             time.time_ns(), time.strftime('%Y-%m-%d'), time.gmtime().tm_hour, time.localtime().tm_year]\n"
        "    clock.release()\n    return [*map(str, found), own, time.time() > 1772366400 and time.monotonic() > 0]\n"
    )
    files = {"read.py": source.encode(), "acquired_skills/__init__.py": b"", "acquired_skills/in_box/__init__.py": b""}
    for module in (fixed_clock, knackbox_clock):
        files[f"{module.__name__.replace('.', '/')}.py"] = Path(module.__file__).read_bytes()
    outcome = await box.run(Job(call=Call("read.py", "read", {}), files=files))
    assert outcome.ok, outcome
    *texts, own, real = outcome.value
    assert own
    assert real
    assert texts[0] == "2026-03-01 12:00:00+00:00"
    assert texts[4:6] == ["1772366400.0", "1772366400000000000"]
    assert all(text.startswith("2026-03-01") for text in (*texts[:4], texts[6]))
    assert texts[7:] == ["12", "2026"]


async def test_calls_at_other_times_include_those_of_other_tests_and_bounds_of_the_day() -> None:
    calls = [{"arguments": [], "named": {}, "clock": f"2026-03-0{day}T09:30:00+00:00"} for day in (1, 2)]
    times = {str(each["clock"]) for each in clock_calls(calls, 100)}
    assert {"2026-03-01T00:00:00+00:00", "2026-03-01T12:00:00+00:00", "2026-12-31T00:00:00+00:00"} <= times
    assert clock_calls([{"arguments": [1], "named": {}}], 100) == []
    assert clock_calls([{**calls[0], "clock": "no time"}], 100) == []


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("import datetime\ndatetime.datetime.now()", True),
        ("from datetime import date\ndate.today()", True),
        ("from time import time_ns\ntime_ns()", True),
        ("import time\ntime.strftime('%Y')", True),
        ("import time\ntime.sleep(1)", False),
        ("def now(): return 1", False),
    ],
)
async def test_code_that_reads_the_clock_is_recognised(source: str, reads: bool) -> None:
    assert reads_clock(ParsedSource.parse(source)) is reads


async def test_docstring_examples_of_code_that_reads_the_clock_do_not_become_tests(box: NamespaceSandbox) -> None:
    code = CODE.replace("    Args:", "    >>> greeting('Ann')\n    'Good morning, Ann'\n\n    Args:")
    assert isinstance(await proposed(box, replace(greeter(), code=code)), Admission)
