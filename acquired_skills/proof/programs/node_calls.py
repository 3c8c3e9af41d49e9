"""Converts the calls of Node skills, for which 100 and 100.0 are the same number (SKILL-22)."""

from collections.abc import Mapping, Sequence
from typing import Any

from acquired_skills.proof.answers import Data
from acquired_skills.proof.json_calls import JsonCalls
from sandbox.contract import Language

_EXACT = 2**53  # JavaScript represents all integers below it


class NodeCalls(JsonCalls):
    """Converts calls of one Node skill. Numbers with a whole value are integers.

    So no question is asked about 100.0: an author who computes in JavaScript would answer for 100.
    """

    __slots__ = ()

    def call(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call with these JSON arguments, converted to the types that occur in the tests."""
        found: dict[str, Any] = _whole(super().call(arguments))
        return found


def program_calls(language: Language, examples: Sequence[Data]) -> JsonCalls:
    """Return the converter of calls to a program, given the calls that its cases make."""
    return (NodeCalls if language is Language.NODE else JsonCalls)((), examples)


def _whole(value: Any) -> Any:
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case list():
            return [_whole(each) for each in value]
        case dict():
            return {name: _whole(each) for name, each in value.items()}
    return value
