"""Features of the POSIX shell and of Node. Each is a small script whose output is compared."""

from collections.abc import Iterable
from pathlib import Path

from bench.fidelity.sides import Script
from sandbox.contract import Language

_FOLDER = Path(__file__).parent / "scripts"
_LANGUAGES = {"shell": (Language.BASH, ".sh"), "node": (Language.NODE, ".js")}


def scripts(suite: str, wanted: Iterable[str]) -> list[Script]:
    """Return the named scripts, or all scripts of the suite.

    Raises:
        LookupError: A named script does not exist.
    """
    language, suffix = _LANGUAGES[suite]
    names = list(wanted) or sorted(file.stem for file in _FOLDER.glob(f"*{suffix}"))
    if missing := [name for name in names if not (_FOLDER / f"{name}{suffix}").is_file()]:
        raise LookupError(f"There is no script {missing[0]}{suffix} in {_FOLDER}. List the folder to see the names.")
    return [Script(name, language, (_FOLDER / f"{name}{suffix}").read_text(encoding="utf-8")) for name in names]
