"""Skills are exported and imported in the open Agent Skills format, and admitted again by the import (SKILL-15)."""

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import skills_ref
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import ImportResult, import_skills
from acquired_skills.store.instructions import Instructions
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.store.trust import Trust
from engine.registry.signing import SigningKey
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import here
from tests.skills.parts import ADD_ONE_TESTS, NoSandbox, opened_library, proposal, skill
from tests.skills.store.test_skill_store import CODE, TESTS, publish

pytestmark = pytest.mark.spec("SKILL-15")
ON_THE_BOX = pytest.mark.asyncio(loop_scope="module")  # as the fixture `box`

FOREIGN = """---
name: pdf-forms
description: Fill in PDF forms. Use it when somebody has a form.
license: MIT
compatibility: anything
allowed-tools: Bash Read
metadata:
  version: 1.0
  released: 2026-01-02
---

# PDF forms

Open the form, then write.
"""
# A text that strict readers of YAML, of the format, or of Markdown may reject.
ODD = ["---", "a --- b", "-----", "\n---\n", "'", '"', "# x", ": y", "\u2028", "\ufeff", "\U0001f600", "{a: b}", "a\n b\n", "\\", "-", "1", "no", " &a *a !b"]  # fmt: skip


def wrong_for_the_reference(folder: Path) -> list[str]:
    """Return the problems that the format's reference reader reports. It shares no code with Knackbox."""
    return list(skills_ref.validate(folder))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.sampled_from(ODD) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), max_size=6
    ),
    example=st.sampled_from(ODD).filter(str.strip),
)
def test_every_folder_is_valid_for_the_reference_reader_of_the_format(
    tmp_path: Path, words: list[str], example: str
) -> None:
    store = SkillStore(tmp_path / str(len(list(tmp_path.iterdir()))), Trust(key(tmp_path)))
    description = ("A skill: " + "".join(words)).strip()
    made = replace(skill("roman_numeral", 1, CODE, TESTS), description=description, examples=(example,))
    made = replace(made, provenance={"by": "create_skill", "user": example})
    with store.lock():
        store.publish(made, CODE, TESTS, replaces=0)
    folder = store.folder("roman_numeral")
    assert store.read("roman_numeral") == made
    assert wrong_for_the_reference(folder) == []
    read = skills_ref.read_properties(folder)
    assert (read.name, read.description) == ("roman-numeral", description)
    assert json.loads(read.metadata["knackbox-examples"]) == [example]


def key(folder: Path) -> SigningKey:
    made = SigningKey(folder / ".key" / "k")
    made.make(lambda _: None)
    return made


def exported(store: SkillStore, *names: str) -> bytes:
    return zipped({name: files_of(store, Instructions(store.root), name) for name in names})


def test_exports_of_the_same_skills_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = SkillStore(tmp_path / "a"), SkillStore(tmp_path / "b")
    for store, names in ((first, ("add_one", "add_two")), (second, ("add_two", "add_one"))):
        for name in names:
            publish(store, name)
    made = exported(first, "add_one", "add_two")
    assert made == exported(second, "add_two", "add_one")
    assert hashlib.sha256(made).hexdigest() == hashlib.sha256(exported(first, "add_two", "add_one")).hexdigest()
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        archive.extractall(tmp_path / "out")
        assert archive.testzip() is None
    for folder in (tmp_path / "out").iterdir():
        assert wrong_for_the_reference(folder) == []
        assert {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} == {
            "SKILL.md", f"scripts/{folder.name.replace('-', '_')}.py", f"tests/test_{folder.name.replace('-', '_')}.py",
        }  # fmt: skip


async def brought(home: Path, path: Path, box: NamespaceSandbox | None = None, **more: bool) -> list[ImportResult]:
    async with opened_library(home, box) as library:
        return await import_skills(path, library, provenance={"by": "import", "user": "somebody"}, **more)


@ON_THE_BOX
async def test_an_exported_skill_is_proved_again_when_it_is_imported(tmp_path: Path, box: NamespaceSandbox) -> None:
    here_, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "add.zip"
    for home in (here_, there):
        home.mkdir()
    async with opened_library(here_, box, trust=Trust(key(here_))) as library:
        made = await library.create(replace(proposal(examples=("one more",)), provenance={"by": "create_skill"}))
        file.write_bytes(exported(library.store, "add_one"))
    async with opened_library(there, box) as library:
        (one,) = await import_skills(file, library, provenance={"by": "import", "user": "somebody"})
        assert (one.outcome, one.version) == ("admitted", 1)
        got = await library.get("add_one")
        assert (got.code_sha256, got.tests_sha256) == (made.code_sha256, made.tests_sha256)
        assert (got.description, got.examples, got.timeout_s) == (made.description, made.examples, made.timeout_s)
        assert got.provenance["user"] == "somebody"
        assert got.provenance["imported"].startswith("add.zip, sha256 ")
        assert library.store.signer(got) == ""  # a signature from elsewhere is not kept
        (again,) = await import_skills(file, library, provenance={})
        assert (again.outcome, again.version) == ("already", 1)
        newer = replace(proposal(body="return 1 + number"), provenance={})
        await library.create(newer)
        (back,) = await import_skills(file, library, provenance={})
        assert (back.outcome, back.version) == ("admitted", 3)


