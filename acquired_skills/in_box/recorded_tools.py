"""Answers the calls that a skill makes to other tools from a recording, during its admission (CODE-8).

A test states the recording with the fixture `tools`: `tools.answers(RECORDED)`, and `tools.fails("weather")` or
`tools.returns("weather", {})` for variants of it. The recording is part of the skill's call as data, and the calls that
the skill made are part of its answer. So the answer depends on the call alone, and no real tool is called. Runs in the
box.
"""

import copy
import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.bridge.in_box import knackbox

Rule = Mapping[str, Any]
MODULE = "knackbox"
FAILURE_CLASSES = ("RETRYABLE", "FATAL", "DIAGNOSTIC", "UNKNOWN")
NOT_RECORDED, NOT_DECLARED = "not_recorded", "not_declared"
MOST_CALLS = 1_000  # of one call of the skill
_NOT_IN_NAMES = re.compile(r"\W")


class RecordedAnswers:
    """The answers to the calls of tools in one recording, each as the fields of an answer over the bridge.

    A rule has ``tool``, the ``arguments`` (any, if they are missing), and ``value`` or ``failed``. Equal calls get the
    answers of their rules in turn, and then the last one again. A rule for any arguments comes before all others.
    """

    def __init__(self, rules: Sequence[Rule], declared: Sequence[str]) -> None:
        """Create the object.

        Args:
            declared: The names of the tools that the skill declares.
        """
        self._rules = rules
        self._names = {identifier(name): name for name in declared}
        self._used: dict[str, int] = {}
        self.calls: list[dict[str, Any]] = []
        """The calls so far: ``tool``, ``arguments``, and ``value`` or ``failed`` (the reason)."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of the client `knackbox`."""
        asked, arguments = str(request.get("name", "")), request.get("arguments", {})
        if request.get("do") != "call":
            return failure(NOT_RECORDED, "During admission only the declared tools can be called.")
        name = self._names.get(identifier(asked))
        if name is None:
            known = ", ".join(self._names.values()) or "none"
            return failure(NOT_DECLARED, f"The skill does not declare the tool {asked} (declared: {known}).")
        if len(self.calls) >= MOST_CALLS:
            return failure("too_many_calls", f"The skill has made {MOST_CALLS:,} calls, which is the limit.")
        found = self._rule(name, arguments)
        if found is None:
            text = f"The recording has no answer to {name}({_key(arguments)[:500]})."
            fields = failure(NOT_RECORDED, text)
        else:
            fields = {part: copy.deepcopy(found[part]) for part in ("value", "failed") if part in found}
        failed = "failed" in fields
        # A copy, because the skill may change the value that it got.
        shown = {"failed": fields["failed"]["reason"]} if failed else {"value": copy.deepcopy(fields.get("value"))}
        self.calls.append({"tool": name, "arguments": copy.deepcopy(arguments), **shown})
        return fields

    def _rule(self, name: str, arguments: Any) -> Rule | None:
        mine = [each for each in self._rules if identifier(str(each["tool"])) == identifier(name)]
        if any_arguments := [each for each in mine if each.get("arguments") is None]:
            return any_arguments[-1]
        key = _key(arguments)
        exact = [each for each in mine if _key(each["arguments"]) == key]
        if not exact:
            return None
        used = self._used[name + key] = self._used.get(name + key, 0) + 1
        return exact[min(used, len(exact)) - 1]


