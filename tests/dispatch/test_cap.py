"""The output cap: a long text is shortened to head and tail, with a notice of where the full text is."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.contract.failure import ToolFailure
from engine.contract.result import ToolCall
from engine.dispatch.render import DEFAULT_CAP, OutputCap
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import TURN, open_pipeline


@tool()
async def say(text: str) -> str:
    """Say it."""
    return text


@tool()
async def shout(text: str) -> str:
    """Fail loudly."""
    raise ToolFailure(text)


@pytest.mark.spec("CALL-8")
async def test_a_long_message_is_shortened_to_head_and_tail_and_written_to_the_workspace(tmp_path):
    text = "HEAD" + "é" * 20_000 + "TAIL"
    async with open_pipeline(tmp_path, [say]) as h:
        result = await h.pipeline.call(ToolCall("say", {"text": text}, "call_1"), TURN)
    assert result.success
    assert result.output == text
    assert len(result.message.encode()) <= DEFAULT_CAP
    assert result.message.startswith("HEAD")
    assert result.message.endswith("TAIL")
    head, notice, tail = re.split(r"\n(\[… .* …\])\n", result.message)
    dropped = len(text.encode()) - len(head.encode()) - len(tail.encode())
    assert f"{dropped} bytes dropped" in notice
    assert ".knackbox/outputs/call_1.txt" in notice
    assert (tmp_path / ".knackbox/outputs/call_1.txt").read_text() == text


@pytest.mark.spec("CALL-8")
async def test_a_long_error_is_shortened_too(tmp_path):
    async with open_pipeline(tmp_path, [shout]) as h:
        result = await h.call("shout", text="x" * 50_000)
    assert not result.success
    assert len(result.error.encode()) <= DEFAULT_CAP
    assert (tmp_path / ".knackbox/outputs" / f"{result.audit.call_id}.txt").exists()


@pytest.mark.spec("CALL-8")
async def test_a_text_within_the_cap_is_unchanged_and_nothing_is_written(tmp_path):
    async with open_pipeline(tmp_path, [say]) as h:
        for text in ("x" * DEFAULT_CAP, "é" * (DEFAULT_CAP // 2)):
            assert (await h.call("say", text=text)).message == text
    assert not (tmp_path / ".knackbox").exists()


@pytest.mark.spec("CALL-8")
async def test_a_call_id_cannot_lead_out_of_the_output_folder_or_replace_an_earlier_file(tmp_path):
    async with open_pipeline(tmp_path, [say]) as h:
        for letter in "ab":
            result = await h.pipeline.call(ToolCall("say", {"text": letter * 20_000}, "../../x y"), TURN)
            assert result.success
    folder = tmp_path / ".knackbox/outputs"
    assert {each.name: each.read_text()[0] for each in folder.iterdir()} == {
        "______x_y.txt": "a",
        "______x_y-2.txt": "b",
    }


@pytest.mark.spec("CALL-8")
async def test_if_the_full_text_cannot_be_written_the_message_says_so(tmp_path):
    (tmp_path / ".knackbox").write_text("in the way")
    async with open_pipeline(tmp_path, [say]) as h:
        result = await h.call("say", text="x" * 20_000)
    assert result.success
    assert "could not be saved" in result.message
    assert len(result.message.encode()) <= DEFAULT_CAP


@pytest.mark.spec("CALL-8")
@given(st.text(min_size=300, max_size=3000))
@settings(max_examples=60, deadline=None)
def test_shortening_never_splits_a_character_and_counts_every_byte(tmp_path_factory, text):
    class Folder:
        root = tmp_path_factory.getbasetemp() / "none"

        def write(self, path, data):
            self.data = data

    cut = OutputCap(1000).cut(text, "c", Folder())
    data = text.encode()
    assert len(cut.encode()) <= 1000
    if len(data) > 1000:
        dropped = int(re.search(r"\[… (\d+) bytes dropped", cut)[1])
        head, tail = cut.split(f"\n[… {dropped} bytes dropped")[0], cut.rsplit(" …]\n", 1)[1]
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        assert len(head.encode()) + dropped + len(tail.encode()) == len(data)


def test_a_cap_that_is_too_small_is_rejected():
    with pytest.raises(ValueError, match="leaves no room"):
        OutputCap(10)
