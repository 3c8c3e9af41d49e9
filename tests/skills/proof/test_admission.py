"""Real admissions in real boxes."""

from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.admission_report import report_notes
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-1")]
QUICK = Effort(
    stub_test_s=0.5, test_s=1.0, total_s=20.0, enough=0.66, calls=0, every_gap=False
)  # asks nothing where the tests prove enough
HEAD = "import os, sys\nimport pytest\nfrom add_one import add_one\n\n"
SOUND = "def test_adds():\n    assert add_one(1) == 2\n"


async def refusal(box: NamespaceSandbox, offered: Proposal, earlier: str | None = None) -> str:
    with pytest.raises(SkillRefused) as refused:
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=QUICK, earlier_tests=earlier)
    return str(refused.value)


async def admitted(box: NamespaceSandbox, offered: Proposal, earlier: str | None = None) -> Admission:
    return await admit(ParsedProposal.parse(offered), box, seed=1, effort=QUICK, earlier_tests=earlier)


@pytest.mark.spec("SKILL-3", "SKILL-4", "SKILL-5")
async def test_a_proved_skill_is_admitted(box: NamespaceSandbox) -> None:
    found = await admitted(box, proposal())
    assert found.tests == 1
    assert found.plain
    assert found.parameters == {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "to add to."}},
        "required": ["number"],
        "additionalProperties": False,
    }
    assert found.report["red"] == {"test_adds": ["kind", "none", "raises", "sentinel"]}
    assert found.report["green_runs"] >= 2
    assert found.report["replayed"] == 1


RED = {
    "always true": "def test_nothing():\n    assert True\n",
    "module level": "KEPT = add_one(1)\n\ndef test_nothing():\n    assert KEPT == 2\n",
    "swallows": "def test_nothing():\n    try:\n        assert add_one(1) == 2\n    except BaseException:\n        pass\n",
    "any result will do": "def test_nothing():\n    try:\n        add_one(1)\n    except NotImplementedError:\n        pass\n",
    "only that it is there": "def test_nothing():\n    assert callable(add_one) and add_one.__doc__\n",
    "reads the file instead": (
        "def test_nothing():\n    import runpy\n    path = sys.modules['add_one'].__file__\n"
        "    assert runpy.run_path(path)['add_one'](1) == 2\n"
    ),
}


@pytest.mark.spec("SKILL-4")
@pytest.mark.parametrize("tests", RED.values(), ids=RED.keys())
async def test_a_test_that_proves_nothing_is_named_and_refused(box: NamespaceSandbox, tests: str) -> None:
    text = await refusal(box, proposal(tests=HEAD + SOUND + "\n\n" + tests))
    assert "[red] test_nothing proves nothing" in text
    assert "test_adds" not in text


GREEN = {
    "wrong": ("def test_bad():\n    assert add_one(1) == 3\n", "assert 2 == 3"),
    "skipped": (
        "@pytest.mark.skip\ndef test_bad():\n    assert add_one(1) == 2\n",
        "is skipped. Remove its `skip` mark",
    ),
    "expected to fail": ("@pytest.mark.xfail\ndef test_bad():\n    assert add_one(1) == 3\n", "(xfail)"),
    "passes against expectation": ("@pytest.mark.xfail\ndef test_bad():\n    assert add_one(1) == 2\n", "(xfail)"),
    "exits": (
        "def test_bad():\n    if add_one(1) == 2:\n        os._exit(0)\n",
        "ends its process (exited with status 0)",
    ),
    "pytest.exit": ("def test_bad():\n    if add_one(1) == 2:\n        pytest.exit('done', 0)\n", "test_bad"),
    "sys.exit": ("def test_bad():\n    if add_one(1) == 2:\n        sys.exit(0)\n", "test_bad fails"),
    "kills itself": ("def test_bad():\n    if add_one(1) == 2:\n        os.kill(os.getpid(), 9)\n", "SIGKILL"),
    "hangs": ("def test_bad():\n    while add_one(1) == 2:\n        pass\n", "test_bad takes too long"),
    "no such fixture": ("def test_bad(nothing):\n    assert add_one(1) == 2\n", "fixture 'nothing' not found"),
    "tear-down fails": (
        "@pytest.fixture\ndef broken():\n    yield\n    assert add_one(1) == 3\n\ndef test_bad(broken):\n"
        "    assert add_one(1) == 2\n",
        "assert 2 == 3",
    ),
}


@pytest.mark.spec("SKILL-5")
@pytest.mark.parametrize(("tests", "says"), GREEN.values(), ids=GREEN.keys())
async def test_a_test_that_does_not_pass_is_named_and_refused(box: NamespaceSandbox, tests: str, says: str) -> None:
    text = await refusal(box, proposal(tests=HEAD + tests + "\n\n" + SOUND))
    assert "[green] test_bad" in text
    assert says in text
    assert "test_adds" not in text


