"""Instructions: found by search, offered when they fit, read on demand, and their programs run in boxes (SKILL-15)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.find.instruction_search import InstructionSearch
from engine import Engine
from engine.contract.turn import Turn
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

pytestmark = [pytest.mark.spec("SKILL-15", "DISC-1"), pytest.mark.asyncio(loop_scope="module")]

FORMS = """---
name: pdf-forms
description: Fill in PDF forms. Use it when somebody has a form to complete.
---

# PDF forms

Read reference/fields.md, then run scripts/fill.py.
"""
LETTERS = FORMS.replace("pdf-forms", "brand-letters").replace(
    "Fill in PDF forms. Use it when somebody has a form to complete.", "Write letters in the voice of the company."
)
FILES = {
    "SKILL.md": FORMS,
    "reference/fields.md": "Names of fields are in lower case.",
    "scripts/fill.py": "import sys\nfrom names import lower\nprint(lower(sys.argv[1]))\nopen('out.txt', 'w').write('x')\n",
    "scripts/names.py": "def lower(text: str) -> str:\n    return text.lower()\n",
    "scripts/count.sh": 'wc -l < "$(dirname "$0")/names.py"; exit "$1"\n',
    "scripts/fetch.py": "# /// script\n# [tool.knackbox]\n# destinations = ['api.example.com:443']\n# ///\nprint(1)\n",
    "scripts/needy.py": "# /// script\n# dependencies = ['six>=1.16']\n# ///\nprint(1)\n",
    "logo.png": b"\x89PNG\xff",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, box: NamespaceSandbox) -> AsyncIterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    (home / "config.toml").write_text('[skills]\npackages = ["requests"]\n')
    async with Engine.open(home, sandbox=box, environ=ENVIRON_WITHOUT_MUTANTS) as opened:
        instructions = opened.need(InstructionSearch).instructions
        instructions.add("pdf-forms", {path: t.encode() if isinstance(t, str) else t for path, t in FILES.items()})
        instructions.add("brand-letters", {"SKILL.md": LETTERS.encode()})
        yield opened


async def offered(engine: Engine, query: str | None) -> str:
    """Return the description of the tool that offers instructions in a turn; "" if there is no such tool."""
    specs = await engine.get_active_tool_definitions(Turn(), query)
    return "".join(spec.description for spec in specs if spec.name == "read_skill")


@pytest.mark.spec("LIST-3")
async def test_a_turn_is_offered_the_instructions_that_fit_its_query_by_name_and_description(engine: Engine) -> None:
    fitting = await offered(engine, "fill in a PDF form")
    assert "- pdf-forms: Fill in PDF forms." in fitting
    assert "brand-letters" not in fitting
    assert "lower case" not in fitting  # the text is read only when it is needed
    assert await offered(engine, "what is the weather in Rome") == ""
    everything = await offered(engine, None)
    assert "- brand-letters: " in everything
    assert "- pdf-forms: " in everything


async def test_instructions_are_read_first_and_their_files_by_relative_path(engine: Engine) -> None:
    read = await engine.call("read_skill", {"name": "pdf-forms"})
    assert "Read reference/fields.md, then run scripts/fill.py." in read.text
    assert "'reference/fields.md'" in read.text
    assert read.output["files"] == sorted(set(FILES) - {"SKILL.md"})
    file = await engine.call("read_skill", {"name": "pdf_forms", "file": "reference/fields.md"})
    assert file.output == FILES["reference/fields.md"]
    assert "is not text (5 bytes)" in (await engine.call("read_skill", {"name": "pdf-forms", "file": "logo.png"})).text
    for arguments, said in (
        ({"name": "pdf-forms", "file": "../../records.db"}, "has no file '../../records.db'"),
        ({"name": "nothing"}, "Existing instructions: brand-letters, pdf-forms."),
    ):
        refused = await engine.call("read_skill", arguments)
        assert (refused.success, said in refused.error) == (False, True), refused.error


async def test_a_search_for_tools_finds_instructions_too(engine: Engine) -> None:
    turn = Turn(use_tool_search_flow=True)
    found = await engine.call("search_tools", {"query": "fill in a PDF form"}, turn)
    (reader,) = [one for one in found.output if one["name"] == "read_skill"]
    assert "pdf-forms" in reader["description"]
    assert "brand-letters" in str((await engine.call("describe_tool", {"name": "read_skill"}, turn)).output)
    read = await engine.call("execute_tool", {"name": "read_skill", "tool_args": {"name": "pdf-forms"}}, turn)
    assert "# PDF forms" in read.text


async def test_imported_deleted_and_edited_instructions_are_detected_at_the_next_turn(engine: Engine) -> None:
    instructions = engine.need(InstructionSearch).instructions
    instructions.delete("brand-letters")
    assert "brand-letters" not in await offered(engine, None)
    instructions.restore("brand-letters")
    file = instructions.root / "brand-letters" / "SKILL.md"
    file.write_text(LETTERS.replace("Write letters", "Write postcards"))
    assert "Write postcards" in await offered(engine, None)
    assert "brand-letters" in await offered(engine, "write a postcard")
    file.write_text("no front matter")
    assert "brand-letters" not in await offered(engine, None)
    file.write_text(LETTERS)


@pytest.mark.spec("TOOL-1")
async def test_programs_of_instructions_run_in_a_box_with_their_files(engine: Engine) -> None:
    async def execute(filename: str, *args: str) -> Any:
        return await engine.call("execute", {"skill": "pdf-forms", "filename": filename, "args": list(args)})

    ran = await execute("scripts/fill.py", "NAME")
    assert ran.output["stdout"] == "name\n", ran.error
    assert "created:out.txt" in ran.side_effects  # its working directory is the workspace
    counted = await execute("scripts/count.sh", "0")
    assert counted.output["stdout"].strip() == "2", counted.error
    failed = await execute("scripts/count.sh", "3")
    assert "3" in failed.error
    for filename, said in (
        ("scripts/fetch.py", "which the operator of this engine has not allowed"),
        ("scripts/needy.py", "six>=1.16, which needs a person's approval"),
        ("scripts/gone.py", "has no file 'scripts/gone.py'"),
    ):
        refused = await execute(filename)
        assert (refused.success, said in refused.error) == (False, True), refused.error
    assert "`filename` is missing" in (await engine.call("execute", {"skill": "pdf-forms", "code": "1"})).error
