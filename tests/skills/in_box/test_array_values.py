"""Values of numpy and pandas are packed exactly for admission, and converted to plain JSON for agents."""

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from acquired_skills.in_box.json_values import to_json
from acquired_skills.in_box.packing import NotPackable, packed
from acquired_skills.in_box.skill_arguments import accept, describe
from acquired_skills.in_box.unpacking import unpacked
from acquired_skills.proof.wrong_answers import WAYS, wrong_answer

HERE = types.ModuleType("nowhere")
TYPES = ["<i8", "|u1", ">i2", "<f8", "<f4", "|b1", "<c16", "<U3", "|S2", "<M8[ns]", "<m8[s]"]
TABLE = pd.DataFrame(
    {
        "count": [1, 2],
        "word": ["x", None],
        "day": pd.to_datetime(["2024-01-01", None]),
        "kind": pd.Categorical(["u", "v"], ordered=True),
        "whole": pd.array([1, None], dtype="Int64"),
        "part": [1.5, np.nan],
        "zoned": pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("Europe/Berlin"),
        "span": [pd.Timedelta("1D"), pd.NaT],
        "mixed": [[1], {2}],
        7: [True, False],
    }
)
TABLES = {
    "all types": TABLE,
    "no rows": TABLE.iloc[:0],
    "nothing": pd.DataFrame(),
    "own index": TABLE.set_index("word"),
    "two indexes": pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([("a", 1)], names=["x", "y"])),
    "days": pd.DataFrame({"n": [1, 2]}, index=pd.date_range("2024-01-01", periods=2, freq="D")),
    "one name twice": pd.DataFrame([[1, 2]], columns=["a", "a"]),
}


def through_json(value: Any) -> Any:
    return unpacked(json.loads(json.dumps(packed(value, "nowhere"))), HERE)


@pytest.mark.spec("SKILL-7")
@given(some.sampled_from(TYPES), some.lists(some.integers(0, 255), max_size=6), some.booleans())
def test_an_array_keeps_type_shape_and_elements(dtype: str, numbers: list[int], upright: bool) -> None:
    value = np.array(numbers, dtype="int64").astype(dtype)
    value = value.reshape(-1, 1) if upright else value
    again = through_json(value)
    assert (type(again), again.dtype, again.shape) == (np.ndarray, value.dtype, value.shape)
    np.testing.assert_array_equal(again, value)
    for each in value.ravel():
        assert type(through_json(each)) in (type(each), type(each).__mro__[1], float, complex, str, bytes)


@pytest.mark.spec("SKILL-7")
def test_nan_and_objects_are_preserved() -> None:
    value = np.array([np.nan, -0.0, np.inf])
    assert through_json(value).tobytes() == value.tobytes()
    assert through_json(np.array([1, None, "x"], dtype=object)).tolist() == [1, None, "x"]
    for each in (pd.NaT, pd.NA):
        assert through_json(each) is each
    assert through_json(pd.Timestamp("2024-01-01 00:00:00.000000001")).nanosecond == 1


@pytest.mark.spec("SKILL-7")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_a_table_keeps_its_types_names_and_index(table: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(through_json(table), table)
    for name in table.columns.unique():
        if isinstance(table[name], pd.Series):
            pd.testing.assert_series_equal(through_json(table[name]), table[name])


@pytest.mark.spec("SKILL-7")
def test_huge_and_unusual_arrays_are_not_packed() -> None:
    structured = np.zeros(2, dtype=[("a", int)])
    for value in (np.zeros(1_000_000), structured, np.ma.array([1]), pd.Series(np.zeros(1_000_000))):
        with pytest.raises(NotPackable):
            packed(value, "nowhere")


@pytest.mark.spec("SKILL-4")
@pytest.mark.parametrize("value", [np.arange(4).reshape(2, 2), np.float32(2), TABLE[["count", "part"]], TABLE["word"]])
def test_wrong_answers_are_made_from_arrays_and_tables(value: Any) -> None:
    wire = packed(value, "nowhere")
    for way in range(WAYS):
        wrong = wrong_answer({"value": wire}, way)["value"]
        assert wrong != wire
        assert type(unpacked(wrong, HERE)) is type(value)


def summed(
    numbers: np.ndarray, weights: NDArray[np.float32], table: pd.DataFrame, last: pd.Series | None = None
) -> None:
    """Take arrays and tables."""


@pytest.mark.spec("SKILL-3", "SKILL-12")
def test_arrays_and_tables_are_passed_as_lists_or_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("numbers.npy", np.arange(3))
    pd.DataFrame({"x": [1]}).to_csv("table.csv", index=False)
    found = describe(summed)
    assert not found["plain"]
    assert found["parameters"]["properties"]["table"]["anyOf"][0] == {"type": "array", "items": {"type": "object"}}
    here = accept(summed, {"numbers": [[1, 2]], "weights": [1], "table": [{"x": 1, "y": "a"}], "last": [1]})
    assert here["numbers"].shape == (1, 2)
    assert here["weights"].dtype == np.float32
    assert list(here["table"].columns) == ["x", "y"]
    assert here["last"].tolist() == [1]
    files = accept(summed, {"numbers": "numbers.npy", "weights": [], "table": "table.csv"})
    assert files["numbers"].tolist() == [0, 1, 2]
    assert files["table"].to_dict("records") == [{"x": 1}]


@pytest.mark.spec("SKILL-12")
def test_a_file_with_pickled_objects_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="numbers"):
        accept(summed, {"numbers": "objects.npy", "weights": [], "table": []})


@pytest.mark.spec("SKILL-12")
def test_results_become_lists_and_records_and_large_results_are_a_type_error() -> None:
    assert to_json({"n": np.int64(3), "m": [np.bool_(True), np.arange(4).reshape(2, 2)]}) == {
        "n": 3,
        "m": [True, [[0, 1], [2, 3]]],
    }
    assert to_json(TABLE[["count", "word", "day", 7]].iloc[1:]) == [
        {"index": 1, "count": 2, "word": None, "day": None, "7": False}
    ]
    assert to_json(TABLE["part"]) == [1.5, None]
    with pytest.raises(TypeError, match="write it to a file"):
        to_json(np.zeros(1_000_000))
