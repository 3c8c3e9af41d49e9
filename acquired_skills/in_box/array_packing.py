"""Packs numpy and pandas values with their types. Runs in the box.

Other values are packed by `acquired_skills.in_box.packing`, which explains packing.

The elements are packed one by one, so the engine can change them to make deliberately wrong answers without importing
these libraries. The libraries are imported only in boxes that handle such values.
"""

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

MOST_ELEMENTS = 20_000
LIBRARIES = ("numpy", "pandas")
_INTEGERS, _TIMES, _OTHERS = "biu", "mM", "fcUS"
Pack = Callable[[Any], Any]


def is_array_value(value: Any) -> bool:
    """Return whether the class of a value comes from numpy or pandas."""
    return type(value).__module__.partition(".")[0] in LIBRARIES


def packed_array(value: Any, pack: Pack) -> Any:
    """Return a numpy or pandas value as JSON; None if values of its type cannot be packed."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and isinstance(value, numpy.generic):
        elements = _elements(value.reshape(1), pack)
        return None if elements is None else {"scalar": [value.dtype.str, elements[0]]}
    if getattr(value, "size", 0) > MOST_ELEMENTS:
        return None
    if numpy is not None and type(value) is numpy.ndarray:
        elements = _elements(value.ravel(), pack)
        return None if elements is None else {"array": [value.dtype.str, list(value.shape), elements]}
    return None if pandas is None else _of_pandas(value, pack, pandas)


def unpacked_array(kind: str, inner: Any, unpack: Pack) -> Any:
    """Restore a numpy or pandas value; return None for values of other kinds.

    Raises:
        ImportError: The library is not installed.
    """
    if kind not in _MADE:
        return None
    return _MADE[kind](inner, unpack)


def become(before: Any, after: Any) -> None:
    """Give the array `before` the contents of `after`. Other values of these libraries are not changed."""
    if hasattr(before, "dtype") and hasattr(before, "ravel") and before.shape == after.shape:
        before[...] = after


def _elements(flat: Any, pack: Pack) -> list[Any] | None:
    """Return the packed elements of a one-dimensional array; None for structured and other unusual types."""
    kind = flat.dtype.kind
    if flat.dtype.fields is not None or flat.dtype.char in "gG":
        return None
    if kind in _TIMES:
        return [int(each) for each in flat.view("int64")]
    if kind == "O":
        return [pack(each) for each in flat]
    return [pack(each) for each in flat.tolist()] if kind in _INTEGERS + _OTHERS else None


def _of_pandas(value: Any, pack: Pack, pandas: Any) -> Any:  # noqa: PLR0911 -- one return per kind
    if value is pandas.NaT or value is pandas.NA:
        return {"missing": "NaT" if value is pandas.NaT else "NA"}
    if isinstance(value, pandas.Timestamp):
        return {"timestamp": [value.isoformat(), None if value.tz is None else str(value.tz), value.unit]}
    if isinstance(value, pandas.Timedelta):
        return {"pandas_timedelta": [value.as_unit("ns").value, value.unit]}
    if isinstance(value, pandas.DataFrame):
        columns = [_column(value.iloc[:, place], pack, pandas) for place in range(value.shape[1])]
        return {"frame": [columns, pack(value.columns), pack(value.index)]}
    if isinstance(value, pandas.Series):
        return {"series": [_column(value, pack, pandas), pack(value.index), pack(value.name)]}
    if isinstance(value, pandas.RangeIndex):
        return {"range_index": [value.start, value.stop, value.step, pack(value.name)]}
    if isinstance(value, pandas.MultiIndex):
        return {"multi_index": [[pack(each) for each in value], [pack(name) for name in value.names]]}
    if isinstance(value, pandas.Index):
        frequency = getattr(value, "freqstr", None) if isinstance(value, pandas.DatetimeIndex) else None
        return {"index": [_column(value, pack, pandas), pack(value.name), frequency]}
    return None


def _column(values: Any, pack: Pack, pandas: Any) -> Any:
    dtype = values.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return {"categories": [pack(dtype.categories), [int(code) for code in values.array.codes], bool(dtype.ordered)]}
    if isinstance(dtype, sys.modules["numpy"].dtype):
        return pack(values.to_numpy())
    return {"column": [str(dtype), [pack(each) for each in values]]}


def _array(inner: Any, unpack: Pack) -> Any:
    numpy = importlib.import_module("numpy")
    dtype, shape, elements = inner
    kind = numpy.dtype(dtype).kind
    if kind in _TIMES:
        return numpy.array(elements, dtype="int64").view(dtype).reshape(shape)
    if kind == "O":
        made = numpy.empty(len(elements), dtype=object)
        for place, each in enumerate(elements):
            made[place] = unpack(each)
        return made.reshape(shape)
    values = [unpack(each) for each in elements]
    if math.prod(shape) != len(values):
        shape = [len(values)]
    return numpy.array(values, dtype=None if values else dtype).astype(dtype).reshape(shape)


def _scalar(inner: Any, unpack: Pack) -> Any:
    return _array([inner[0], [1], [inner[1]]], unpack)[0]


def _pandas() -> Any:
    return importlib.import_module("pandas")


def _frame(inner: Any, unpack: Pack) -> Any:
    columns, names, index = inner
    rows = unpack(index)
    made = _pandas().DataFrame(
        {place: _with_index(unpack(each), rows) for place, each in enumerate(columns)}, index=rows
    )
    made.columns = unpack(names)
    return made


def _with_index(values: Any, rows: Any, name: Any = None) -> Any:
    """Return a series with the type of the given values, which pandas would otherwise infer again."""
    return _pandas().Series(values, index=rows, name=name, dtype=values.dtype)


def _index(inner: Any, unpack: Pack) -> Any:
    values, name, frequency = inner
    made = unpack(values)
    if frequency:
        return _pandas().DatetimeIndex(made, name=unpack(name), freq=frequency)
    return _pandas().Index(made, dtype=made.dtype, name=unpack(name))


def _timestamp(inner: Any, _: Pack) -> Any:
    text, zone, unit = inner
    made = _pandas().Timestamp(text).as_unit(unit)
    return made if zone is None else made.tz_convert(zone)


def _categories(inner: Any, unpack: Pack) -> Any:
    categories, codes, ordered = inner
    return _pandas().Categorical.from_codes(codes, categories=unpack(categories), ordered=ordered)


_MADE: dict[str, Callable[[Any, Pack], Any]] = {
    "array": _array,
    "scalar": _scalar,
    "frame": _frame,
    "series": lambda inner, unpack: _with_index(*map(unpack, inner)),
    "index": _index,
    "range_index": lambda inner, unpack: _pandas().RangeIndex(*inner[:3], name=unpack(inner[3])),
    "multi_index": lambda inner, unpack: _pandas().MultiIndex.from_tuples(
        [unpack(each) for each in inner[0]], names=[unpack(name) for name in inner[1]]
    ),
    "categories": _categories,
    "column": lambda inner, unpack: _pandas().array([unpack(each) for each in inner[1]], dtype=inner[0]),
    "timestamp": _timestamp,
    "pandas_timedelta": lambda inner, _: _pandas().Timedelta(inner[0], unit="ns").as_unit(inner[1]),
    "missing": lambda inner, _: getattr(_pandas(), inner),
}
