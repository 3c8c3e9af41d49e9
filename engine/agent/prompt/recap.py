"""Writes the recap of turns that were moved out of the prompt, by rule (LOOP-6)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart

from engine.agent.prompt.prompt_parts import PersonPart, Recap, RecapPart, note_of
from engine.agent.prompt.token_estimate import text_tokens

WORDS_SHARE, SUMMARY_SHARE, RESULTS_SHARE = 0.4, 0.3, 0.2  # of the tokens of a recap
NAMES = 20  # skills, and changes
_GIST = 100  # characters of a result or of arguments
_SAID = 200  # characters of a text of the model
_HEAD = """\
[Earlier parts of this conversation were moved out of the prompt. `recall` finds them by their content, and reads a \
result by its handle: recall(handle="result://…").]"""


def recap_of(moved: Sequence[ModelMessage]) -> Recap:
    """Return the recap of messages, which may begin with an earlier recap. It is not limited in length."""
    parts = [part for message in moved for part in message.parts]
    earlier = next((part.recap for part in parts if isinstance(part, RecapPart)), Recap())
    given = {part.tool_call_id: part.args_as_json_str() for part in parts if isinstance(part, ToolCallPart)}
    returned = [part for part in parts if isinstance(part, ToolReturnPart)]
    notes = [note_of(part) for part in returned]
    results = [
        f"{note.handle} {note.tool} {gist(given.get(part.tool_call_id, ''))}: {_ended(part, success=note.success)}"
        for part, note in zip(returned, notes, strict=True)
        if note.handle
    ]
    said = [gist(text, _SAID) for text in _texts(moved)]
    summary = "\n".join([*([earlier.summary] if earlier.summary else []), *(f"- {text}" for text in said)])
    return Recap(
        (*earlier.words, *(part.words for part in parts if isinstance(part, PersonPart))),
        earlier.omitted,
        summary,
        (*earlier.results, *results),
        _latest([*earlier.skills, *(note.tool for note in notes if note.skill)]),
        _latest([*earlier.changes, *(gist(change) for note in notes for change in note.changes)]),
    )


def limited(recap: Recap, tokens: int) -> Recap:
    """Return the recap with at most about `tokens` tokens.

    Of the user's messages, the first one and the newest ones stay; of the summary and the results, the newest lines.
    """
    words, omitted = _limited_words(recap.words, int(tokens * WORDS_SHARE))
    return replace(
        recap,
        words=words,
        omitted=recap.omitted + omitted,
        summary="\n".join(_newest(recap.summary.split("\n"), int(tokens * SUMMARY_SHARE))),
        results=tuple(_newest(recap.results, int(tokens * RESULTS_SHARE))),
    )


def text_of(recap: Recap) -> str:
    """Return the text of a recap for the model."""
    lines = [_HEAD]
    if recap.words:
        lines += ["What the user said, oldest first:"]
        lines += [f"- {words}" for words in recap.words[:1]]
        lines += [f"- [{recap.omitted} more, which `recall` finds]"] if recap.omitted else []
        lines += [f"- {words}" for words in recap.words[1:]]
    if recap.summary:
        lines += ["What happened:", recap.summary]
    for title, each in (("Results", recap.results), ("Skills used", recap.skills), ("Changes made", recap.changes)):
        if each:
            lines += [f"{title}:", *(f"- {line}" for line in each)]
    return "\n".join(lines)


def gist(text: str, characters: int = _GIST) -> str:
    """Return the start of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def shortened(text: str, tokens: int) -> str:
    """Return the beginning and the end of a text if it has more than `tokens` tokens."""
    size = text_tokens(text)
    if size <= tokens:
        return text
    kept = max(len(text) * tokens // size, 2)
    return f"{text[: kept * 2 // 3]} […] {text[-(kept // 3) :]}"


def _ended(part: ToolReturnPart, *, success: bool) -> str:
    return f"{'' if success else 'failed: '}{gist(str(part.content))}"


def _texts(messages: Sequence[ModelMessage]) -> Iterable[str]:
    for message in messages:
        if isinstance(message, ModelResponse):
            yield from (part.content for part in message.parts if isinstance(part, TextPart) and part.content.strip())


def _latest(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetitions; of too many, the latest."""
    return tuple(dict.fromkeys(reversed([*names])))[:NAMES][::-1]


def _newest(lines: Sequence[str], tokens: int, cut: Callable[[str, int], str] = shortened) -> list[str]:
    """Return the newest lines that have at most `tokens` tokens together, oldest first. The newest one is cut."""
    kept: list[str] = []
    left = tokens
    for line in reversed(lines):
        size = text_tokens(line)
        if size > left and kept:
            break
        kept.append(cut(line, tokens))
        left -= size
    return kept[::-1]


def _limited_words(words: tuple[str, ...], tokens: int) -> tuple[tuple[str, ...], int]:
    """Return the first message and the newest ones within a limit, and how many are omitted."""
    if not words:
        return (), 0
    newest = _newest(words[1:], tokens * 3 // 4)
    first = shortened(words[0], max(tokens - sum(map(text_tokens, newest)), tokens // 4))
    return (first, *newest), len(words) - 1 - len(newest)


def transcript(moved: Sequence[ModelMessage], tokens: int) -> str:
    """Return messages as text of at most about `tokens` tokens, for a model that writes a summary."""
    lines = [line for message in moved for line in _lines(message)]
    for most in (500, 250, 100, 40):
        cut = [shortened(line, most) for line in lines]
        if sum(map(text_tokens, cut)) <= tokens:
            return "\n".join(cut)
    return "\n".join(_newest([shortened(line, 40) for line in lines], tokens))


def _lines(message: ModelMessage) -> Iterable[str]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            if isinstance(part, RecapPart):
                yield f"Summary of what was before: {part.recap.summary}"
            elif isinstance(part, PersonPart):
                yield f"User: {part.words}"
            elif isinstance(part, ToolReturnPart):
                yield f"Result of {note_of(part).tool}: {part.content}"
        return
    for each in message.parts:
        if isinstance(each, TextPart):
            yield f"Assistant: {each.content}"
        elif isinstance(each, ToolCallPart):
            yield f"Assistant called {each.tool_name} {each.args_as_json_str()}"
