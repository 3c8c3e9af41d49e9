"""Defines the structured output of each action of `file_system`."""

from typing_extensions import TypedDict


class ReadOutput(TypedDict):
    """The output of read. Lines are numbered from 1; `lines` is the number of lines in the file."""

    path: str
    content: str
    start_line: int
    end_line: int
    lines: int


class WriteOutput(TypedDict):
    """The output of write.

    Attributes:
        replaced: Whether a file with this path existed before.
    """

    path: str
    bytes: int
    replaced: bool


class EntryRow(TypedDict):
    """A file or folder.

    Attributes:
        size: The size in bytes.
        modified: The time of the last change, in UTC (ISO 8601).
    """

    path: str
    kind: str
    size: int
    modified: str


class ListOutput(TypedDict):
    """The output of list.

    Attributes:
        total: The number of entries in the folder. If there are many, `entries` contains only the first.
    """

    path: str
    entries: list[EntryRow]
    total: int


class FindOutput(TypedDict):
    """The output of find.

    Attributes:
        total: The number of matching entries. If there are many, `entries` contains only the first.
    """

    pattern: str
    entries: list[EntryRow]
    total: int


class TextMatch(TypedDict):
    """A line that contains the searched text.

    Attributes:
        line: The line number, starting at 1.
    """

    path: str
    line: int
    text: str


class SearchOutput(TypedDict):
    """The output of search.

    Attributes:
        not_searched: Files that are too large to be searched.
    """

    pattern: str
    matches: list[TextMatch]
    not_searched: list[str]


class DownloadOutput(TypedDict):
    """The output of download.

    Attributes:
        url: The address after all redirects.
    """

    path: str
    bytes: int
    media_type: str
    url: str


class MoveOutput(TypedDict):
    """The output of move."""

    path: str
    destination: str


class DeleteOutput(TypedDict):
    """The output of delete."""

    path: str


FileOutput = (
    ReadOutput | WriteOutput | ListOutput | FindOutput | SearchOutput | DownloadOutput | MoveOutput | DeleteOutput
)
