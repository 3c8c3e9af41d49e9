"""The forms in which a Node skill may export its function, and what is read from its parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.programs.doc_comments import UndescribedFunction
from acquired_skills.proof.programs.node_exports import exported_function
from acquired_skills.proof.programs.program_checks import check_program
from acquired_skills.proof.programs.program_language import NodePrograms, constants_of
from acquired_skills.proof.programs.suggested_comment import suggested_comment
from tests.skills.programs.parts import SLUG, node

pytestmark = pytest.mark.spec("SKILL-22")
COMMENT = "/**\n * Double.\n * @param {number} amount - A number.\n * @param {number} times - How often.\n */\n"
EXPECTED = """/**
 * @param {string} text
 * @param {object} [options]
 * @param {number} [options.size]
 * @param {(integer | string)[]} [options.ends]
 * @returns {(string | null)[] | null}
 */"""


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


@pytest.mark.parametrize(
    "code",
    [
        COMMENT + "module.exports = function (amount, times) { return 2 * amount; };\n",
        COMMENT + "module.exports = exports = function twice(amount, times) { return 2 * amount; };\n",
        "module.exports = twice\nmodule.exports.other = 1\n" + COMMENT + "function twice(amount, times) {}\n",
        COMMENT + "module.exports.doubleIt = async (amount, times) => 2 * amount;\n",
        "const other = 1;\n"
        + COMMENT
        + "function double_it(amount, times) {}\nmodule.exports = { other, double_it };\n",
        COMMENT + "const twice = (amount, times) => 1;\nmodule.exports = {\n  double_it: twice,\n  b: 2 };\n",
        "module.exports = (function () {\n  " + COMMENT + "  function doubleIt(amount, times) {}\n"
        "  return { doubleIt };\n}());\n",
        COMMENT + "function twice(amount, times) {}\nexport { other, twice as double_it };\n",
        COMMENT + "function doubleIt(amount, times) {}\nexport { doubleIt };\n",
        COMMENT + "const twice = make();\nexport default twice;\n",
        COMMENT + "module.exports = make(1);\n",
        "export default make({});\n" + COMMENT.replace(" * Double.", " * @function doubleIt"),
    ],
)
def test_the_function_and_its_comment_are_found_in_other_forms(code: str) -> None:
    found = NodePrograms().interface("double_it", code)
    assert (found.problems, found.names) == ((), ["amount", "times"])


def test_an_export_of_the_name_comes_before_the_default_export() -> None:
    code = "/** @param {string} x */\nexport default function other(x) {}\n" + COMMENT
    code += "export const double_it = (amount, times) => 1;\n/** @param {string} y */\nexport function doubleIt(y) {}\n"
    assert NodePrograms().interface("double_it", code).names == ["amount", "times"]


def test_a_comment_without_tags_describes_no_function_with_parameters() -> None:
    code = "/** Doubles. */\nexport default function (amount, times) {}\n"
    found = NodePrograms().interface("double_it", code)
    assert "has no `@param` line for its parameters (amount, times)" in found.problems[0]


def test_the_comment_may_leave_out_parameters_at_the_end() -> None:
    code = "/** @param {number} amount */\nexport function double_it(amount, times) {}\n"
    found = NodePrograms().interface("double_it", code)
    assert (found.problems, found.names) == ((), ["amount"])
    (problem,) = NodePrograms().interface("double_it", code.replace("amount, times", "times, amount")).problems
    assert "in the same order: (amount). In the code they are (times, amount)" in problem


def test_a_single_parameter_of_an_arrow_function_needs_no_parentheses() -> None:
    code = "/**\n * @param {number} amount\n */\nexport default amount => 2 * amount;\n"
    assert NodePrograms().interface("double_it", code).names == ["amount"]


def test_a_destructured_parameter_with_a_default_is_optional() -> None:
    code = "/**\n * @param {object} options\n */\nexport default function ({ times = 2 } = {}) {}\n"
    assert NodePrograms().interface("double_it", code).parameters["required"] == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "const twice = (...items) => items;\nexport default twice;\n",
            "`...items`), but the arguments of a tool have",
        ),
        (
            "function twice(first, ...rest) {}\nmodule.exports = twice;\n",
            "`export function double_it(first, rest) { return twice(first, ...rest); }`",
        ),
        ("export function double_it(...items) {}\n", "Let `items` be a list: remove the `...`"),
        ("export default class {}\n", "No function `double_it` can be found in what the code exports"),
        ("const a = 1;\n", "The code exports no function `double_it`"),
    ],
)
def test_a_refusal_says_how_to_export_a_function_with_named_arguments(code: str, says: str) -> None:
    (problem,) = NodePrograms().interface("double_it", code).problems
    assert says in problem


@given(st.text(alphabet="exports.=module{}()=>,'\n /*afunction default", max_size=80))
def test_any_text_can_be_searched_for_an_exported_function(code: str) -> None:
    exported_function(["double_it", "doubleIt"], code)


def test_texts_that_are_no_likely_arguments_are_not_among_the_constants_of_a_program() -> None:
    code = (
        "'use strict';\nconst a = require('b');\nif (typeof a === 'string') throw new TypeError(\n  'Expected ' + 'a number'\n);\n"
        "throw 'six';\nreturn `is ${a}` + '-';\n"
    )
    assert constants_of(code) == ["-"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("export default function (text, { size } = {}) {}\n", EXPECTED),
        ("/** Cuts. */\nexport default function (text, options) {}\n", EXPECTED),
        ("/** @param text */\nexport default function (text, options) {}\n", EXPECTED),
        ("module.exports = make();\n", EXPECTED.replace("/**", "/**\n * @function cutText")),
    ],
)
def test_a_missing_comment_is_written_according_to_the_cases(code: str, says: str) -> None:
    cases = [
        {"arguments": {"text": "abc", "options": {"size": 2}}, "result": ["ab", None]},
        {"arguments": {"text": "abc"}, "result": None},
        {"arguments": {"text": "abc", "options": {"size": 1.5, "ends": [1, "a"]}}, "raises": "RangeError"},
    ]
    with pytest.raises(SkillRefused) as refused:
        check_program(node(code, cases, "cut_text"), frozenset())
    assert f"correct it where it is wrong:\n{says}" in str(refused.value)


def test_a_suggested_comment_describes_data_as_any_object_and_leaves_out_what_no_case_passes() -> None:
    function = UndescribedFunction(("target", "options"))
    calls = [{"target": {"a": [1]}}, {"target": {"b": {"c": "x"}}}, {"target": {}}]
    cases = [Prediction(call, {"result": 1}) for call in calls]
    assert suggested_comment(function, cases) == "/**\n * @param {object} target\n * @returns {integer}\n */"
    cases = [Prediction({"target": {"size": size, **more}}, {}) for size, more in ((1, {}), (2, {"ends": "x"}))]
    assert " * @param {integer} [target.size]\n * @param {string} [target.ends]\n" in suggested_comment(function, cases)


@pytest.mark.parametrize(
    ("start", "files", "says"),
    [
        ("import en from './locale/en.mjs';\n", {}, "It imports `./locale/en.mjs`, which is not among its files"),
        ("import en from './locale/en.mjs';\n", {"locale/en.mjs": "export default 1;\n"}, ""),
        ("const en = require('./locale/en');\n", {}, "It imports `./locale/en`, which is not among its files"),
        ("const en = require('./locale/en');\n", {"locale/en.json": "{}"}, ""),
        ("const en = require('./locale');\n", {"locale/index.js": ""}, ""),
        ("import './a.js';\n", {"a.js": "import '../b.js';\n"}, "`a.js` imports `../b.js`, which is not among"),
        ("import './x/a.js';\n", {"x/a.js": "import '../b.js';\n", "b.js": ""}, ""),
        ("const pad = require('pad-left');\n", {}, "It imports `pad-left`, but packages cannot be installed"),
        ("const pad = require('pad-left');\n", {"node_modules/pad-left/index.js": ""}, ""),
        ("import pad from 'pad-left';\n", {}, "such as `node_modules/pad-left/index.js`"),
        ("import pad from 'pad-left/lib/x.js';\n", {"node_modules/pad-left/lib/x.js": ""}, ""),
        ("import pad from '@a/pad';\n", {}, "Send the module in `files` and import it as `./<name>.mjs`"),
        ("import { join } from 'path';\nimport fs from 'fs/promises';\nimport url from 'node:url';\n", {}, ""),
        ("// const pad = require('pad-left');\n", {}, ""),
    ],
)
def test_an_import_that_no_file_answers_is_named(start: str, files: dict[str, str], says: str) -> None:
    offered = node(start + SLUG.replace("export function", "export default function"), files=files)
    if not says:
        check_program(offered, frozenset())
        return
    with pytest.raises(SkillRefused) as refused:
        check_program(offered, frozenset())
    assert says in str(refused.value)
