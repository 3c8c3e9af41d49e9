"""Parsing answers that people write in forms."""

from typing import Any

import pytest

from acquired_skills.model.written_answers import read_answer

pytestmark = pytest.mark.spec("GATE-7")


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("4", {"result": 4}),
        ('"4"', {"result": "4"}),
        ("'it''s'", {"result": "its"}),
        ("null", {"result": None}),
        ("None", {"result": None}),
        ("(1, 2)", {"result": [1, 2]}),
        ("{'a': (1,)}", {"result": {"a": [1]}}),
        ("hello world", {"result": "hello world"}),
        ("__import__('os')", {"result": "__import__('os')"}),
        ("raises ValueError", {"raises": "ValueError"}),
        ("raises an eyebrow", {"result": "raises an eyebrow"}),
        ("between [1, 2]", {"between": [1, 2]}),
        ("length 3", {"length": 3}),
        ("length unknown", {"result": "length unknown"}),
        ("unspecified", {"unspecified": True}),
    ],
)
def test_an_answer_is_a_result_or_another_check(text: str, checks: dict[str, Any]) -> None:
    assert read_answer(text) == checks


@pytest.mark.parametrize("text", ["between 5", "length -1", "x" * 20_001])
def test_an_invalid_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|use at most"):
        read_answer(text)