@ON_THE_BOX
async def test_claims_about_a_proof_elsewhere_are_ignored(tmp_path: Path, box: NamespaceSandbox) -> None:
    """The metadata and the signature claim a proof, but the code does not pass its tests."""
    elsewhere = SkillStore(tmp_path / "elsewhere", Trust(key(tmp_path)))
    offered = proposal(body="return number + 2")
    code, tests = offered.code.encode(), offered.tests.encode()
    with elsewhere.lock():
        elsewhere.publish(skill("add_one", 1, code, tests), code, tests, replaces=0)
    (one,) = await brought(tmp_path, elsewhere.folder("add_one"), box)
    assert (one.outcome, "was not admitted" in one.text) == ("refused", True)
    assert SkillStore(tmp_path / "acquired_skills").names() == []


@ON_THE_BOX
async def test_a_foreign_skill_with_another_folder_layout_is_proved(tmp_path: Path, box: NamespaceSandbox) -> None:
    offered, folder = proposal(), tmp_path / "in" / "add-one"
    for path, text in (
        ("SKILL.md", FOREIGN.replace("pdf-forms", "add-one")),
        ("lib/core.py", offered.code),
        ("checks/core_test.py", offered.tests),
        ("assets/logo.png", "\x89PNG"),
        ("lib/helper.py", "def unrelated():\n    return 1\n"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (one,) = await brought(tmp_path, folder, box)
    assert (one.outcome, one.text) == ("admitted", "add_one version 1 is admitted: 1 test passed here.")
    got = SkillStore(tmp_path / "acquired_skills").read("add_one")
    assert got.description == "Fill in PDF forms. Use it when somebody has a form."


@ON_THE_BOX
async def test_a_skill_without_tests_is_listed_and_shown_but_never_run(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "pdf-forms"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(FOREIGN)
    (folder / "scripts" / "pdf_forms.py").write_text("raise SystemExit('ran')\ndef pdf_forms() -> int:\n    return 1\n")
    (one,) = await brought(tmp_path, folder)
    assert (one.outcome, one.version) == ("instructions", 0)
    assert "no file has tests" in one.text
    (again,) = await brought(tmp_path, folder)
    assert again.outcome == "already"
    async with opened_library(tmp_path, NoSandbox()) as library:
        assert await library.skills() == []
        (read,) = library.instructions.all()
        assert "Open the form, then write." in read.text
        assert read.files == ("scripts/pdf_forms.py",)
        assert (await library.folders.verify()).foreign == ()
        (folder / "SKILL.md").write_text(FOREIGN + "More.\n")
        (other,) = await import_skills(folder, library, provenance={})
        assert (other.outcome, "other instructions" in other.text) == ("refused", True)
        library.instructions.delete("pdf-forms")
        (new,) = await import_skills(folder, library, provenance={})
        assert new.outcome == "instructions"


@pytest.mark.spec("SKILL-17", "FACE-1")
def test_a_person_exports_imports_and_signs_at_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    offered = proposal(tests=ADD_ONE_TESTS)
    Path("add_one.py").write_text(offered.code)
    Path("checks.py").write_text(offered.tests)
    Path("pdf-forms").mkdir()
    Path("pdf-forms", "SKILL.md").write_text(FOREIGN)

    def run(home: str, *words: str) -> tuple[int, str, str]:
        ran = here(capfd, "--home", str(tmp_path / home), "skills", *words)
        return ran.code, ran.out, ran.err

    assert run("a", "add", "add_one.py", "--tests", "checks.py", "-d", "Adds one to a number.")[0] == 0
    assert "signed by nobody" in run("a", "show", "add_one")[1]
    public = json.loads(run("a", "sign", "--new-key", "--json")[1])
    assert public["signed"] == ["add_one"]
    shown = run("a", "show", "add_one")[1]
    assert f"signed by {public['public_key']}" in shown
    assert "from knackbox skills add, user " in shown
    assert f"1 signed by {public['public_key']}" in run("a", "verify")[1]
    assert run("a", "sign", "--new-key")[0] == 1
    assert run("b", "sign")[0] == 2
    assert run("a", "export", "add_one", "-o", "out.zip")[0] == 0
    code, out, _ = run("b", "import", "out.zip", "pdf-forms")
    assert (code, "add_one version 1 is admitted" in out, "stored as instructions only" in out) == (0, True, True)
    listed = json.loads(run("b", "list", "--json")[1])
    assert [(one["name"], one["state"]) for one in listed] == [("add_one", "probation"), ("pdf-forms", "instructions")]
    assert "Open the form, then write." in run("b", "show", "pdf-forms")[1]
    assert json.loads(run("b", "delete", "pdf-forms", "--json")[1]) == {"name": "pdf-forms", "state": "instructions"}
    assert run("b", "restore", "pdf-forms")[0] == 0
    Path("bad.zip").write_bytes(b"no zip")
    code, out, err = run("b", "import", "bad.zip")
    assert (code, out, err.count("\n")) == (1, "", 1)
    Path("b", "config.toml").write_text('[skills]\nsigning_key = "gone"\n')
    code, _, err = run("b", "list")
    assert (code, "Make one with `knackbox skills sign --new-key`" in err) == (3, True)
