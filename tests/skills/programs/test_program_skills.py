"""Node and Bash skills are admitted, stored and called like Python skills."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.corrections import wrong_result
from acquired_skills.model.prediction import parse_predictions
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import SkillKind, SkillState
from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import import_skills
from acquired_skills.store.corrected_calls import CorrectedCall
from acquired_skills.store.failed_inputs import as_tests
from acquired_skills.tools.skill_tool import skill_tool
from engine.contract.failure import ToolFailure
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import WITHOUT_MUTANTS, context, opened_library
from tests.skills.programs.parts import SLUG, SLUG_CASES, WORDS, WORDS_CASES, bash, node, refusal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-22")]


async def test_a_node_skill_is_admitted_and_called_by_name(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(node())
        assert (skill.kind, skill.state, skill.tests) == (SkillKind.NODE, SkillState.PROBATION, 5)
        assert skill.returns == {"type": "string"}
        assert skill.parameters["required"] == ["title"]
        assert skill.parameters["properties"]["separator"]["default"] == "-"
        mutants = skill.admission["mutants"]
        assert mutants["killed"] >= 0.9 * mutants["met"] > 0
        assert not skill.admission["open_questions"]
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"separator": "+", "title": "One Two"}) == "one+two"
        with pytest.raises(ToolFailure, match="RangeError: the title is empty"):
            await tool.run(ctx, {"title": ""})
        assert (library.store.folder("make_slug") / "scripts" / "make_slug.mjs").read_text() == SLUG
        assert [found.skill.name for found in await library.search("make_slug")] == ["make_slug"]


async def test_a_bash_skill_is_admitted_and_called_by_name(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(bash())
        assert (skill.kind, skill.returns) == (SkillKind.BASH, {"type": "string"})
        mutants = skill.admission["mutants"]
        assert mutants["killed"] >= 0.9 * mutants["met"] > 0
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"stdin": "y x y z z z", "count": 2}) == "z\ny"
        with pytest.raises(ToolFailure, match="ExitStatus2: count must be at least 1"):
            await tool.run(ctx, {"stdin": "", "count": 0})


async def test_a_default_export_with_destructured_options_is_admitted(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = """
  /**
   * Repeats a text.
   *
   * @param {string} text
   * @param {object} [options]
   * @param {integer} [options.times=2] - How often.
   * @returns {string}
   */
  export default function (text, { times = 2, between = [",", " "] } = {}) {
    return Array(times).fill(text).join(between.join(""));
  }
