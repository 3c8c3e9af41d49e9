"""The forms in which a Node skill may export its function, and what is read from its parameters."""

from dataclasses import replace

import pytest

from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.programs.program_checks import check_program
from acquired_skills.proof.programs.program_language import NodePrograms, constants_of
from tests.skills.programs.parts import SLUG, node

pytestmark = pytest.mark.spec("SKILL-22")
COMMENT = "/**\n * Double.\n * @param {number} amount - A number.\n * @param {number} times - How often.\n */\n"


@pytest.mark.parametrize(
    "code",
    [
        COMMENT + "export function double_it(amount, times) { return 2 * amount; }\n",
        COMMENT + "export const double_it = (amount, times) => 2 * amount;\n",
        COMMENT + "export const doubleIt = async (amount, times) => 2 * amount;\n",
        COMMENT
        + "const twice = (amount, times) => 2 * amount;\n\ntwice.half = (a) => a / 2;\n\nexport default twice;\n",
        COMMENT + "const twice = function (amount, times) { return 2 * amount; };\nexport default twice\n",
        COMMENT + "function twice(amount, times) { return 2 * amount; }\n\nexport default twice;\n",
        COMMENT + "export default async function (amount, times) { return 2 * amount; }\n",
    ],
)
def test_a_function_may_be_a_constant_or_exported_by_its_name(code: str) -> None:
    found = NodePrograms().interface("double_it", code)
    assert (found.problems, found.names) == ((), ["amount", "times"])
    assert found.parameters["required"] == ["amount", "times"]


def test_a_parameter_with_a_default_in_the_code_is_optional() -> None:
    code = COMMENT + "export function double_it(amount, times = 1) { return 2 * amount; }\n"
    assert NodePrograms().interface("double_it", code).parameters["required"] == ["amount"]


def test_a_constant_that_is_not_exported_is_no_skill() -> None:
    (problem,) = NodePrograms().interface("double_it", COMMENT + "const double_it = (amount, times) => 2;\n").problems
    assert "exports no function" in problem


def test_texts_in_comments_are_not_among_the_constants_of_a_program() -> None:
    code = "/** `one` is 'two' */\n// \"three\" 3\nconst four = 'five'; // and\n# \"six\" 6\n"
    assert constants_of(code) == ["five"]


def test_a_file_that_is_imported_but_not_passed_is_named() -> None:
    offered = node("import en from './locale/en.mjs';\n\n" + SLUG)
    with pytest.raises(SkillRefused, match=r"It imports `./locale/en.mjs`, which is not among its files"):
        check_program(offered, frozenset())
    check_program(replace(offered, files={"locale/en.mjs": "export default 1;\n"}), frozenset())
