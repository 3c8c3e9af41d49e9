"""Strict JSON: whatever is read can be written again, and whatever is written can be read by any JSON parser.

Python's `json` accepts `NaN`, turns `1e999` into infinity, keeps the last of duplicate keys, and accepts lone
surrogates. Its writer then produces text that other parsers reject, so a single number could make a file unreadable.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

DEEPEST = 64  # the maximum nesting of lists and objects; Python's own limit is about 1,000
_MOST_STARTS = 1_000  # braces with which the first object of a text may begin
MOST_DIGITS = 100  # the maximum number of digits of an integer; a 256-bit integer has up to 78


class JsonError(ValueError):
    """A text is not strict JSON, or a value cannot be written as strict JSON. The message is one line."""


def read_json(data: bytes | str, deepest: int = DEEPEST) -> Any:
    """Parse strict JSON. The caller must limit the length of `data`.

    Args:
        data: The JSON text.
        deepest: The maximum nesting of lists and objects.

    Raises:
        JsonError: The text is not strict JSON. The message gives line and column where known.
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
    if "\\u" in text:  # a lone surrogate can only be written as an escape
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise JsonError("a string contains a lone surrogate") from None
    return value


def read_first_object(text: str) -> dict[str, Any]:
    """Parse the first JSON object in a text, such as a model's answer with words or a code fence around the object.

    Raises:
        JsonError: There is none, or it is not strict JSON. The message says what is wrong where the first one begins.
    """
    decoder, start, problem = json.JSONDecoder(), text.find("{"), ""
    for _ in range(_MOST_STARTS):
        if start < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
        except RecursionError:
            raise JsonError(_nested(DEEPEST)) from None
        except ValueError as error:
            problem = problem or " ".join(str(error).split())[:300]
            start = text.find("{", start + 1)
            continue
        found: dict[str, Any] = read_json(text[start:end])
        return found
    raise JsonError(f"the object is not JSON: {problem}" if problem else "there is no JSON object")


def write_json(value: Any) -> str:
    """Return the value as text that `read_json` accepts: indented, sorted keys, a final newline.

    Raises:
        JsonError: The value has no strict JSON form.
    """
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
    """Return whether lists and objects are nested deeper than `levels`. It is not recursive, so any depth is safe."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list | tuple)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, Mapping | list | tuple) for each in level)


def _nested(deepest: int) -> str:
    return f"lists or objects are nested more than {deepest} levels deep"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonError(f"duplicate key {twice[:80]!r} in one object")
    return made


def _bounded(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise JsonError(f"the number {text[:20]}… has more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text[:40])


def _no_number(text: str) -> NoReturn:
    raise JsonError(f"{text} is not a finite JSON number")