"""
    cases = [
        {"arguments": {"text": "a"}, "result": "a, a"},
        {"arguments": {"text": "b", "options": {"times": 3}}, "result": "b, b, b"},
        {"arguments": {"text": "ab", "options": {"times": 1}}, "result": "ab"},
    ]
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(node(code, cases, "repeat_text"))
        options = skill.parameters["properties"]["options"]
        assert options["properties"]["times"] == {"type": "integer", "default": 2, "description": "How often."}
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"text": "x", "options": {"times": 2}}) == "x, x"


@pytest.mark.spec("SKILL-9")
async def test_versions_corrections_and_audits_work_as_with_python_skills(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(tmp_path, box) as library:
        first = await library.create(node())
        await library.readmit(first)
        call = CorrectedCall({"title": "A B"}, expect="a-b")
        assert await wrong_result(first, await library.program(first), call, box) == ""
        upper = node(SLUG.replace("toLowerCase", "toUpperCase").replace("a-z", "A-Z"), SLUG_CASES[2:3])
        with pytest.raises(SkillRefused, match=r"case 2: `make_slug.*gives another result"):
            await library.create(upper)  # refused because of the earlier version's cases
        second = await library.create(replace(node(SLUG + "// more\n")))
        assert second.version == 2
        assert (await library.rollback("make_slug")).kind is SkillKind.NODE
        with pytest.raises(SkillRefused, match="The current version is a node skill"):
            await library.create(bash(name="make_slug"))


async def test_node_and_bash_skills_are_exported_imported_and_shown(box: NamespaceSandbox, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with opened_library(tmp_path / "one", box) as library:
        await library.create(bash())
        files = files_of(library.store, library.instructions, "top_words")
        assert set(files) == {"SKILL.md", "scripts/top_words.sh", "tests/top_words.json"}
        (tmp_path / "words.zip").write_bytes(zipped({"top-words": files}))
    async with opened_library(tmp_path / "two", box) as library:
        (brought,) = await import_skills(tmp_path / "words.zip", library, provenance={})
        assert brought.outcome == "admitted", brought.text
        assert (await library.get("top_words")).kind is SkillKind.BASH
        assert (await library.code(await library.get("top_words"))).decode() == WORDS


@pytest.mark.parametrize("offered", [node(cases=SLUG_CASES[:1]), bash(cases=WORDS_CASES[1:2])], ids=["node", "bash"])
@pytest.mark.spec("GATE-1")
async def test_weak_cases_lead_to_questions_and_correct_answers_to_admission(
    box: NamespaceSandbox, tmp_path: Path, offered: Proposal
) -> None:
    refused = await refusal(box, tmp_path, offered)
    assert refused.questions
    assert all(question.arguments.keys() <= {"title", "separator", "stdin", "count"} for question in refused.questions)
    wrong = [{"arguments": dict(question.arguments), "result": "no such result"} for question in refused.questions]
    said = await refusal(box, tmp_path, replace(offered, expected=parse_predictions(wrong)))
    assert "Which of the two is right?" in str(said)


@pytest.mark.spec("SKILL-13")
@pytest.mark.parametrize(
    "quoted", ["awk -F, -v name=\"$1\" '{}'", 'awk -F, -v name="$1" "$(cat <<\'AWK\'\n{}\nAWK\n)"']
)
async def test_a_program_in_a_quoted_text_is_mutated(box: NamespaceSandbox, tmp_path: Path, quoted: str) -> None:
    wrong = (  # it adds only positive values of the first two rows
        "NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; if (!c) exit 3; next }\n"
        "$c > 0 && NR < 4 { total += $c }\nEND { if (c) print total + 0; else exit 3 }"
    )
    code = (
        "#!/usr/bin/env bash\n# The sum of a column of CSV text.\n# @param {string} stdin - The text.\n"
        "# @param {string} column - The name of the column.\n# @returns {number}\n" + quoted.replace("{}", wrong) + "\n"
    )
    cases = [
        {"arguments": {"stdin": "a,b\n1,2\n3,4", "column": "b"}, "result": 6},
        {"arguments": {"stdin": "a,b\n1,2\n3,4", "column": "a"}, "result": 4},
        {"arguments": {"stdin": "x,y\n1.5,0\n2.25,1", "column": "x"}, "result": 3.75},
        {"arguments": {"stdin": "a,b\n", "column": "b"}, "result": 0},
        {"arguments": {"stdin": "a,b\n1,2", "column": "c"}, "raises": "ExitStatus3"},
    ]
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        with pytest.raises(SkillRefused) as refused:
            await library.create(bash(code, cases, "csv_sum"))
    assert refused.value.questions


async def test_failed_and_corrected_calls_become_cases(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box) as library:
        skill = await library.create(node())
        tool, ctx = skill_tool(skill, library), context(library, box, tmp_path / "work")
        with pytest.raises(ToolFailure):
            await tool.run(ctx, {"title": ""})
        assert await library.correct("make_slug", CorrectedCall({"title": "B"}, expect="bee")) == "returns 'b'"
        failed = await library.track.failed_inputs(skill, None)
        shown = as_tests("make_slug", failed, skill.kind).splitlines()
        assert shown[0].startswith('{"arguments": {"title": "B"}, "result": "bee"}')
        assert shown[1].startswith('{"arguments": {"title": ""}, "result": ...}')


@pytest.mark.spec("SKILL-8")
async def test_a_duplicate_is_recognised(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, compared=5) as library:
        await library.create(node())
        again = SLUG.replace("makeSlug", "slugOf").replace("title", "text")
        cases = [
            {**case, "arguments": {name.replace("title", "text"): value for name, value in case["arguments"].items()}}
            for case in SLUG_CASES
        ]
        with pytest.raises(SkillRefused, match="`make_slug` already returns the same results"):
            await library.create(node(again, cases, "slug_of"))


SORT = """# Sorts the lines of a file in place.
#
# @param {string} path - The file.
# @param {boolean} [reverse=false] - Whether to sort in descending order.
# @returns {{lines: integer}}
. "$(dirname "$0")/options.sh"
sort $(options "$2") -o "$1" "$1"
printf '{"lines": %d}' "$(wc -l < "$1")"
"""
OPTIONS = """options() {
  if [ "$1" = true ]; then echo "-r"; fi
}
"""


async def test_a_call_finds_the_files_of_its_case_and_the_extra_files(box: NamespaceSandbox, tmp_path: Path) -> None:
    cases = [
        {"arguments": {"path": "a.txt"}, "files": {"a.txt": "b\na\nc\n"}, "result": {"lines": 3},
         "after": {"a.txt": "a\nb\nc\n"}},
        {"arguments": {"path": "d/a.txt", "reverse": True}, "files": {"d/a.txt": "b\na\nc\n"}, "result": {"lines": 3},
         "after": {"d/a.txt": "c\nb\na\n", "a.txt": None}},
        {"arguments": {"path": "e"}, "files": {"e": ""}, "result": {"lines": 0}},
    ]  # fmt: skip
    offered = bash(SORT, cases, "sort_file", files={"options.sh": OPTIONS})
    async with opened_library(tmp_path, box) as library:
        skill = await library.create(offered)
        work = tmp_path / "work"
        work.mkdir()
        (work / "x").write_text("2\n1\n")
        assert await skill_tool(skill, library).run(context(library, box, work), {"path": "x"}) == {"lines": 2}
        assert (work / "x").read_text() == "1\n2\n"
        cases[0]["after"] = {"a.txt": "b\na\nc\n"}
        with pytest.raises(SkillRefused, match="leaves other files"):
            await library.create(replace(offered, tests=json.dumps(cases)))


async def test_without_mutants_a_skill_stays_on_probation(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = "# Prints its input.\n#\n# @param {string} stdin - The text.\ncat\n"
    cases = [{"arguments": {"stdin": text}, "result": text} for text in ("a", "b c", "d\ne")]
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(bash(code, cases, "print_input"))
        assert skill.admission["open_questions"]


MODULE = "export function plus(number, more) {\n  return number + more;\n}\n"
ADDING = """import { plus } from "./plus.mjs";

