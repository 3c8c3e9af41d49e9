"""What each action of `file_system` returns, as programs read it."""

from typing_extensions import TypedDict


class ReadOutput(TypedDict):
    """The output of `read`. Lines are numbered from 1; `lines` is how many the file has."""

    path: str
    content: str
    start_line: int
    end_line: int
    lines: int


class WriteOutput(TypedDict):
    """Of write. replaced: whether there was a file."""

    path: str
    bytes: int
    replaced: bool


class EntryRow(TypedDict):
    """A file or folder. size: bytes. modified: UTC, ISO 8601."""

    path: str
    kind: str
    size: int
    modified: str


class ListOutput(TypedDict):
    """Of list. total: how many entries there are, of which only the first are given."""

    path: str
    entries: list[EntryRow]
    total: int


class FindOutput(TypedDict):
    """Of find; as of list."""

    pattern: str
    entries: list[EntryRow]
    total: int


class TextMatch(TypedDict):
    """A line that contains the text."""

    path: str
    line: int
    text: str


class SearchOutput(TypedDict):
    """Of search. not_searched: files that are too large."""

    pattern: str
    matches: list[TextMatch]
    not_searched: list[str]


class DownloadOutput(TypedDict):
    """Of download. url: where it came from in the end."""

    path: str
    bytes: int
    media_type: str
    url: str


class MoveOutput(TypedDict):
    """Of move."""

    path: str
    destination: str


class DeleteOutput(TypedDict):
    """Of delete."""

    path: str


FileOutput = (
    ReadOutput | WriteOutput | ListOutput | FindOutput | SearchOutput | DownloadOutput | MoveOutput | DeleteOutput
)
