"""The kernel's answer about its variables is untrusted, so each field of it is checked."""

import pytest

from builtin_tools.kernels.variables import overview_of

pytestmark = pytest.mark.spec("KERN-6")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        {},
        {"rows": {}},
        {"rows": 5, "total": 3},
    ],
)
def test_a_malformed_answer_is_not_an_overview(answer: object) -> None:
    assert overview_of(answer) is None


def test_rows_with_unexpected_types_are_omitted() -> None:
    rows = [
        ["x"],
        "xint",
        ["x", 1, None, None],
        [1, "int", None, None],
        ["ok", "int", -1, True],
        ["e\x1b[1m", "t", [["a", 1 << 80], "d\n"], 2],
    ]
    found = overview_of({"rows": rows, "total": "many"})
    assert found is not None
    assert [each.name for each in found.variables] == ["ok", "e?[1m"]
    assert found.variables[0].length is None
    assert (found.variables[1].shape, found.variables[1].dtype) == ((0, 0), "d?")
    assert found.total == 2
