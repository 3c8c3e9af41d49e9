"""Checks the extra files of a proposal: further modules, and data that the code reads (SKILL-2)."""

import keyword
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from acquired_skills.model.names import EXTRA_PATH, MOST_EXTRA, module_used_as
from acquired_skills.model.parsed import ParsedSource, too_deep
from acquired_skills.model.proposal import Proposal, ProposalProblem
from sandbox.contract import Language

MAX_FILE_BYTES = 64 << 10
MAX_ALL_BYTES = 256 << 10
SUFFIX = ".py"


def check_extra_files(proposal: Proposal) -> Iterator[ProposalProblem]:
    """Yield problems with the number, the sizes and the paths of the extra files."""
    files = proposal.files
    if len(files) > MOST_EXTRA:
        yield _problem(f"There are {len(files)} extra files: send at most {MOST_EXTRA}.")
        return
    whole = 0
    for path, text in files.items():
        size = len(text.encode(errors="replace"))
        whole += size
        if size > MAX_FILE_BYTES:
            yield _problem(f"{path[:80]!a} has {size:,} bytes: keep it under {MAX_FILE_BYTES:,} bytes.")
        elif text.encode(errors="replace").decode() != text:
            yield _problem(f"{path[:80]!a} has characters that UTF-8 cannot represent: remove them.")
        yield from _path(path, proposal.name, hides=proposal.language is Language.PYTHON or path.endswith(SUFFIX))
    if whole > MAX_ALL_BYTES:
        yield _problem(f"The extra files have {whole:,} bytes together: keep them under {MAX_ALL_BYTES:,} bytes.")
    folded = [path.casefold() for path in files]
    folders = {str(parent) for path in folded for parent in PurePosixPath(path).parents}
    for path, same in zip(files, folded, strict=True):
        if folded.count(same) > 1 or same in folders:
            yield _problem(f"{path!a} has the same name as another file or folder: choose another name.")


def parse_modules(files: Mapping[str, str], problems: list[ProposalProblem]) -> dict[str, ParsedSource]:
    """Parse the Python modules among the extra files. Add a problem for each that is invalid."""
    found: dict[str, ParsedSource] = {}
    for path, text in files.items():
        if not path.endswith(SUFFIX):
            continue
        try:
            found[path] = ParsedSource.parse(text)
            if deep := too_deep(found[path].tree):
                problems.append(_problem(f"{path[:80]!a}: {deep}"))
        except SyntaxError as error:
            problems.append(_problem(f"{path[:80]!a}, line {error.lineno}: {error.msg}. Correct that line."))
        except (ValueError, RecursionError, MemoryError) as error:
            problems.append(_problem(f"{path[:80]!a} cannot be parsed ({type(error).__name__}): make it simpler."))
    return found


def module_names(files: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the top-level modules and packages among the extra files."""
    return frozenset(path.partition("/")[0].removesuffix(SUFFIX) for path in files if path.endswith(SUFFIX))


def _path(path: str, name: str, *, hides: bool) -> Iterator[ProposalProblem]:
    """Yield problems with a path. If `hides` is true, the path must not hide a module of Python or the engine."""
    if not EXTRA_PATH.fullmatch(path) or path.endswith("."):
        yield _problem(
            f"{path[:80]!a} cannot be the path of a file: use up to four parts of ASCII letters, digits, `_`, `-` and "
            "`.`, separated by `/`, such as `rules/rates.json`."
        )
        return
    top = path.partition("/")[0].removesuffix(SUFFIX)
    if top == name:
        yield _problem(f"{path!a} has the name of the skill's main file, which is sent as `code`: choose another name.")
    elif hides and (used := module_used_as(top)):
        yield _problem(f"{path!a}: `{top}` is {used}. Choose another name.")
    if path.endswith(SUFFIX):
        parts = path.removesuffix(SUFFIX).split("/")
        if wrong := next((part for part in parts if not part.isidentifier() or keyword.iskeyword(part)), ""):
            yield _problem(f"{path!a} cannot be imported, because `{wrong}` is not an identifier: choose another name.")


def _problem(text: str) -> ProposalProblem:
    return ProposalProblem("files", text)
