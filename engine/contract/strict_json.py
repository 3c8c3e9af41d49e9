"""Strict JSON: what is read can be written again, and what is written can be read, here and by every other reader.

Python's own reader takes `NaN`, turns `1e999` into infinity, lets the last of two equal keys win, and reads half of a
character; its writer then makes of them what no reader takes. So a single number could cost a whole file.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

DEEPEST = 64  # lists and objects within each other; Python's own limit lies near 1,000
MOST_DIGITS = 100  # of an integer; those of cryptography have 78


class JsonError(ValueError):
    """What is not strict JSON, or cannot be written as it, and why, in one line."""


def read_json(data: bytes | str, deepest: int = DEEPEST) -> Any:
    """The value. Raises JsonError, with line and column where there are any. The caller bounds the length.

    deepest: levels of lists and objects that are taken.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = json.loads(
            text, parse_constant=_no_number, parse_float=_finite, parse_int=_bounded, object_pairs_hook=_object
        )
    except RecursionError:
        raise JsonError(_nested(deepest)) from None
    except JsonError:
        raise
    except ValueError as error:
        raise JsonError(" ".join(str(error).split())[:300]) from error
    if too_deep(value, deepest):
        raise JsonError(_nested(deepest))
    if "\\u" in text:  # half of a character can only be written so
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise JsonError("a text in it has half of a character (a lone surrogate)") from None
    return value


def write_json(value: Any) -> str:
    """The value as text that `read_json` reads: indented, keys in order, a newline at its end. Raises JsonError."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        data = text.encode("utf-8")
    except RecursionError:
        raise JsonError(_nested(DEEPEST)) from None
    except (TypeError, ValueError) as error:
        raise JsonError(" ".join(str(error).split())[:300]) from error
    read_json(data)
    return text


def too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects are nested deeper than this. It does not recurse."""
    level = [value]
    for _ in range(levels):
        level = [inner for each in level for inner in _inside(each)]
    return any(isinstance(each, Mapping | list | tuple) for each in level)


def _nested(deepest: int) -> str:
    return f"it is nested more than {deepest} deep"


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonError(f"the key {twice[:80]!r} stands twice in one object")
    return made


def _bounded(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise JsonError(f"the number {text[:20]}… has more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:40])


def _no_number(text: str) -> NoReturn:
    raise JsonError(f"{text} is no JSON number that can be kept")
