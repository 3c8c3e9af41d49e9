"""Reads the files of a skill to import: either a program with tests, which can be admitted, or instructions.

Proofs and versions from elsewhere are ignored, so the skill is proposed like any other. Its predictions and its
reference are read, but do not become part of the proposal here.
"""

import ast
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acquired_skills.model.names import PATTERN, skill_name
from acquired_skills.model.parsed import parse_source
from acquired_skills.model.prediction import MOST_PREDICTIONS, Prediction
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S, Proposal
from acquired_skills.model.skill import SkillDamaged, SkillKind
from acquired_skills.proof.admission_report import agreed_predictions, kept_reference
from acquired_skills.store.archive import SKILL_FILE, Files, Unreadable, digest_of
from acquired_skills.store.front_matter import FrontMatter, read_front
from acquired_skills.store.skill_file import PREFIX
from engine.contract.strict_json import JsonError, read_json

MOST_SOURCE = 64 << 10  # characters; longer Python files are not parsed, because they could not be admitted
_MOST_EXAMPLES = 64 << 10


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A skill to import.

    Attributes:
        digest: The SHA-256 of the names and contents of all its files.
        proposal: The proposal to be admitted here; None if the skill has only instructions.
        why: The reason why there is no proposal.
        predictions: The predictions in the admission report of the file, if Knackbox exported it.
        reference: The reference in that report; "" for none.
    """

    front: FrontMatter
    files: Files
    digest: str
    proposal: Proposal | None
    why: str = ""
    kind: SkillKind = SkillKind.CODE
    predictions: tuple[Prediction, ...] = ()
    reference: str = ""


def read_candidate(files: Files, where: str, provenance: dict[str, str]) -> ImportCandidate:
    """Read the files of a skill without running anything.

    Raises:
        Unreadable: The files are not an Agent Skill, or the kind of the skill is not supported.
    """
    data = files.get(SKILL_FILE)
    if data is None:
        raise Unreadable(
            f"{where} has no {SKILL_FILE}, so it is not a skill. If it contains folders of skills, import each of "
            "them. To propose a program with its tests, use `knackbox skills add`."
        )
    try:
        front, _ = read_front(data, f"{where}: {SKILL_FILE}")
    except SkillDamaged as error:
        raise Unreadable(str(error)) from None
    digest = digest_of(files)
    name, origin = skill_name(front.name), {**provenance, "imported": f"{where}, sha256 {digest}"[:1000]}
    kind = _kind(front, where)
    if kind is SkillKind.COMPOSED:
        found: tuple[str, str] | str = _pipeline_and_cases(name, files, f"{where}: {front.name}")
    else:
        found = _function_and_tests(name, files) if kind is SkillKind.CODE else _program_and_cases(name, files, kind)
    if isinstance(found, str):
        return ImportCandidate(front, files, digest, None, found)
    code, tests = found
    proposal = Proposal(
        name,
        front.description.strip(),
        code,
        tests,
        _examples(front),
        timeout_s=_timeout(front),
        provenance=origin,
        files=_extra_files(front, files, name),
        language=kind.language,
    )
    report = _report(front)
    predictions, reference = agreed_predictions(report)[:MOST_PREDICTIONS], kept_reference(report)
    return ImportCandidate(front, files, digest, proposal, kind=kind, predictions=predictions, reference=reference)


def _kind(front: FrontMatter, where: str) -> SkillKind:
    kind = front.metadata.get(f"{PREFIX}kind", SkillKind.CODE.value)
    try:
        return SkillKind(kind)
    except ValueError:
        raise Unreadable(
            f"{where}: {front.name} has the unknown kind `{kind[:40]}`. A newer version of Knackbox may support it."
        ) from None


def _pipeline_and_cases(name: str, files: Files, where: str) -> tuple[str, str]:
    """Return the JSON texts of a composed skill's pipeline and cases, unchecked.

    Raises:
        Unreadable: The pipeline or the cases are missing, or are not UTF-8 text.
    """
    program, cases = (files.get(path) for path in SkillKind.COMPOSED.files(name))
    if program is None or cases is None:
        missing = SkillKind.COMPOSED.files(name)[program is not None]
        raise Unreadable(f"{where} is a composed skill, but has no {missing}.")
    try:
        return program.decode(), cases.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"{where} is a composed skill, but its pipeline or its cases are not UTF-8 text.") from None


def _program_and_cases(name: str, files: Files, kind: SkillKind) -> tuple[str, str] | str:
    """Return the program and the cases of a Node or Bash skill, unchecked, or the reason why they cannot be used."""
    try:
        program, cases = (files[path].decode() for path in kind.files(name))
    except KeyError as missing:
        return f"it has no {missing.args[0]}"
    except UnicodeDecodeError:
        return "its program or its cases are not UTF-8 text"
    return program, cases


def _function_and_tests(name: str, files: Files) -> tuple[str, str] | str:
    """Return the sources of the function and the tests, or the reason why they cannot be used."""
    if not PATTERN.fullmatch(name):
        return f"`{name}` cannot be the name of a function here"
    sources = {path: (text, tree) for path, text, tree in python_sources(files)}
    ours, our_tests = SkillKind.CODE.files(name)
    testing = [path for path in sources if is_test(path) and _imports(sources[path][1], name)]
    having = [path for path in sources if not is_test(path) and _defines(sources[path][1], name)]
    codes, tests = _choose(having, ours), _choose(testing, our_tests)
    if len(codes) != 1:
        return f"{'more than one file has' if codes else 'no file has'} a function `{name}`"
    if len(tests) != 1:
        return f"{'more than one file has' if tests else 'no file has'} tests that import `{name}`"
    return sources[codes[0]][0], sources[tests[0]][0]


def _choose(found: list[str], usual: str) -> list[str]:
    return [usual] if usual in found else found


def python_sources(files: Files) -> Iterator[tuple[str, str, ast.Module]]:
    """Yield the path, the text and the syntax tree of each Python file that can be parsed."""
    for path, data in files.items():
        if path.endswith(".py") and len(data) <= MOST_SOURCE:
            try:
                text = data.decode()
                yield path, text, parse_source(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue


def is_test(path: str) -> bool:
    """Return whether a Python file is a test module, judging by its name."""
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py")


def _defines(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in tree.body)


def _imports(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == name for node in ast.walk(tree)) or any(
        isinstance(node, ast.Import) and any(alias.name == name for alias in node.names) for node in ast.walk(tree)
    )


def _examples(front: FrontMatter) -> tuple[str, ...]:
    """Return the examples in the front matter; none if they are malformed.

    Static checks limit their number and size.
    """
    text = front.metadata.get(f"{PREFIX}examples", "[]")
    try:
        found = json.loads(text) if len(text) <= _MOST_EXAMPLES else []
    except (ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else ()


def _report(front: FrontMatter) -> dict[str, Any]:
    """Return the admission report in the front matter, unchecked; empty if it is malformed."""
    try:
        found = read_json(front.metadata.get(f"{PREFIX}admission", "{}"))
    except JsonError:
        return {}
    return found if isinstance(found, dict) else {}


def _extra_files(front: FrontMatter, files: Files, name: str) -> dict[str, str]:
    """Return the extra files that the front matter lists, unchecked. Missing ones are left out."""
    try:
        listed = json.loads(front.metadata.get(f"{PREFIX}extra", "{}"))
    except (ValueError, RecursionError):
        return {}
    folder = SkillKind.CODE.files(name)[0].rpartition("/")[0]
    found = {path: files.get(f"{folder}/{path}") for path in listed} if isinstance(listed, dict) else {}
    return {path: data.decode(errors="replace") for path, data in found.items() if data is not None}


def _timeout(front: FrontMatter) -> float:
    try:
        found = float(front.metadata.get(f"{PREFIX}timeout", DEFAULT_TIMEOUT_S))
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return found if math.isfinite(found) else DEFAULT_TIMEOUT_S
