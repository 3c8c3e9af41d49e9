"""Reads YAML with the position of every node, so that errors name file, line and column."""

import difflib
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from engine.contract.failure import ConfigError

# Files edited by people are a few kilobytes; this limits the cost of any other file.
_MOST_BYTES = 1 << 20

Place = tuple[int, int]  # line and column, from 0


class PlacedYaml:
    """One YAML file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Any:
        """Return the document as ruamel's round-trip nodes; None for an empty file.

        Raises:
            ConfigError: The file is unreadable or not YAML.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}.") from error
        if len(data) > _MOST_BYTES:
            self.refuse((0, 0), f"{len(data)} bytes is too large for a file like this (at most {_MOST_BYTES})")
        try:
            return YAML(typ="rt", pure=True).load(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            line_start = data.rfind(b"\n", 0, error.start) + 1
            place = (data.count(b"\n", 0, error.start), error.start - line_start)
            self.refuse(place, "this is not UTF-8 text; save the file as UTF-8")
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = (mark.line, mark.column) if mark is not None else (0, 0)
            self.refuse(place, f"not valid YAML: {_first_line(error.problem or error.context or error)}")
        except (YAMLError, ValueError, RecursionError) as error:
            self.refuse((0, 0), f"not valid YAML: {_first_line(error)}")
        except (TypeError, AttributeError, LookupError, AssertionError, NotImplementedError) as error:
            # Errors inside ruamel itself, for example with a mapping used as a key.
            self.refuse((0, 0), f"YAML that cannot be used here: {_first_line(error)}")

    def placed(self, place: Place, problem: str) -> str:
        """Prefix a problem with its position. `place` counts from 0, as the parser does; the text counts from 1."""
        return f"{self.path}:{place[0] + 1}:{place[1] + 1}: {problem}"

    def refuse(self, place: Place, problem: str) -> NoReturn:
        """Report a problem at a position.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{self.placed(place, problem)}.")


def key_place(mapping: CommentedMap, key: Any) -> Place:
    """Return the position of a key, or that of the mapping for a merged key (``<<``)."""
    try:
        line, column = mapping.lc.key(key)
    except (KeyError, TypeError):
        return mapping.lc.line, mapping.lc.col
    return line, column


def value_place(mapping: CommentedMap, key: Any) -> Place:
    """Return the position of a key's value, or that of the mapping for a merged key."""
    try:
        line, column = mapping.lc.value(key)
    except (KeyError, TypeError):
        return mapping.lc.line, mapping.lc.col
    return line, column


def meant(name: Any, known: Any) -> str:
    """Return ``" (did you mean 'x'?)"``, or "" if no name is similar."""
    close = difflib.get_close_matches(str(name), [str(each) for each in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _first_line(problem: object) -> str:
    return str(problem).strip().split("\n", 1)[0]