/**
 * Adds one.
 *
 * @param {number} number - To add to.
 * @returns {number}
 */
export function addOne(number) {
  return plus(number, 1);
}
"""


async def test_modules_of_a_node_skill_are_mutated_and_other_code_leads_to_probation(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    cases = [{"arguments": {"number": number}, "result": number + 1} for number in (1, 0, -7, 2.5)]
    offered = node(ADDING, cases, "add_one", files={"plus.mjs": MODULE})
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(offered)
        assert skill.admission["mutants"]["made"] > 3
        assert not skill.admission["open_questions"]
        watching = MODULE.replace(
            "  return",
            "  if (readFileSync(new URL(import.meta.url)).length !== 204) throw new Error('changed');\n  return",
        )
        watching = f'import {{ readFileSync }} from "node:fs";\n{watching}'
        watching = watching.replace("204", str(len(watching)))
        with pytest.raises(SkillRefused, match="independent of how the code is written"):
            await library.create(replace(offered, files={"plus.mjs": watching}))
        second = await library.create(replace(offered, files={"plus.mjs": MODULE, "more.awk": "{ print }"}))
        assert second.admission["open_questions"]


@pytest.mark.parametrize(
    ("offered", "says"),
    [
        (node(SLUG.replace("export ", "")), "Write `export function make_slug(...)` or `export function makeSlug(...)`"),
        (node("module.exports = {}"), "No function `make_slug` can be found in what the code exports"),
        (node(SLUG.replace("/**", "/*")), "no JSDoc comment directly above it"),
        (node(SLUG.replace("{string} title", "{Foo} title")), "The type `Foo` of `@param` is unknown"),
        (node(SLUG.replace("(title, separator", "(separator, title")), "in the same order: (title, separator)"),
        (node(SLUG.replace("(title, sep", "(...title, sep")), "takes any number of arguments (`...title`)"),
        (node(SLUG.replace("@returns", "@param {string} title.case\n * @returns")), "describe `title` in a line above it, with the"),
        (node('import x from "lodash";\n' + SLUG), "It imports `lodash`, but packages cannot be installed"),
        (node(cases="[]"), "Give a list of 1 to 100 cases"),
        (node(cases="def test(): pass"), "The tests are not JSON"),
        (node(cases=[{"arguments": {"title": "a"}}]), "Case 1: "),
        (node(cases=[{"arguments": {"title": "a"}, "unspecified": True}]), "`unspecified` proves nothing"),
        (node(cases=[{"arguments": {}, "result": 1, "files": {"../x": ""}}]), "is not a relative path"),
        (bash("echo 1\n"), "The script has no comment at the beginning"),
        (bash(WORDS.replace("{integer}", "")), "it has no type"),
        (node("x" * 70_000), "keep it under 65,536"),
        (node(files={"../x.mjs": ""}), "cannot be the path of a file"),
    ],
)  # fmt: skip
async def test_static_checks_say_what_to_change(
    box: NamespaceSandbox, tmp_path: Path, offered: Proposal, says: str
) -> None:
    assert says in str(await refusal(box, tmp_path, offered))


@pytest.mark.parametrize(
    ("offered", "says"),
    [
        (node(SLUG + "function ( {"), "The code cannot be parsed:"),
        (bash(WORDS + "if true; then\n"), "The code cannot be parsed:"),
        (node(cases=[{"arguments": {"name": "a"}, "result": "a"}]), "do not fit the `@param` lines of the comment"),
        (node(cases=[{"arguments": {"title": "a"}, "contains": ""}]), "passes with almost any result"),
        (node(SLUG.replace("LONGEST);", "MISSING);")), "ReferenceError: MISSING is not defined"),
        (node(SLUG.replace("const LONGEST = 20;", "throw new Error('no');")), "cannot be loaded: Error: no"),
    ],
)
async def test_other_faults_are_found_in_boxes(
    box: NamespaceSandbox, tmp_path: Path, offered: Proposal, says: str
) -> None:
    assert says in str(await refusal(box, tmp_path, offered))


async def test_an_option_that_no_case_uses_is_named(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = SLUG.replace(" * @returns", " * @param {object} [more]\n * @param {string} [more.end]\n * @returns")
    code = code.replace('separator = "-")', 'separator = "-", more = {})')
    said = "No case passes `more`, so nothing shows what they do."
    assert said in str(await refusal(box, tmp_path, node(code)))
    cases = [*SLUG_CASES, {"arguments": {"title": "a b", "more": {}}, "result": "a-b"}]
    assert "No case passes `more.end`" in str(await refusal(box, tmp_path, node(code, cases)))
    cases[-1] = {"arguments": {"title": "a b", "more": {"end": "!"}}, "result": "a-b"}
    expected = parse_predictions(cases[-1:])
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        await library.create(node(code, cases))
        await library.delete("make_slug")
        await library.create(node(code, expected=expected))


async def test_an_imported_skill_with_an_option_that_no_case_uses_stays_on_probation(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = SLUG.replace(" * @returns", " * @param {string} [end]\n * @returns")
    code = code.replace('separator = "-")', 'separator = "-", end = "")')
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    async with opened_library(tmp_path / "first", box, effort=WITHOUT_MUTANTS) as library:
        await library.create(node(code))
        files = files_of(library.store, library.instructions, "make_slug")
    (tmp_path / "slug.zip").write_bytes(zipped({"make-slug": files}))
    async with opened_library(tmp_path / "second", box, effort=Effort()) as library:
        await import_skills(tmp_path / "slug.zip", library, provenance={})
        skill = await library.find("make_slug")
        assert skill is not None
        assert skill.admission["open_questions"]
