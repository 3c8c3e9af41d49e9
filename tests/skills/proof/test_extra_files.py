"""Skills with extra files: modules, and data that the code reads."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import SkillDamaged
from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import import_skills
from acquired_skills.proof.admission import admit
from acquired_skills.proof.duplicates import Neighbour
from acquired_skills.proof.static_checks import check
from acquired_skills.tools.skill_tool import skill_tool
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import STATIC, context, opened_library

pytestmark = [pytest.mark.spec("SKILL-20")]
ON_THE_BOX = pytest.mark.asyncio(loop_scope="module")  # as the fixture `box`

CODE = '''
import json
from pathlib import Path

from tax_rules.rounding import cents
from tax_rules.limits import LEAST

RATES = json.loads((Path(__file__).parent / "tax_rules" / "rates.json").read_text())


def sales_tax(amount: float, country: str) -> float:
    """Return the tax on an amount.

    Args:
        amount: the price.
        country: its two letters.
    """
    if amount <= LEAST:
        return 0.0
    if country not in RATES:
        raise ValueError(country)
    return cents(amount * RATES[country])
'''
FILES = {
    "tax_rules/rounding.py": "def cents(value):\n    return int(value * 100 + 0.5) / 100\n",
    "tax_rules/limits.py": "from . import rounding\n\nLEAST = 5\n",
    "tax_rules/rates.json": json.dumps({"de": 0.19, "fr": 0.2}),
}
TESTS = """
import pytest
from sales_tax import sales_tax


def test_rates():
    assert sales_tax(100, "de") == 19.0
    assert sales_tax(9.99, "fr") == 2.0
    assert sales_tax(10.01, "fr") == 2.0
    assert sales_tax(10.05, "de") == 1.91
    assert sales_tax(1000, "fr") == 200.0


def test_small_amounts():
    assert sales_tax(5, "de") == 0.0
    assert sales_tax(5.01, "de") == 0.95
    assert sales_tax(6, "de") == 1.14


def test_unknown():
    with pytest.raises(ValueError):
        sales_tax(20, "xx")
