"""Cases: the tests of a Node or Bash skill, as data that the engine compares itself (SKILL-22).

    [{"arguments": {"text": "a b"}, "result": "a-b"},
     {"arguments": {"text": ""}, "raises": "RangeError"},
     {"arguments": {"path": "in.txt"}, "files": {"in.txt": "b a"}, "result": null, "after": {"in.txt": "a b"}}]

A result is stated as in a prediction (`acquired_skills.model.prediction`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.in_box.call_files import MOST_BYTES
from acquired_skills.model.names import EXTRA_PATH
from acquired_skills.model.prediction import UNSPECIFIED, Prediction
from acquired_skills.proof.answers import Data
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.prediction_checks import satisfies

MOST_CASES = 100
EXAMPLE = '[{"arguments": {"text": "a b"}, "result": "a-b"}, {"arguments": {"text": ""}, "raises": "RangeError"}]'


class InvalidCases(Exception):
    """The cases are invalid. The message says what to change."""


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """One call with its expected result.

    Attributes:
        files: The files in the working folder before the call, by path.
        after: The text of the files that must exist after the call, by path; None for a file that must not exist.
    """

    expected: Prediction
    files: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str | None] = field(default_factory=dict)

    def call(self, calls: JsonCalls) -> dict[str, Any]:
        """Return the call as packed data, with its files."""
        made = calls.call(self.expected.arguments)
        if self.files:
            made["files"] = _as_data(self.files)
        return made

    def passes(self, answer: Data) -> bool:
        """Return whether an answer satisfies the case."""
        if not satisfies(answer, self.expected):
            return False
        left = answer.get("files", _as_data(self.files))
        return isinstance(left, Mapping) and all(
            left.get(path, "missing") == ("missing" if text is None else text.encode().hex())
            for path, text in self.after.items()
        )


def read_program_cases(text: str) -> list[ProgramCase]:
    """Parse the cases of a skill from JSON.

    Raises:
        InvalidCases: The text is not a list of cases. The message says what to change.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidCases(f"The tests are not JSON ({error}): give a list of cases such as {EXAMPLE}.") from None
    if not isinstance(found, list) or not found or len(found) > MOST_CASES:
        raise InvalidCases(f"Give a list of 1 to {MOST_CASES} cases, such as {EXAMPLE}.")
    cases = []
    for number, each in enumerate(found, 1):
        try:
            cases.append(_case(each))
        except ValueError as error:
            raise InvalidCases(f"Case {number}: {error}") from None
    return cases


def _case(found: Any) -> ProgramCase:
    if not isinstance(found, dict):
        raise ValueError(f"It is not an object. Write it as in {EXAMPLE}.")  # noqa: TRY004 -- one type for any fault
    rest = {name: value for name, value in found.items() if name not in ("files", "after")}
    expected = Prediction.parse(rest)
    if UNSPECIFIED in expected.checks:
        raise ValueError("`unspecified` proves nothing. State the result.")
    files, after = found.get("files", {}), found.get("after", {})
    for each, types in ((files, str), (after, str | None)):
        if not isinstance(each, dict) or not all(isinstance(text, types) for text in each.values()):
            raise ValueError("`files` and `after` must be objects that map the path of each file to its text.")
        for path in each:
            if not EXTRA_PATH.fullmatch(path):
                raise ValueError(f"{path[:80]!a} is not a relative path. Write one such as `data/in.txt`.")
    try:
        if sum(len(text.encode()) for text in (*files.values(), *after.values()) if text) > MOST_BYTES:
            raise ValueError(f"Its files have more than {MOST_BYTES:,} bytes together. Make them smaller.")
    except UnicodeEncodeError:
        raise ValueError("Its files have characters that UTF-8 cannot represent. Remove them.") from None
    return ProgramCase(expected, files, after)


def _as_data(files: Mapping[str, str]) -> dict[str, str | None]:
    """Return files and the folders that contain them, in the format of `acquired_skills.in_box.call_files`."""
    folders = {path: None for each in files for path in _folders(each)}
    return dict(sorted({**folders, **{path: text.encode().hex() for path, text in files.items()}}.items()))


def _folders(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
