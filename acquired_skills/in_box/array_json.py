"""Converts values of numpy and pandas from and to JSON, for an agent's call (SKILL-12). Runs in the box.

As JSON, an array is a list of lists, a series is a list, and a table is a list of records. Instead of an argument that
is too large for this, a call can pass the path of a file in the workspace.
"""

import functools
import importlib
import pathlib
import sys
import typing
from collections.abc import Callable
from typing import Annotated, Any

from pydantic_core import core_schema

MOST_CELLS = 20_000  # elements of one value as JSON
_TABLES: dict[str, str] = {".csv": "read_csv", ".json": "read_json", ".parquet": "read_parquet"}
_FILE = {"type": "string", "description": "The path of a file in the workspace: "}


def array_to_json(value: Any) -> Any:
    """Convert an array, series, table or scalar to plain values.

    Raises:
        TypeError: The value is too large, or is of another kind.
    """
    if getattr(value, "size", 0) > MOST_CELLS:
        raise TypeError(
            f"a {type(value).__name__} with {value.size:,} elements is too large to return (at most {MOST_CELLS:,}); "
            "write it to a file in the workspace and return the path"
        )
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.DataFrame):
            plain = _is_counted(value.index, pandas)
            table = value if plain else value.reset_index()
            table = table.set_axis([str(name) for name in table.columns], axis=1)
            return table.astype(object).where(table.notna(), None).to_dict("records")
        if isinstance(value, pandas.Series):
            values = value.astype(object).where(value.notna(), None)
            return list(values) if _is_counted(value.index, pandas) else values.to_dict()
        if isinstance(value, pandas.Index):
            return list(value)
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        plain_value = value.astype(str) if value.dtype.kind in "mM" else value
        return plain_value.tolist()
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _is_counted(index: Any, pandas: Any) -> bool:
    """Return whether an index only numbers the rows from 0."""
    return isinstance(index, pandas.RangeIndex) and (index.start, index.step, index.name) == (0, 1, None)


def array_hint(hint: Any) -> Any:
    """Return a type hint that pydantic can handle in place of a numpy or pandas type, or None for any other hint."""
    origin = typing.get_origin(hint) or hint
    home, name = getattr(origin, "__module__", ""), getattr(origin, "__name__", "")
    if (home, name) == ("numpy", "ndarray"):
        elements = [each for part in typing.get_args(hint) for each in typing.get_args(part)]
        kind = elements[-1] if elements and isinstance(elements[-1], type) else None
        schema: dict[str, Any] = {
            "anyOf": [{"type": "array", "items": {}}, {**_FILE, "description": _FILE["description"] + ".npy."}]
        }
        return Annotated[Any, _FromJson(functools.partial(_to_array, kind), schema)]
    if home.partition(".")[0] == "pandas" and name in ("DataFrame", "Series"):
        kinds = ", ".join(_TABLES)
        items: dict[str, Any] = {"type": "array", "items": {"type": "object"} if name == "DataFrame" else {}}
        schema = {"anyOf": [items, {**_FILE, "description": f"{_FILE['description']}{kinds}."}]}
        if name == "Series":
            schema = items
        return Annotated[Any, _FromJson(functools.partial(_to_pandas, name), schema)]
    return None


class _FromJson:
    """Tells pydantic to convert a JSON value with a function."""

    def __init__(self, convert: Callable[[Any], Any], schema: dict[str, Any]) -> None:
        self._convert = convert
        self._schema = schema

    def __get_pydantic_core_schema__(self, _: Any, __: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._convert)

    def __get_pydantic_json_schema__(self, _: Any, __: Any) -> dict[str, Any]:
        return self._schema


def _to_array(kind: Any, given: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if isinstance(given, str):
        with _found(given, (".npy",)).open("rb") as file:
            return numpy.load(file, allow_pickle=False)
    if not isinstance(given, list):
        raise ValueError("should be a list")  # noqa: TRY004 -- pydantic reports ValueErrors
    return numpy.array(given, dtype=kind)


def _to_pandas(name: str, given: Any) -> Any:
    pandas = importlib.import_module("pandas")
    if isinstance(given, str) and name == "DataFrame":
        path = _found(given, tuple(_TABLES))
        return getattr(pandas, _TABLES[path.suffix])(path)
    if not isinstance(given, list):
        raise ValueError("should be a list")  # noqa: TRY004 -- pydantic reports ValueErrors
    return getattr(pandas, name)(given)


def _found(path: str, suffixes: tuple[str, ...]) -> pathlib.Path:
    found = pathlib.Path(path)
    if found.suffix not in suffixes or not found.is_file():
        raise ValueError(f"should be a list, or the path of an existing file ({', '.join(suffixes)})")
    return found