@pytest.mark.spec("SKILL-5")
async def test_tests_that_depend_on_their_order_are_refused(box: NamespaceSandbox) -> None:
    bodies = "".join(
        f"def test_{i}():\n    assert add_one(len(SEEN)) == {i} + 1\n    SEEN.append(1)\n\n" for i in range(6)
    )
    text = await refusal(box, proposal(tests=HEAD + "SEEN = []\n\n" + bodies))
    assert "fails alone, but passes when several other tests run before it" in text
    assert "set up everything that it needs" in text


@pytest.mark.spec("SKILL-5")
async def test_a_test_that_another_one_breaks_is_refused_with_the_name_of_both(box: NamespaceSandbox) -> None:
    counts = "def test_{0}():\n    SEEN.append(1)\n    assert add_one({0}) == {0} + 1\n\n"
    empty = "def test_first():\n    assert add_one(len(SEEN)) == 1\n\n"
    tests = HEAD + "SEEN = []\n\n" + empty + "def test_other():\n    assert add_one(5) == 6\n\n" + counts.format(3)
    text = await refusal(box, proposal(tests=tests))
    assert "[green] test_first passes alone, but fails when test_3 runs before it" in text
    assert "These tests share state" in text
    assert "test_other" not in text


@pytest.mark.spec("SKILL-5")
async def test_a_test_that_passes_only_sometimes_is_refused(box: NamespaceSandbox) -> None:
    once = HEAD + (
        "def test_bad():\n    assert add_one(1) == 2\n    first = not os.path.exists('/tmp/seen')\n"
        "    open('/tmp/seen', 'w').close()\n    assert first\n"
    )
    text = await refusal(box, proposal(tests=once))
    assert "the second time, in another order" in text


BROKEN = {
    "no test": (HEAD + "class TestNothing:\n    __test__ = False\n    def test_x(self): ...\n", "collects no test"),
    "cannot be collected": (HEAD + "from add_one import missing\n\n" + SOUND, "cannot import name 'missing'"),
    "raises": (HEAD + "1 / 0\n\n" + SOUND, "ZeroDivisionError"),
    "exits while collected": (HEAD + "os._exit(0)\n\n" + SOUND, "exited with status 0 while pytest collected"),
    "ends pytest": (HEAD + "pytest.exit('done', 0)\n\n" + SOUND, "Exit: done"),
    "skips itself": (HEAD + "pytest.skip('x', allow_module_level=True)\n\n" + SOUND, "skips itself"),
    "cannot be compiled": (HEAD + SOUND + "\n\nreturn 1\n", "SyntaxError"),
}


@pytest.mark.parametrize(("tests", "says"), BROKEN.values(), ids=BROKEN.keys())
async def test_tests_that_cannot_be_collected_are_refused_with_the_error(
    box: NamespaceSandbox, tests: str, says: str
) -> None:
    text = await refusal(box, proposal(tests=tests))
    assert says in text
    assert "[tests]" in text


IMPORTS = {
    "raises": ("1 / 0\n", "ZeroDivisionError"),
    "exits": ("import os\nos._exit(0)\n", "exited with status 0 while the code was imported"),
    "sys.exit": ("raise SystemExit(0)\n", "SystemExit"),
    "not a function": ("", "is a int after the import"),
    "missing library": ("import no_such_library\n", "No module named 'no_such_library'"),
}


@pytest.mark.parametrize(("line", "says"), IMPORTS.values(), ids=IMPORTS.keys())
async def test_code_that_cannot_be_imported_is_refused(box: NamespaceSandbox, line: str, says: str) -> None:
    tail = "" if line else "\nadd_one = 1\n"
    text = await refusal(box, proposal(code=line + proposal().code + tail))
    assert "[code]" in text
    assert says in text


@pytest.mark.spec("SKILL-3")
async def test_a_signature_that_json_cannot_describe_is_refused_by_parameter(box: NamespaceSandbox) -> None:
    code = proposal().code.replace("number: int", "number: 'threading.Thread'")
    text = await refusal(box, proposal(code=f"import threading\n{code}"))
    assert "[schema]" in text
    assert "parameter `number` has the type Thread" in text
    assert "[schema]" in await refusal(box, proposal(code=proposal().code.replace("number: int", "number: 'Nowhere'")))


@pytest.mark.spec("SKILL-5")
async def test_code_that_never_ends_is_refused_within_the_limits(box: NamespaceSandbox) -> None:
    text = await refusal(box, proposal(body="while True: pass"))
    assert "test_adds takes too long" in text
    with pytest.raises(SkillRefused, match="The time limit was reached while the code was imported"):
        await admit(
            ParsedProposal.parse(proposal(code="while True: pass\n" + proposal().code)),
            box,
            seed=1,
            effort=Effort(0.2, 0.2, 1.0),
        )