"""
OFFERED = Proposal("sales_tax", "Computes the sales tax of a price in a country.", CODE, TESTS, files=FILES)
WEAK = TESTS.replace("def test_small_amounts", "def not_a_test")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@ON_THE_BOX
async def test_extra_files_are_available_in_every_box_of_admission_and_calls(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(made(tmp_path / "home"), box, effort=Effort()) as library:
        skill = await library.create(OFFERED)
        tool = skill_tool(skill, library)
        ctx = context(library, box, tmp_path / "work")
        assert await tool.run(ctx, {"amount": 200, "country": "de"}) == 38.0
        assert skill.extra.keys() == FILES.keys()
        assert (await library.proposal_of(skill)).files == FILES
        assert "- `scripts/tax_rules/rates.json`" in (library.store.folder("sales_tax") / "SKILL.md").read_text()
        changed = {**FILES, "tax_rules/rates.json": '{"de": 0.19, "fr": 0.2, "it": 0.22}'}
        more = TESTS + '\n\ndef test_italy():\n    assert sales_tax(100, "it") == 22.0\n'
        second = await library.create(replace(OFFERED, files=changed, tests=more))
        assert await skill_tool(second, library).run(ctx, {"amount": 100, "country": "it"}) == 22.0
        third = await library.rollback("sales_tax")
        assert (await library.program(third)).extra == SkillProgram.of(OFFERED).extra


@ON_THE_BOX
async def test_extra_modules_are_mutated_too(box: NamespaceSandbox) -> None:
    parsed = ParsedProposal.parse(replace(OFFERED, tests=WEAK))
    found = await admit(parsed, box, seed=1, effort=Effort(threshold=0.1, enough=0.1, calls=0, every_gap=False))
    survived = found.report["mutants"]["survived"]
    assert {each.get("file") for each in survived} >= {"tax_rules/limits.py"}


@ON_THE_BOX
async def test_an_extra_module_that_depends_on_its_own_text_is_refused(box: NamespaceSandbox) -> None:
    watching = {
        "watch.py": "import hashlib\nfrom pathlib import Path\n\n"
        "def same():\n    text = Path(__file__).with_name('rules.py').read_text()\n"
        "    return len(text) == 67\n",
        "rules.py": "def plus(number):\n    more = 1\n    return number + more + 100 - 100",
    }
    assert len(watching["rules.py"]) == 67
    code = (
        "import rules, watch\n\n\ndef add_one(number: int) -> int:\n"
        '    """Add one."""\n    return rules.plus(number) if watch.same() else 7\n'
    )
    tests = (
        "from add_one import add_one\n\n\ndef test_adds():\n    assert [add_one(n) for n in (1, 2, -5)] == [2, 3, -4]\n"
    )
    offered = Proposal("add_one", "Adds one to a whole number.", code, tests, files=watching)
    with pytest.raises(SkillRefused, match="independent of how the code is written"):
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=Effort())


@ON_THE_BOX
async def test_an_existing_skill_of_several_files_is_recognised_as_a_duplicate(box: NamespaceSandbox) -> None:
    neighbour = Neighbour("sales_tax", SkillProgram.of(OFFERED))
    name = {"code": CODE.replace("sales_tax", "vat"), "tests": TESTS.replace("sales_tax", "vat")}
    with pytest.raises(SkillRefused, match="`sales_tax` already returns the same results"):
        await admit(ParsedProposal.parse(replace(OFFERED, name="vat", **name)), box, seed=1, neighbours=[neighbour])


@ON_THE_BOX
async def test_an_extra_file_that_was_changed_afterwards_is_never_run(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(made(tmp_path / "home"), box) as library:
        skill = await library.create(OFFERED)
        path = library.store.folder("sales_tax") / "scripts" / "tax_rules" / "rounding.py"
        path.write_text("def cents(value):\n    return 0\n")
        with pytest.raises(SkillDamaged, match=r"rounding\.py was changed after it was admitted"):
            await library.program(skill)
        report = await library.folders.verify()
        assert [each.name for each in report.aside] == ["sales_tax"]


@ON_THE_BOX
async def test_extra_files_are_exported_and_imported(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(made(tmp_path / "one"), box) as library:
        await library.create(OFFERED)
        files = files_of(library.store, library.instructions, "sales_tax")
        assert files["scripts/tax_rules/rates.json"] == FILES["tax_rules/rates.json"].encode()
        (tmp_path / "sales.zip").write_bytes(zipped({"sales-tax": files}))
    async with opened_library(made(tmp_path / "two"), box) as library:
        (brought,) = await import_skills(tmp_path / "sales.zip", library, provenance={})
        assert brought.outcome == "admitted", brought.text
        skill = await library.get("sales_tax")
        assert (await library.program(skill)) == SkillProgram.of(OFFERED)
        (again,) = await import_skills(tmp_path / "sales.zip", library, provenance={})
        assert again.outcome == "already"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"../evil.py": "x"}, "cannot be the path of a file"),
        ({"/etc/passwd": "x"}, "cannot be the path of a file"),
        ({"a//b.py": "x"}, "cannot be the path of a file"),
        ({".hidden": "x"}, "cannot be the path of a file"),
        ({"a/b/c/d/e.txt": "x"}, "cannot be the path of a file"),
        ({"a\nb.py": "x"}, "cannot be the path of a file"),
        ({"json.py": "x = 1"}, "a module of Python's standard library"),
        ({"pytest.py": "x = 1"}, "an installed Python package"),
        ({"conftest.py": "x = 1"}, "reserved by pytest"),
        ({"acquired_skills/in_box/judge.py": "x = 1"}, "reserved by pytest"),
        ({"test_sales_tax.py": "x = 1"}, "reserved by pytest"),
        ({"sales_tax.py": "x = 1"}, "has the name of the skill's main file"),
        ({"sales_tax/x.json": "1"}, "has the name of the skill's main file"),
        ({"my-rules.py": "x = 1"}, "`my-rules` is not an identifier"),
        ({"rules.py": "x ="}, "'rules.py', line 1: invalid syntax"),
        ({"rules.py": "x =\\\n" + "[" * 110 + "]" * 110}, "'rules.py': Line 2 is nested more than 100 levels deep"),
        ({"rules.py": "x", "Rules.py": "y"}, "the same name as another file or folder"),
        ({"rules": "x", "rules/a.txt": "y"}, "the same name as another file or folder"),
        ({"big.txt": "x" * 70_000}, "keep it under 65,536"),
        ({f"f{n}.txt": "x" * 60_000 for n in range(5)}, "keep them under 262,144"),
        ({f"f{n}.txt": "x" for n in range(20)}, "send at most 16"),
        ({"a.txt": "\ud800"}, "UTF-8 cannot represent"),
    ],
)
def test_extra_files_are_checked_before_anything_runs(files: dict[str, str], says: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        check(replace(OFFERED, files=files), STATIC)
    assert any(each.part == "files" and says in each.text for each in refused.value.problems), refused.value


def test_relative_imports_and_tests_of_extra_modules_are_refused_with_what_to_write() -> None:
    code = CODE.replace("from tax_rules.limits", "from .tax_rules.limits")
    tests = TESTS + "\nfrom tax_rules.limits import LEAST\n"
    with pytest.raises(SkillRefused) as refused:
        check(replace(OFFERED, code=code, tests=tests), STATIC)
    assert "write `import tax_rules.limits`" in str(refused.value)
    assert "In the tests, import only from `sales_tax`" in str(refused.value)
