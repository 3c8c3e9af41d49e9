"""CommonJS modules are admitted as Node skills, and kept as ES modules that contain them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.in_box.common_js import FOOTER, HEADER, as_es_module, own_range, without_comments
from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.text_mutants import mutants
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.proof.programs.program_language import constants_of
from acquired_skills.tools.skill_tool import skill_tool
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import WITHOUT_MUTANTS, context, opened_library
from tests.skills.programs.parts import SLUG, node, refusal

pytestmark = pytest.mark.spec("SKILL-22")
COMMON_SLUG = SLUG.replace("export function", "function") + "module.exports = makeSlug;\n"
COMMENT = "/**\n * @param {number} n\n * @returns {number}\n */\n"
TWICE_CASES = [{"arguments": {"n": 2}, "result": 4}, {"arguments": {"n": 5}, "result": 10}]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_common_js_module_is_admitted_as_well_as_an_es_module(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(node(COMMON_SLUG))
        assert any("CommonJS" in note for note in report_notes(skill.admission))
        stored = (library.store.folder("make_slug") / "scripts" / "make_slug.mjs").read_text()
        assert stored == HEADER + COMMON_SLUG + FOOTER
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"title": "One Two"}) == "one-two"
        mutants_of = skill.admission["mutants"]
        assert mutants_of["killed"] >= 0.9 * mutants_of["met"] > 0
        for again in (COMMON_SLUG, stored):
            with pytest.raises(SkillRefused, match="identical to version 1"):
                await library.create(node(again))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("module.exports = {\n" + COMMENT + "twice(n) { return this.times * n; }, times: 2 };\n", {}),
        ("exports.twice = void 0;\n" + COMMENT + "function twice(n) { return 2 * n; }\nexports.twice = twice;\n", {}),
        ("exports.__esModule = true;\n" + COMMENT + "exports.default = (n) => 2 * n;\n", {}),
        (COMMENT + "module.exports = (n) => require('./by').by(2, n);\n", {"by.js": "exports.by = (a, b) => a * b;\n"}),
        (
            "const by = require('times');\n" + COMMENT + "module.exports = (n) => by(2, n);\n",
            {
                "node_modules/times/lib/by.js": "module.exports = (a, b) => a * b;\n",
                "node_modules/times/package.json": '{"name": "times", "main": "lib/by.js"}',
            },
        ),
        (
            "import by from 'times';\n" + COMMENT + "export default (n) => by(2, n);\n",
            {
                "node_modules/times/index.js": "export default (a, b) => a * b;\n",
                "node_modules/times/package.json": '{"type": "module", "exports": "./index.js"}',
            },
        ),
        (
            "(function (root, factory) {\n  if (typeof exports === 'object') module.exports = factory();\n"
            "  else root.twice = factory();\n}(this, function () {\n  return function (n) { return 2 * n; };\n}));\n"
            "/**\n * @function twice\n * @param {number} n\n */\n",
            {},
        ),
    ],
)
async def test_a_function_may_be_exported_in_any_of_the_usual_ways(
    box: NamespaceSandbox, tmp_path: Path, code: str, files: dict[str, str]
) -> None:
    async with opened_library(tmp_path, box, effort=WITHOUT_MUTANTS) as library:
        skill = await library.create(node(code, TWICE_CASES, "twice", files=files))
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"n": 21}) == 42


@pytest.mark.asyncio(loop_scope="module")
async def test_questions_about_a_node_skill_ask_for_no_float_with_a_whole_value(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = "/**\n * @param {number} n\n * @returns {boolean}\n */\nmodule.exports = (n) => n > 3 && n % 2 === 0;\n"
    cases = [{"arguments": {"n": 1.5}, "result": False}, {"arguments": {"n": 8}, "result": True}]
    said = await refusal(box, tmp_path, node(code, cases, "is_large_even"))
    assert said.questions
    assert all(type(each.arguments["n"]) is int or each.arguments["n"] % 1 for each in said.questions)
    assert "reference" not in str(said)  # only Python skills can have one


def test_the_code_around_a_common_js_module_is_neither_changed_nor_a_source_of_arguments() -> None:
    code = as_es_module("#!/usr/bin/env node\nmodule.exports = (n) => n + 'x';\n")
    start, end = own_range(code)
    made = mutants("node", code, 50, 1)
    assert made["error"] == ""
    assert made["mutants"]
    assert all(start <= first and last <= end for first, last, _ in (*made["mutants"], *made["neutral"]))
    assert constants_of(code) == ["x"]


def test_a_module_that_only_common_js_allows_gets_mutants() -> None:
    made = mutants("node", "with (Math) { module.exports = max(1, 2); }\n", 10, 1)  # not allowed in ES modules
    assert (made["error"], bool(made["mutants"])) == ("", True)


@pytest.mark.parametrize(
    "code",
    [
        "export default 1;\n",
        "import { a } from './a.mjs';\nmodule.exports = a;\n",
        "const x = 1;export default x;",
        "let exported = 1;\n",
        "// module.exports = 1\n",
        "/*\nexports.a = 1;\n*/\n",
    ],
)
def test_other_code_stays_as_it_is(code: str) -> None:
    assert as_es_module(code) == code
    assert own_range(code) == (0, len(code))


@given(st.text(alphabet="/*\n a'exports.=module{}", max_size=60))
def test_the_converted_code_contains_the_module_at_the_same_lines(code: str) -> None:
    made = as_es_module(code)
    start, end = own_range(made)
    assert made[start:end] == code
    assert made[:start].count("\n") == 0
    assert [len(line) for line in without_comments(code).split("\n")] == [len(line) for line in code.split("\n")]
