"""Reads what a program in a box asks over its bridge. The program is not trusted: every field is checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.contract.strict_json import JsonError, read_json
from sandbox.nodes import too_many_nodes

_NAME = 200
_QUERY = 2_000
_MOST_FOUND = 50
_PIECE = 1 << 20  # characters, as many as are sent at once
_DECODED_AT_ONCE = 64 << 10  # bytes; a longer request is decoded in a thread


class BadRequest(ValueError):
    """A request is not understood. The message is for the author of the program.

    Attributes:
        id: The request's number, as far as it could be read.
    """

    def __init__(self, message: str, id_: int | None = None) -> None:
        super().__init__(message)
        self.id = id_


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FindRequest:
    """A search for tools. `limit` is the number of results."""

    query: str
    limit: int


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """A question for the description of a tool."""

    name: str


@dataclass(frozen=True, slots=True)
class NamesRequest:
    """A question for the names of the tools."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question for a part of a large result, in characters."""

    handle: str
    offset: int
    characters: int


Request = CallRequest | FindRequest | DescribeRequest | NamesRequest | ReadRequest


def is_long(payload: bytes) -> bool:
    """Return whether parsing would take the event loop too long."""
    return len(payload) > _DECODED_AT_ONCE


def parse(payload: bytes) -> tuple[int | None, Request, Sequence[float]]:
    """Return the number that the answer must repeat, the request, and what the program has read from its clock.

    Raises:
        BadRequest: It is not a request.
    """
    if too_many_nodes(payload):
        raise BadRequest("The request has too many values. Write them to a file in the workspace and pass its path.")
    try:
        given = read_json(payload)
    except JsonError as error:
        raise BadRequest(f"The request is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise BadRequest("The request is not an object.")
    number = given.get("id")
    if number is not None and (type(number) is not int or not 0 <= number < 1 << 53):
        raise BadRequest("The number of the request is not an integer.")
    try:
        return number, _request(given), _readings(given.get("clock", []))
    except BadRequest as problem:
        raise BadRequest(str(problem), number) from None


def _request(given: Mapping[str, Any]) -> Request:
    match given.get("do"):
        case "call":
            arguments = given.get("arguments", {})
            if not isinstance(arguments, dict):
                raise BadRequest("The arguments of a call must be an object.")
            return CallRequest(_text(given, "name", _NAME), arguments)
        case "search":
            return FindRequest(_text(given, "query", _QUERY), _number(given, "limit", 1, _MOST_FOUND, 10))
        case "describe":
            return DescribeRequest(_text(given, "name", _NAME))
        case "names":
            return NamesRequest()
        case "read":
            offset = _number(given, "offset", 0, 1 << 40, 0)
            return ReadRequest(_text(given, "handle", _NAME), offset, _number(given, "characters", 1, _PIECE, _PIECE))
    raise BadRequest("The request has no known `do`.")


def _readings(given: object) -> Sequence[float]:
    if not isinstance(given, list) or not all(type(each) in (int, float) for each in given):
        raise BadRequest("The readings of the clock are not numbers.")
    return [float(each) for each in given]


def _text(given: Mapping[str, Any], key: str, most: int) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise BadRequest(f"`{key}` must be a text of 1 to {most:,} characters.")
    return value


def _number(given: Mapping[str, Any], key: str, least: int, most: int, default: int) -> int:
    value = given.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise BadRequest(f"`{key}` must be an integer from {least:,} to {most:,}.")
    return value
