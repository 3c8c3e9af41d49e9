"""What is moved out of a prompt: properties of any conversation, and the errors that say that a window is full."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart

from engine.agent.clients.context_overflow import ContextOverflow, context_overflow
from engine.agent.prompt.compaction import compact, plan_compaction
from engine.agent.prompt.prompt_parts import PersonPart, RecapPart, ResultNote
from engine.agent.prompt.recap import limited, recap_of, text_of
from engine.agent.prompt.token_estimate import message_tokens, text_tokens

pytestmark = pytest.mark.spec("LOOP-6")

RECAP = 300
# Each exchange: the user's message ("" to continue with the calls of the model), and the lengths of results.
EXCHANGES = st.lists(
    st.tuples(st.text("abc ", max_size=30), st.lists(st.integers(0, 6000), min_size=0, max_size=3)),
    min_size=1,
    max_size=25,
)


def conversation(exchanges: Sequence[tuple[str, list[int]]]) -> list[ModelMessage]:
    """Return a history that ends with a request. A result of length n consists of n characters."""
    history: list[ModelMessage] = [ModelRequest(parts=[PersonPart("The goal.")])]
    for number, (said, lengths) in enumerate(exchanges):
        calls = [ToolCallPart("look", {"n": n}, tool_call_id=f"{number}-{n}") for n in range(len(lengths))]
        history.append(ModelResponse(parts=[TextPart(f"Step {number}."), *calls]))
        results = [
            ToolReturnPart(
                "look",
                f"{number}-{n} ".ljust(length, "x"),
                tool_call_id=f"{number}-{n}",
                metadata=ResultNote(f"result://{number}-{n}", "look", changes=(f"created:{number}",)),
            )
            for n, length in enumerate(lengths)
        ]
        said_too = [PersonPart(f"{said} {number}")] if not results or said else []
        history.append(ModelRequest(parts=[*results, *said_too]))
    return history


def moved_out(history: list[ModelMessage], most: int, recap: int = RECAP) -> list[ModelMessage]:
    plan = plan_compaction(history, most, recap)
    part = None
    if plan.upto:
        kept = limited(recap_of(history[: plan.upto]), recap)
        part = RecapPart(content=text_of(kept), recap=kept)
    after = list(history)
    compact(after, plan, part)
    return after


@given(EXCHANGES, st.integers(1000, 8000))
def test_each_result_stays_with_its_call_and_requests_alternate_with_responses(
    exchanges: list[tuple[str, list[int]]], most: int
) -> None:
    after = moved_out(conversation(exchanges), most)
    calls = [part.tool_call_id for each in after for part in each.parts if isinstance(part, ToolCallPart)]
    results = [part.tool_call_id for each in after for part in each.parts if isinstance(part, ToolReturnPart)]
    assert calls == results
    kinds = [each.kind for each in after]
    assert kinds[::2] == ["request"] * len(kinds[::2])
    assert kinds[1::2] == ["response"] * len(kinds[1::2])
    assert kinds[-1] == "request"


@given(EXCHANGES, st.integers(1500, 8000))
def test_the_messages_fit_after_one_compaction(exchanges: list[tuple[str, list[int]]], most: int) -> None:
    history = conversation(exchanges)
    after = moved_out(history, most)
    slack = 150  # of the headings of a recap
    assert sum(map(message_tokens, after)) <= most + slack
    if sum(map(message_tokens, history)) <= most:
        assert after == history


@given(EXCHANGES)
def test_what_the_model_has_not_seen_keeps_its_beginning(exchanges: list[tuple[str, list[int]]]) -> None:
    history = conversation(exchanges)
    after = moved_out(history, 1500)
    for before, now in zip(history[-1].parts, after[-1].parts[-len(history[-1].parts) :], strict=True):
        if isinstance(before, ToolReturnPart) and isinstance(now, ToolReturnPart):
            assert str(now.content)[:100] == str(before.content)[:100]


@given(EXCHANGES, EXCHANGES)
def test_a_second_compaction_keeps_the_goal_and_the_changes_of_the_first(
    first: list[tuple[str, list[int]]], second: list[tuple[str, list[int]]]
) -> None:
    after = moved_out(conversation(first), 700)
    again = moved_out([*after, *conversation(second)[1:]], 700)
    seen = "\n".join(str(getattr(part, "content", "")) for message in again for part in message.parts)
    assert "The goal." in seen


def test_words_of_the_user_are_verbatim_and_handles_are_listed() -> None:
    after = moved_out(conversation([("Use the red one", [4000]), ("And then blue", [40])] * 4), 450)
    recap = after[0].parts[0]
    assert isinstance(recap, RecapPart)
    assert "- The goal." in str(recap.content)
    assert "- Use the red one 0" in str(recap.content)
    assert re.search(r"result://\d-0 look", str(recap.content))
    assert "created:0" in str(recap.content)


def test_the_estimate_counts_four_ascii_characters_or_one_other_as_a_token() -> None:
    assert [text_tokens(text) for text in ("", "abcd", "abcde", "日本", "日本abc")] == [0, 1, 2, 2, 3]


class _Refused(Exception):
    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"status_code: {status}, body: {body}")
        self.status_code = status
        self.body = body


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 8192),
        ("prompt is too long: 209023 tokens > 200000 maximum", 200000),
        ("The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).", 1048576),
        ("the request exceeds the available context size. try increasing it, n_ctx: 4096", 4096),
        ('{"code": "context_length_exceeded"}', 0),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", 0),
    ],
)
def test_what_providers_say_about_a_full_window_is_understood(said: str, window: int) -> None:
    assert context_overflow(_Refused(400, said)) == ContextOverflow(window)


@pytest.mark.parametrize(
    "error",
    [_Refused(400, "max_tokens is not supported"), _Refused(429, "context length of your queue"), ValueError("no")],
)
def test_other_errors_are_not_about_the_window(error: Exception) -> None:
    assert context_overflow(error) is None
