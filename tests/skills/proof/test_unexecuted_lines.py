"""Lines that no test executes are named, and mutants in lines that no call executes do not count (SKILL-6, GATE-2)."""

import ast
from dataclasses import replace

import pytest

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.proof.mutation.mutants import make_mutants
from acquired_skills.proof.mutation.probes import make_probes
from acquired_skills.proof.mutation.programs import MutantWriter
from acquired_skills.proof.unexecuted_lines import UnexecutedLine, named_lines, unexecuted_lines
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, proposal

pytestmark = pytest.mark.spec("SKILL-6", "GATE-2")
HEAD = "from add_one import add_one\n\n\n"
WEAK = HEAD + "def test_adds():\n    assert add_one(1) == 2\n"
ENOUGH = WEAK + "\n\ndef test_more():\n    assert (add_one(0), add_one(-4), add_one(9)) == (1, -3, 10)\n"
PROBED = """class Box:
    size = 1

    def fill(self, number, most=2):
        if number > 3:
            return [each + 1 for each in range(number)]
        elif number == 2:
            total = number * 2
        for each in range(number):
            total = each + 1; more = 2
        while number > 9: number -= 1
        try:
            number = int("3" + "4")
        except (ValueError, KeyError):
            number += 1
        return (
            number
            + most
        )
"""


def test_a_probe_ends_the_process_at_one_place_and_keeps_the_numbers_of_the_lines() -> None:
    source = ParsedSource.parse(PROBED)
    writer = MutantWriter(source)
    probes = make_probes(dict(enumerate(make_mutants(source.tree, 1000, 1))), {"": source.tree})
    before = ast.dump(source.tree)
    written = {}
    for probe in probes:
        text = writer.changed(probe.change)
        assert text is not None
        assert text.count("\n") == PROBED.count("\n")
        changed = [
            n for n, pair in enumerate(zip(PROBED.split("\n"), text.split("\n"), strict=True), 1) if pair[0] != pair[1]
        ]
        assert changed[0] == probe.change.line
        written.setdefault(probe.change.line, []).append(text.split("\n")[probe.change.line - 1].strip())
    assert ast.dump(source.tree) == before
    end = "__import__('os')._exit(1)"
    assert written[5] == [f"if {end}:"]
    assert written[7] == [f"elif {end}:"]
    assert written[9] == [f"for each in {end}:"]
    assert sorted(written[10]) == [f"total = each + 1; {end}", f"{end}; more = 2"] or sorted(written[10]) == [
        f"{end}; more = 2",
        f"total = each + 1; {end}",
    ]
    assert written[16] == [end]
    assert {probe.function for probe in probes} == {"Box", "Box.fill"}


def test_a_line_is_unexecuted_only_if_the_code_always_answers_the_calls_of_the_tests_in_the_same_way() -> None:
    source = ParsedSource.parse("def f(number):\n    return number + 1\n")
    probes = make_probes(dict(enumerate(make_mutants(source.tree, 9, 1))), {"": source.tree})
    (line,) = unexecuted_lines(probes, {0: {}}, tested=[1], answered=[0, 1])
    assert (line.line, line.function, line.by_any) == (2, "f", False)
    assert unexecuted_lines(probes, {0: {}}, tested=[1, 2], answered=[0, 1]) == ()
    (line,) = unexecuted_lines(probes, {0: {0: {"ended": True}}}, tested=[1], answered=[0, 1])
    assert line.by_any
    assert unexecuted_lines(probes, {0: {1: {"ended": True}}}, tested=[1], answered=[0, 1]) == ()
    assert unexecuted_lines(probes, {0: None}, tested=[1], answered=[0, 1]) == ()
    assert unexecuted_lines(probes, {}, tested=[1], answered=[0, 1]) == ()  # there was no time for the probe


def test_lines_that_follow_each_other_are_named_together() -> None:
    lines = [UnexecutedLine(line, "", "_helper", (line,), by_any=False) for line in (12, 13, 14, 20)]
    lines.append(UnexecutedLine(3, "rates.py", "", (9,), by_any=False))
    assert named_lines(lines) == "lines 12 to 14 (`_helper`), line 20 (`_helper`), line 3 of rates.py"
    many = [UnexecutedLine(2 * n, "", "", (n,), by_any=False) for n in range(1, 12)]
    assert named_lines(many).endswith("line 16 and 3 more")


@pytest.mark.asyncio(loop_scope="module")
class TestAtTheGate:
    async def test_the_refusal_names_a_line_that_no_test_executes(self, box: NamespaceSandbox) -> None:
        body = "if number > 100:\n        number = 100 - 1\n    return number + 1"
        with pytest.raises(SkillRefused, match=r"No test executes line \d+ \(`add_one`\)\.") as refused:
            await admit(ParsedProposal.parse(proposal(body=body, tests=WEAK)), box, seed=1, effort=UNHURRIED)
        assert any(question.arguments["number"] > 100 for question in refused.value.questions)

    async def test_code_that_no_call_executes_does_not_count_and_is_named_in_the_report(
        self, box: NamespaceSandbox
    ) -> None:
        made = proposal(body="total = number + 2\n    return total - 1", tests=ENOUGH)
        unused = "def _unused(number: int) -> int:\n    return number * 3\n\n\n"
        code = ParsedProposal.parse(replace(made, code=unused + made.code))
        admitted = await admit(code, box, seed=1, effort=UNHURRIED)
        (note,) = [each for each in report_notes(admitted.report) if "executes" in each]
        assert "executes line 2 (`_unused`), so this code is not proved" in note
        assert admitted.report["mutants"]["never_executed"] > 0

    async def test_most_of_the_code_cannot_be_left_out(self, box: NamespaceSandbox) -> None:
        made = proposal(tests=ENOUGH)
        unused = "def _unused(number: int) -> int:\n    if number > 3:\n        return number * 3 + 4\n    return number - 1\n\n\n"
        with pytest.raises(SkillRefused, match=r"No test executes lines 2 to 4 \(`_unused`\)\."):
            await admit(ParsedProposal.parse(replace(made, code=unused + made.code)), box, seed=1, effort=UNHURRIED)

    async def test_code_executed_while_it_is_loaded_is_never_called_unexecuted(self, box: NamespaceSandbox) -> None:
        code = proposal(body="return number + STEP[0]", tests=WEAK)
        code = replace(code, code=code.code.replace("def add_one", "STEP = [1, 20 * 3]\n\n\ndef add_one", 1))
        with pytest.raises(SkillRefused) as refused:
            await admit(ParsedProposal.parse(code), box, seed=1, effort=UNHURRIED)
        assert "No test executes" not in str(refused.value)