async def test_a_result_that_json_cannot_represent_is_refused_at_admission(box: NamespaceSandbox) -> None:
    tests = "from add_one import add_one\n\ndef test_x():\n    assert add_one(1)[0] == 2\n"
    assert "result[1]" in await refusal(box, proposal(body="return [number + 1, object()]", tests=tests))


@pytest.mark.spec("SKILL-1", "BOX-5")
async def test_a_proposal_touches_nothing_outside_its_box(box: NamespaceSandbox, tmp_path: Path) -> None:
    reach = f"open({str(tmp_path / 'escaped')!r}, 'w')\n"
    assert "[code]" in await refusal(box, proposal(code=reach + proposal().code))
    assert list(tmp_path.iterdir()) == []


async def test_a_planted_conftest_changes_nothing(box: NamespaceSandbox) -> None:
    plant = (
        "import pathlib\n"
        "for folder in ('.', '..', '../skill'):\n"
        "    pathlib.Path(folder, 'conftest.py').write_text('def pytest_runtest_setup(item): item.obj = lambda: None')\n"
    )
    text = await refusal(
        box,
        proposal(code=plant + proposal().code, body="", tests=HEAD + "def test_bad():\n    assert add_one(1) == 3\n"),
    )
    assert "[green] test_bad fails" in text


async def test_recursion_fixtures_parameters_patches_and_classes_work_as_usual(box: NamespaceSandbox) -> None:
    code = (
        "import math\n\n_STEP = 1\n\n\ndef _step() -> int:\n    return _STEP\n\n\n"
        "def add_one(number: int) -> int:\n    'Add one, by way of many.'\n"
        "    return _step() if number == 0 else add_one(number - 1) + 1\n"
    )
    tests = (
        "import pytest\nimport add_one as module\nfrom add_one import add_one\n\n\n@pytest.fixture\ndef three():\n    return 3\n\n\n"
        "def test_fixture(three, tmp_path, capsys):\n    print(add_one(three))\n    assert capsys.readouterr().out == '4\\n'\n\n\n"
        "@pytest.mark.parametrize('n', [0, 5, 150])\ndef test_many(n):\n    assert add_one(n) == n + 1\n\n\n"
        "def test_patched(monkeypatch):\n    monkeypatch.setattr(module, '_STEP', 2)\n    assert add_one(300) == 302\n\n\n"
        "class TestInside:\n    def test_method(self):\n        assert module.add_one(7) == 8\n\n\n"
        "def test_refuses():\n    with pytest.raises(TypeError):\n        add_one('x')\n"
    )
    found = await admitted(box, proposal(code=code, tests=tests))
    assert found.tests == 7


@pytest.mark.spec("SKILL-5")
async def test_a_new_version_must_pass_the_earlier_tests_too(box: NamespaceSandbox) -> None:
    changed = proposal(body="return number + 2", tests=HEAD + "def test_adds_two():\n    assert add_one(1) == 3\n")
    text = await refusal(box, changed, earlier=proposal().tests)
    assert "test_adds (a test of the earlier version" in text
    same = proposal(tests=HEAD + "def test_more():\n    assert add_one(2) == 3\n")
    assert (await admitted(box, same, earlier=proposal().tests)).tests == 2


@pytest.mark.spec("SKILL-3")
async def test_a_forged_schema_that_would_take_forever_to_validate_is_refused(box: NamespaceSandbox) -> None:
    bomb = (
        'exec(\'import pydantic\\n_D = {"a0": {"type": "object"}}\\nfor _i in range(1, 13):\\n'
        '    _D[f"a{_i}"] = {"allOf": [{"$ref": f"#/$defs/a{_i - 1}"}] * 8}\\n'
        'pydantic.BaseModel.model_json_schema = classmethod(lambda cls, **_: {"type": "object", '
        '"properties": {"number": {"type": "integer"}}, "$defs": dict(_D), '
        '"allOf": [{"$ref": "#/$defs/a12"}]})\')\n\n\n'
    )
    text = await refusal(box, replace(proposal(), code=bomb + proposal().code))
    assert "[schema] The JSON Schema of the signature cannot be used: " in text


@pytest.mark.spec("SKILL-6", "GATE-2")
async def test_a_skill_that_declares_a_server_is_marked_because_its_tests_were_not_weighed(
    box: NamespaceSandbox,
) -> None:
    offered = proposal()
    block = '# /// script\n# [tool.knackbox]\n# destinations = ["api.example.com:443"]\n# ///\n'
    plain, connecting = await admitted(box, offered), await admitted(box, replace(offered, code=block + offered.code))
    assert not any("connects to a server" in note for note in report_notes(plain.report))
    assert any("connects to a server" in note for note in report_notes(connecting.report))
