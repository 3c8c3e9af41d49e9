"""Converts packed numpy and pandas values to what an agent receives, which an author can predict.

`acquired_skills.in_box.array_packing` packs them, and `acquired_skills.in_box.array_json` makes the JSON for agents.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from acquired_skills.in_box.array_packing import MOST_ELEMENTS

_KINDS = frozenset(("array", "scalar", "series", "frame", "index", "range_index", "missing"))
_OTHERS = frozenset(("multi_index", "categories", "column", "timestamp", "pandas_timedelta"))


def is_packed_array(value: Any) -> bool:
    """Return whether packed data comes from numpy or pandas."""
    return isinstance(value, dict) and len(value) == 1 and not (_KINDS | _OTHERS).isdisjoint(value)


def plain_value(value: Mapping[str, Any]) -> Any:
    """Return an array, series, table or scalar as packed lists, dicts and plain values.

    Raises:
        ValueError: An author cannot state such a value as JSON, for instance one with times, or the data is malformed.
    """
    try:
        return _plain(value)
    except (TypeError, IndexError, OverflowError) as error:  # the code in the box may have made it up
        raise ValueError("malformed data") from error


def _plain(value: Mapping[str, Any]) -> Any:
    match value:
        case {"scalar": [str(kind), item]}:
            return _elements(kind, [item])[0]
        case {"array": [str(kind), [*shape], [*items]]}:
            most = math.prod(max(each, 1) for each in shape)
            if most > MOST_ELEMENTS or min(shape, default=0) < 0 or math.prod(shape) != len(items):
                raise ValueError("an array of another shape")
            return _nested(_elements(kind, items), shape)
        case {"index": _}:
            return _labels(value)
        case {"series": [column, index, _]}:
            found = _column(column)
            return found if _is_counted(index) else _fields(_labels(index), found)
        case {"frame": [[*columns], names, index]}:
            table: dict[str, Sequence[Any]] = dict(zip(map(str, _labels(names)), map(_column, columns), strict=True))
            if not _is_counted(index):
                table = {_name_of(index): _labels(index), **table}
            return [_fields(list(table), row) for row in zip(*table.values(), strict=True)]
        case {"missing": _}:
            return None
    raise ValueError("an author cannot state such a value")


def can_be_stated(value: Any) -> bool:
    """Return whether an author can state packed data as JSON, as far as arrays and tables are concerned."""
    try:
        return _has_json_form(value)
    except (ValueError, RecursionError):
        return False


def _has_json_form(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_has_json_form, value))
    if not isinstance(value, dict):
        return True
    if is_packed_array(value):
        return _has_json_form(plain_value(value))
    return all(map(_has_json_form, _parts(value)))


def _parts(value: Mapping[str, Any]) -> list[Any]:
    match value:
        case {"object": [_, dict(fields), *_]}:
            return list(fields.values())
    return list(value.values())


def _elements(kind: str, items: Sequence[Any]) -> list[Any]:
    if kind[1:2] in ("m", "M"):
        raise ValueError("an array of times")
    return list(items)


def _nested(items: list[Any], shape: list[int]) -> Any:
    if not shape:
        return items[0]
    size = math.prod(shape[1:])
    return [_nested(items[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0])]


def _column(packed: Any) -> list[Any]:
    """Return the values of a column. Missing ones are None."""
    match packed:
        case {"array": [str(kind), _, [*items]]}:
            found = _elements(kind, items)
        case {"column": [str(), [*items]]}:
            found = items
        case {"categories": [names, [*codes], _]}:
            known = _labels(names)
            found = [known[code] if code >= 0 else None for code in codes]
        case _:
            raise ValueError("a column of an unusual type")
    return [None if each in ({"float": "nan"}, {"missing": "NA"}, {"missing": "NaT"}) else each for each in found]


def _labels(index: Any) -> Sequence[Any]:
    """Return the labels of an index. Those that are only counted are not listed, since they may be any number."""
    match index:
        case {"range_index": [start, stop, step, _]}:
            return range(start, stop, step)
        case {"index": [column, _, _]}:
            return _column(column)
    raise ValueError("an index of an unusual type")


def _name_of(index: Any) -> str:
    match index:
        case {"range_index": [_, _, _, name]} | {"index": [_, name, _]}:
            return "index" if name is None else str(name)
    return "index"


def _is_counted(index: Any) -> bool:
    """Return whether an index only numbers the rows from 0."""
    match index:
        case {"range_index": [0, _, 1, None]}:
            return True
    return False


def _fields(names: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    return {"dict": [list(pair) for pair in zip(names, values, strict=True)]}
