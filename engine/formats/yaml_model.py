"""Reads YAML into pydantic models. Every error message gives the file, line and column of the problem."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.tokens import AliasToken, AnchorToken

from engine.contract.failure import ConfigError

# Files edited by people are a few kilobytes; this limits the cost of any other file.
_MOST_BYTES = 1 << 20
_MOST_ERRORS = 50  # errors of one document that are considered; the one nearest to the top is reported
_LONGEST_VALUE = 60  # characters of a wrong value that an error quotes

# Exceptions that ruamel raises instead of its own errors, for example for an impossible date.
_UNREPORTED = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "a string",
    "string_too_short": "a string that is not empty",
    "tuple_type": "a list, such as [one, two]",
}

# For fields that may be written as a key without a value.
LIST_IF_EMPTY = BeforeValidator(lambda value: [] if value is None else value)
MAPPING_IF_EMPTY = BeforeValidator(lambda value: {} if value is None else value)

Content = TypeVar("Content", bound=BaseModel)
Loc = tuple[int | str, ...]  # the keys and indexes that lead to a value, as pydantic reports them


class InvalidYaml(Exception):
    """A document is not YAML, or does not match its model.

    Attributes:
        at: Where the problem is, as "file:line:column".
        problem: The problem, in one line.
    """

    def __init__(self, at: str, problem: str) -> None:
        super().__init__(f"{at}: {problem}.")
        self.at = at
        self.problem = problem


class YamlModel(BaseModel):
    """The base class of models for files that people edit. Validation is strict, and rejects unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, value: Any) -> Any:
        known = ", ".join(cls.model_fields)
        if not isinstance(value, dict):
            raise PydanticCustomError("mapping", f"must be a mapping with the fields: {known}")
        for key in value:
            if key not in cls.model_fields:
                problem = f"unknown field {key!r}{did_you_mean(key, cls.model_fields)}; known: {known}"
                fault = PydanticCustomError("unknown_field", problem)
                place = key if isinstance(key, int | str) else str(key)
                raise ValidationError.from_exception_data(
                    cls.__name__, [{"type": fault, "loc": (place,), "input": key}]
                )
        return value


@dataclass(frozen=True, slots=True)
class YamlDocument(Generic[Content]):
    """A valid document, with the position of each value.

    Attributes:
        content: The validated content.
        where: The name of the file.
        first_line: The line of the file at which the document begins.
    """

    content: Content
    where: str
    root: Node | None = None
    first_line: int = 1

    def at(self, *loc: int | str, key: bool = False) -> str:
        """Return "file:line:column" of a value or its key, or of the surrounding mapping if the value is absent."""
        return _at(self.root, loc, self.where, self.first_line, key=key)

    def refuse(self, problem: str, *loc: int | str, key: bool = False) -> NoReturn:
        """Report a problem with a value by raising an exception.

        Args:
            problem: What is wrong, without a full stop.
            loc: The keys and indexes that lead to the value.
            key: Whether the problem is with the value's key.

        Raises:
            ConfigError: Always. The message begins with the position of the value.
        """
        raise ConfigError(f"{self.at(*loc, key=key)}: {_one_line(problem)}.")


