"""Writes the text that a model reads when a call has failed: what happened, and what to do next."""

from engine.contract.failure import Failure, FailureClass

_BRIEF = 300
REPLAN = "replan"
ABORT = "abort_attempt"
_NO_REPEAT = "Do not repeat this call"
_CHECK_FIRST = "The call may have taken effect. Check first, then decide whether to repeat it."


def advise(
    tool: str,
    error: BaseException,
    failure: Failure,
    *,
    attempts: int,
    timeout_s: float,
    held_back: bool,
    replan: bool = True,
    instead: bool = False,
) -> str:
    """Return a text that tells the model what happened in a failed call, and what to do next.

    Args:
        held_back: Whether a retry might have helped, but was not made because the first attempt may have taken effect.
        replan: Whether the model can call the tool `replan`.
        instead: Whether a list of alternatives follows this text.
    """
    what = _what(tool, error, failure, timeout_s)
    match failure.failure_class:
        case FailureClass.RETRYABLE:
            return f"{_tried(tool, what, attempts)} {_later(failure)}"
        case FailureClass.FATAL:
            return f"{what}\n{_fatal_advice(tool, replan=replan, instead=instead)}"
        case FailureClass.DIAGNOSTIC:
            return f"{_tried(tool, what, attempts)} {_CHECK_FIRST}" if held_back else what
        case _:
            check = f" {_CHECK_FIRST}" if failure.may_have_started and not failure.replay_safe else ""
            return (
                f"{tool} failed unexpectedly: {_brief(what)} This was logged for the operator "
                f"(`knackbox failures`); try another way.{check}"
            )


def without_fatal_advice(text: str) -> str:
    """Remove the advice for FATAL failures from a text, for callers that show the advice once for several calls."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(_NO_REPEAT))


def _fatal_advice(tool: str, *, replan: bool, instead: bool) -> str:
    """Return the advice for a FATAL failure.

    A denial must not be worked around. But if something is merely missing, an alternative may be suggested, and the
    advice must then not discourage the model from using it.
    """
    if instead:
        return f"{_NO_REPEAT}."
    way_out = f"call `{ABORT}`" if tool == REPLAN else f"call `{REPLAN}`" if replan else "say so in your answer"
    return f"{_NO_REPEAT} and do not look for a way around it: {way_out}."


def text_of(error: BaseException) -> str:
    """Return the text of an error. The error's type precedes a text that was not written for readers."""
    text = str(error).strip()
    if isinstance(error, BaseExceptionGroup):
        inner = "; ".join(text_of(each) for each in error.exceptions[:5])
        return f"{error.message}: {inner}"
    if not text:
        return type(error).__name__
    written_for_a_reader = type(error).__module__ != "builtins" and " " in text
    return text if written_for_a_reader else f"{type(error).__name__}: {text}"


def _what(tool: str, error: BaseException, failure: Failure, timeout_s: float) -> str:
    if isinstance(error, TimeoutError) and failure.reason == "timeout" and not str(error):
        return f"{tool} did not finish within {timeout_s:g} s."
    text = text_of(error)
    sentence = "\n" not in text and not text.endswith((".", "!", "?", "…"))
    return f"{text}." if sentence else text


def _tried(tool: str, what: str, attempts: int) -> str:
    return what if attempts <= 1 else f"{tool} failed {attempts} times. Last error: {what}"


def _later(failure: Failure) -> str:
    if failure.retry_after is not None and failure.retry_after >= 1:
        return f"Wait {failure.retry_after:.0f} s before the next attempt; use another way until then."
    return "No further retry was made. Repeat the call later with a smaller task, or use another way."


def _brief(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]}…"