class RecordedTools:
    """The tools that the skill in this process can call. Tests get this object with the fixture `tools`."""

    def __init__(self, declared: Sequence[str]) -> None:
        self._declared = tuple(declared)
        self._rules: list[dict[str, Any]] = []
        self._current = RecordedAnswers((), self._declared)

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The name and the arguments of each call that the skill made when it was last called."""
        return [(each["tool"], copy.deepcopy(each["arguments"])) for each in self._current.calls]

    def answers(self, recorded: Sequence[Rule]) -> None:
        """Answer as in this recording, and forget what was stated before.

        Raises:
            ValueError: An entry has no ``tool``, or neither or both of ``value`` and ``failed``.
        """
        self._rules = [checked(each) for each in recorded]

    def returns(self, tool: str, value: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Return this value from a tool instead of what is recorded, for these arguments or for any."""
        self._replace({"tool": tool, "arguments": arguments, "value": value})

    def fails(
        self,
        tool: str,
        reason: str = "unavailable",
        message: str = "The tool is not available.",
        arguments: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Let a tool fail, for these arguments or for any. The skill gets a `ToolError`.

        Args:
            more: Further fields of the failure: ``failure_class``, ``may_have_happened`` and ``output``.
        """
        fields = failure(reason, message)["failed"]
        fields["class"] = more.pop("failure_class", "RETRYABLE")
        self._replace({"tool": tool, "arguments": arguments, "failed": {**fields, **more}})

    def _replace(self, rule: dict[str, Any]) -> None:
        rule = checked(rule)
        given = rule.get("arguments")
        kept = [
            each
            for each in self._rules
            if each["tool"] != rule["tool"] or (given is not None and each.get("arguments") != given)
        ]
        self._rules = [*kept, rule]

    def install(self) -> None:
        """Put the client `knackbox` in place, which gets its answers here. Call it before the skill is loaded."""
        sys.modules[MODULE] = knackbox
        knackbox.__name__ = MODULE
        knackbox.ToolError.__module__ = MODULE
        knackbox._ask = self._ask  # noqa: SLF001 -- the place at which the client sends a request over its bridge
        knackbox._ask_async = self._ask_async  # noqa: SLF001 -- likewise

    def begin(self, rules: Sequence[Rule] | None = None) -> list[dict[str, Any]]:
        """Begin a call of the skill with these rules, or with those of the test, and return them."""
        chosen = [dict(each) for each in (self._rules if rules is None else rules)]
        self._current = RecordedAnswers(chosen, self._declared)
        return copy.deepcopy(chosen)

    @property
    def made(self) -> list[dict[str, Any]]:
        """The calls that the skill has made since `begin`, as data."""
        return self._current.calls

    def show(self, made: Sequence[Mapping[str, Any]]) -> None:
        """Let `calls` return these calls, because a table and not the skill gave the answer."""
        self._current.calls[:] = [dict(each) for each in made]

    def release(self) -> None:
        """Forget the recording at the end of a test."""
        self._rules = []
        self._current = RecordedAnswers((), self._declared)

    def _ask(self, request: dict[str, Any]) -> Any:
        plain = json.loads(json.dumps(request, allow_nan=False))  # what is not JSON could not be sent
        return knackbox._result(self._current.answer(plain), request)  # noqa: SLF001

    async def _ask_async(self, request: dict[str, Any]) -> Any:
        return self._ask(request)


def failure(reason: str, message: str) -> dict[str, Any]:
    """Return the fields of the answer to a call that failed."""
    return {"failed": {"class": "DIAGNOSTIC", "reason": reason, "message": message, "may_have_happened": False}}


def checked(rule: Any) -> dict[str, Any]:
    """Return a rule as plain JSON.

    Raises:
        ValueError: It has no ``tool``, neither or both of ``value`` and ``failed``, or is not JSON.
    """
    example = '{"tool": "weather", "arguments": {"place": "Oslo"}, "value": "cold"}'
    if (
        not isinstance(rule, Mapping)
        or not isinstance(rule.get("tool"), str)
        or ("value" in rule) == ("failed" in rule)
    ):
        raise ValueError(f"{rule!r:.200} is not an entry of a recording. Write entries such as {example}.")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(rule), allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"An entry for {rule['tool']} is not JSON ({problem}). Write it like {example}.") from None
    failed = plain.get("failed")
    if "failed" in plain:
        if not isinstance(failed, dict):
            raise ValueError(f"`failed` of an entry for {rule['tool']} is not an object with `reason` and `message`.")
        plain["failed"] = {**failure("failed", "The call failed.")["failed"], **failed}
    return plain


def identifier(name: str) -> str:
    """Return the form of a tool's name that can be an attribute of `tools`."""
    text = _NOT_IN_NAMES.sub("_", name)
    return f"_{text}" if text[:1].isdigit() or keyword.iskeyword(text) else text


def _key(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)
