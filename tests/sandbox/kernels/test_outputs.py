"""The fields of outputs are checked one by one, within a limit."""

import pytest

from sandbox.kernels.outputs import Outputs

pytestmark = pytest.mark.spec("KERN-4")


def stream(text: object, name: object = "stdout") -> tuple[str, dict[str, object]]:
    return "stream", {"name": name, "text": text}


def test_pieces_of_one_stream_are_one_output() -> None:
    outputs = Outputs(1000)
    for kind, content in (stream("a"), stream("b"), stream("c", "stderr"), stream("d")):
        outputs.take(kind, content)
    assert [(item.name, item.text) for item in outputs.items] == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]


def test_output_over_the_limit_is_counted_and_not_kept() -> None:
    outputs = Outputs(10)
    for text in ("x" * 8, "y" * 8, "z"):
        outputs.take(*stream(text))
    assert outputs.items[0].text == "x" * 8 + "z"
    assert (outputs.seen, outputs.dropped) == (17, 8)


def test_an_error_over_the_limit_keeps_its_type_and_the_start_of_its_message() -> None:
    outputs = Outputs(10)
    outputs.take("error", {"ename": "ValueError", "evalue": "m" * 5000, "traceback": ["t" * 5000]})
    assert outputs.error is not None
    assert (outputs.error.type, len(outputs.error.message), outputs.error.traceback) == ("ValueError", 1000, "")


def test_outputs_are_cleared_at_once_or_with_the_next_output() -> None:
    outputs = Outputs(1000)
    outputs.take(*stream("a"))
    outputs.take("clear_output", {"wait": True})
    assert len(outputs.items) == 1
    outputs.take(*stream("b"))
    assert [item.text for item in outputs.items] == ["b"]
    outputs.take("clear_output", {})
    assert outputs.items == []


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        stream(7),
        stream("a", ["stdout"]),
        ("display_data", {"data": "text", "transient": []}),
        ("execute_result", {}),
        ("error", {"traceback": {"a": 1}, "ename": None}),
        ("update_display_data", {"transient": {"display_id": 3}}),
        ("clear_output", {}),
        ("comm_open", {"data": {}}),
    ],
)
def test_fields_with_unexpected_types_are_ignored(kind: str, content: dict[str, object]) -> None:
    outputs = Outputs(1000)
    outputs.take(kind, content)
    for item in outputs.items:
        assert isinstance(item.text, str)
        assert isinstance(item.name, str)
        assert isinstance(item.data, dict)


def test_the_number_of_outputs_is_limited() -> None:
    outputs = Outputs(1 << 20)
    for number in range(5000):
        outputs.take(*stream("x", "stdout" if number % 2 else "stderr"))
    assert len(outputs.items) == 2000
    assert outputs.dropped == 1500  # the last output is still extended


def test_a_listener_gets_every_piece_as_it_arrives() -> None:
    heard: list[tuple[str, str]] = []
    outputs = Outputs(3, lambda name, text: heard.append((name, text)))
    for kind, content in (stream("ab"), stream("cd", "stderr"), stream(7)):
        outputs.take(kind, content)
    assert heard == [("stdout", "ab"), ("stderr", "cd"), ("stdout", "")]
