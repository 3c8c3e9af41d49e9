"""`files_containing`: searches every file below a folder for texts, in common encodings."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import re2

_BLOCK = 4 << 20  # bytes to read at once
_SHORTEST = 4  # characters; shorter texts occur by chance in unrelated files
_LONGEST = 400  # characters; of a longer text, this many from its beginning and from its middle are searched
_MEMORY = 1 << 28  # bytes that the matcher may use
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")

Progress = Callable[[int, int], None]


def files_containing(root: Path, texts: Iterable[str], progress: Progress | None = None) -> list[Path]:
    """Return the files below a folder that contain at least one of the texts, sorted. Symbolic links are skipped.

    Each text is searched in UTF-8 and UTF-16, as it is and as a JSON string.

    Args:
        root: The folder.
        texts: The texts. Texts of fewer than four characters are not searched.
        progress: Called with the number of searched files and the total number of files.
    """
    needles = sorted({needle for text in texts for needle in _needles(text)})
    if not needles:
        return []
    matcher = _matcher(needles)
    overlap = max(map(len, needles)) - 1
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    found = []
    for at, path in enumerate(files, 1):
        if _contains(path, matcher, overlap):
            found.append(path)
        if progress is not None:
            progress(at, len(files))
    return found


def _needles(text: str) -> set[bytes]:
    parts = [text] if len(text) <= _LONGEST else [text[:_LONGEST], text[len(text) // 2 :][:_LONGEST]]
    shapes = {
        shape for part in parts for shape in (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])
    }
    return {
        shape.encode(encoding, "surrogatepass") for shape in shapes if len(shape) >= _SHORTEST for encoding in ENCODINGS
    }


def _matcher(needles: Sequence[bytes]) -> "re2.Set":
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY
    options.log_errors = False
    matcher = re2.Set.SearchSet(options)
    for needle in needles:
        matcher.Add(re2.escape(needle))
    matcher.Compile()
    return matcher


def _contains(path: Path, matcher: "re2.Set", overlap: int) -> bool:
    try:
        with path.open("rb") as file:
            rest = b""
            while block := file.read(_BLOCK):
                if matcher.Match(rest + block):
                    return True
                rest = (rest + block)[-overlap:] if overlap else b""
    except OSError:  # the file has disappeared or is unreadable
        return False
    return False
