"""Predictions travel with an exported skill, and count where somebody vouches for them."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import Skill
from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import ImportResult, import_skills
from acquired_skills.proof.admission_report import agreed_predictions, kept_reference, open_questions, report_notes
from acquired_skills.store.trust import Trust
from engine.registry.signing import SigningKey
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-9"), pytest.mark.slow]
BODY = "return 100 if number > 99 else number + 1"
REFERENCE = (
    "def add_one(number):\n    found = number\n    for _ in range(1):\n        found += 1\n"
    "    while found > 100:\n        found -= 1 if found < 300 else found // 2\n    return found\n"
)


def key(folder: Path) -> SigningKey:
    made = SigningKey(folder / ".key" / "k")
    made.make(lambda _: None)
    return made


async def exported(home: Path, box: NamespaceSandbox, *, trust: Trust | None = None, **more: object) -> bytes:
    """Return the export of a skill whose questions were answered correctly."""
    home.mkdir()
    offered: Proposal = replace(proposal(body=BODY), **more)  # type: ignore[arg-type]
    async with opened_library(home, box, trust=trust, effort=UNHURRIED) as library:
        for _ in range(5):
            try:
                await library.create(offered)
                return zipped({"add_one": files_of(library.store, library.instructions, "add_one")})
            except SkillRefused as refused:
                answers = [
                    Prediction(each.arguments, {"result": min(each.arguments["number"] + 1, 100)})
                    for each in refused.questions
                ]
                offered = replace(offered, expected=(*offered.expected, *answers))
    raise AssertionError("the skill was not admitted")


async def brought(
    home: Path, data: bytes, box: NamespaceSandbox, *, trust: Trust | None = None, vouch: tuple[bool, ...] = (False,)
) -> tuple[ImportResult, Skill | None]:
    home.mkdir()
    file = home / "skill.zip"
    file.write_bytes(data)
    async with opened_library(home, box, trust=trust, effort=UNHURRIED) as library:
        for each in vouch:
            (one,) = await import_skills(file, library, provenance={"by": "test"}, trust_predictions=each)
        return one, await library.find("add_one")


def changed(data: bytes, old: str, new: str, file: str = "SKILL.md") -> bytes:
    """Return an export with a change in one of its files."""
    files: Mapping[str, bytes]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {each.partition("/")[2]: archive.read(each) for each in archive.namelist()}
    (path,) = (each for each in files if each.endswith(file))
    text = files[path].decode()
    assert old in text
    return zipped({"add_one": {**files, path: text.replace(old, new).encode()}})


async def test_predictions_of_a_stranger_do_not_lift_the_mark(tmp_path: Path, box: NamespaceSandbox) -> None:
    one, skill = await brought(tmp_path / "there", await exported(tmp_path / "here", box), box)
    assert skill is not None
    assert open_questions(skill.admission) > 0
    assert not agreed_predictions(skill.admission)
    assert any("nobody here vouches" in note for note in report_notes(skill.admission))
    assert "--trust-predictions" in one.text


async def test_predictions_count_where_a_person_vouches_even_in_a_second_import(
    tmp_path: Path, box: NamespaceSandbox
) -> None:
    data = await exported(tmp_path / "here", box)
    one, skill = await brought(tmp_path / "there", data, box, vouch=(True,))
    assert skill is not None
    assert open_questions(skill.admission) == 0
    assert agreed_predictions(skill.admission)
    one, skill = await brought(tmp_path / "later", data, box, vouch=(False, True, True))
    assert skill is not None
    assert (one.outcome, skill.version, open_questions(skill.admission)) == ("already", 2, 0)


async def test_predictions_count_if_a_trusted_key_signed_them(tmp_path: Path, box: NamespaceSandbox) -> None:
    (tmp_path / "keys").mkdir()
    own = key(tmp_path / "keys")
    data = await exported(tmp_path / "here", box, trust=Trust(own))
    _, skill = await brought(tmp_path / "trusting", data, box, trust=Trust(None, frozenset({own.public}), False))
    assert skill is not None
    assert open_questions(skill.admission) == 0
    forged = changed(data, "Adds one to a whole number.", "Adds one to any whole number.")
    _, skill = await brought(tmp_path / "forged", forged, box, trust=Trust(None, frozenset({own.public}), False))
    assert skill is not None
    assert open_questions(skill.admission) > 0


async def test_a_signature_does_not_vouch_for_code_that_was_exchanged(tmp_path: Path, box: NamespaceSandbox) -> None:
    """The attempt: keep the signed `SKILL.md` with its predictions, and bring other code that agrees with them."""
    (tmp_path / "keys").mkdir()
    own = key(tmp_path / "keys")
    data = await exported(tmp_path / "here", box, trust=Trust(own))
    other = changed(data, BODY, BODY.replace("number > 99", "number == 100 or number > 99"), "scripts/add_one.py")
    _, skill = await brought(tmp_path / "there", other, box, trust=Trust(None, frozenset({own.public}), False))
    assert skill is not None
    assert open_questions(skill.admission) > 0
    assert not agreed_predictions(skill.admission)


async def test_a_prediction_that_the_code_contradicts_refuses_the_import_without_the_result(
    tmp_path: Path, box: NamespaceSandbox
) -> None:
    data = changed(await exported(tmp_path / "here", box), json.dumps({"result": 100})[1:-1], '"result": 4711')
    one, skill = await brought(tmp_path / "there", data, box)
    assert (one.outcome, skill) == ("refused", None)
    assert "The file predicts `4711` for `add_one(number=" in one.text
    assert "`100`" not in one.text


async def test_a_reference_is_used_where_a_person_vouches(tmp_path: Path, box: NamespaceSandbox) -> None:
    data = await exported(tmp_path / "here", box, reference=REFERENCE)
    _, skill = await brought(tmp_path / "there", data, box, vouch=(True,))
    assert skill is not None
    assert kept_reference(skill.admission).strip() == REFERENCE.strip()
    _, skill = await brought(tmp_path / "strange", data, box)
    assert skill is not None
    assert not kept_reference(skill.admission)
    assert open_questions(skill.admission) > 0