def read_yaml(path: Path, model: type[Content]) -> YamlDocument[Content]:
    """Read a file that people edit. An empty file is read as an empty mapping.

    Raises:
        ConfigError: The file is unreadable, not YAML, or does not match the model.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}:1:1: the file has {len(data)} bytes, more than the {_MOST_BYTES} that are allowed.")
    try:
        return parse_yaml(data.decode("utf-8"), model, str(path))
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{path}:{line}:{column}: this is not UTF-8 text; save the file as UTF-8.") from error
    except InvalidYaml as error:
        raise ConfigError(str(error)) from error


def parse_yaml(
    text: str, model: type[Content], where: str, *, first_line: int = 1, aliases: bool = True
) -> YamlDocument[Content]:
    """Parse a document.

    Args:
        text: The document.
        model: The model that it must match.
        where: The name of the file, for errors.
        first_line: The line of the file at which the document begins.
        aliases: Whether anchors and aliases are accepted. They can expand a page of text to a gigabyte of values.

    Raises:
        InvalidYaml: The document is not YAML, or does not match the model.
    """
    root, value = _load(text, where, first_line, aliases=aliases)
    try:
        content = model.model_validate({} if value is None else value)
    except ValidationError as error:
        raise _topmost(error, root, where, first_line) from None
    return YamlDocument(content, where, root, first_line)


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"``, or "" if no name is similar."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _load(text: str, where: str, first_line: int, *, aliases: bool) -> tuple[Node | None, Any]:
    """Return the document as nodes with positions, and as plain values."""
    start = f"{where}:{first_line}:1"
    try:
        if not aliases and "&" in text:
            for token in YAML(typ="safe", pure=True).scan(text):
                if isinstance(token, AliasToken | AnchorToken):
                    at = f"{where}:{token.start_mark.line + first_line}:{token.start_mark.column + 1}"
                    raise InvalidYaml(at, "YAML anchors or aliases are not supported here")
        constructor, _ = YAML(typ="safe", pure=True).get_constructor_parser(text)
        root = constructor.composer.get_single_node()
        return root, None if root is None else constructor.construct_document(root)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{where}:{mark.line + first_line}:{mark.column + 1}" if mark is not None else start
        raise InvalidYaml(at, f"not valid YAML: {_one_line(error.problem or error.context or error)}") from None
    except RecursionError:
        raise InvalidYaml(start, "not valid YAML: it is nested too deeply") from None
    except (YAMLError, *_UNREPORTED) as error:
        raise InvalidYaml(start, f"this YAML cannot be used here: {_one_line(error)}") from None


def _topmost(error: ValidationError, root: Node | None, where: str, first_line: int) -> InvalidYaml:
    """Return the one of several validation errors that is nearest to the beginning of the document."""

    def position(each: ErrorDetails) -> tuple[int, int]:
        node = _node(root, _written(each), key=_of_key(each))
        return (node.start_mark.line, node.start_mark.column) if node is not None else (0, 0)

    first = min(error.errors(include_url=False)[:_MOST_ERRORS], key=position)
    return InvalidYaml(_at(root, _written(first), where, first_line, key=_of_key(first)), _one_line(_describe(first)))


def _describe(error: ErrorDetails) -> str:
    kind, loc, given = error["type"], error["loc"], _shown(error["input"])
    if kind == "unknown_field":
        return error["msg"]
    if loc and loc[-1] == "[key]":
        return f"{given} is not a name; put it in quotes"
    if kind == "missing":
        return f"the field `{loc[-1]}` is missing"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".") or "the document"
    if kind in _EXPECTED:
        return f"{field} must be {_EXPECTED[kind]}, not {given}"
    if kind == "literal_error":
        return f"{field} must be {error['ctx']['expected']}, not {given}"
    return f"{field} {error['msg']}" if kind == "mapping" else f"{field}: {error['msg']}"


def _written(error: ErrorDetails) -> Loc:
    """Return the location of the value to correct. If a field is missing, that is the mapping that lacks it."""
    loc = error["loc"]
    return loc[:-1] if error["type"] == "missing" or loc[-1:] == ("[key]",) else loc


def _of_key(error: ErrorDetails) -> bool:
    return error["type"] == "unknown_field" or error["loc"][-1:] == ("[key]",)


def _at(root: Node | None, loc: Loc, where: str, first_line: int, *, key: bool) -> str:
    node = _node(root, loc, key=key)
    if node is None:
        return f"{where}:{first_line}:1"
    return f"{where}:{node.start_mark.line + first_line}:{node.start_mark.column + 1}"


def _node(root: Node | None, loc: Loc, *, key: bool) -> Node | None:
    """Return the node at a location or the node of its key; if there is none, the last node on the path to it."""
    node = root
    for depth, part in enumerate(loc, start=1):
        if isinstance(node, MappingNode):
            # Search backwards: the mapping's own keys come after those merged into it by `<<`, and override them.
            pairs = reversed(node.value)
            found = next((pair for pair in pairs if pair[0].value == str(part)), None)
            if found is None:
                return node
            node = found[0] if key and depth == len(loc) else found[1]
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
    return node


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())
