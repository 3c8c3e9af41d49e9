"""`file_system`: the files of the workspace, and downloads into it. Nothing outside the workspace is ever touched."""

import asyncio
import fnmatch
import io
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from builtin_tools.download_rules import DownloadRules
from builtin_tools.file_outputs import FileOutput
from builtin_tools.refusals import wrong_arguments
from builtin_tools.workspace import explained, folder_of, one_line
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.stores.workspace import FolderWorkspace, WorkspaceEntry

if TYPE_CHECKING:
    from builtin_tools.download import Fetched

Action = Literal["read", "write", "search", "list", "find", "download", "move", "delete"]

MAX_READ_FILE = 32 << 20  # bytes; a larger file is for a program in a box, not for a model
MAX_READ_TEXT = 12_000  # characters of one answer, under the pipeline's cap of 16 KiB
MAX_SEARCH_FILE = 8 << 20  # bytes; larger files are passed over, and the answer says how many
MAX_MATCHES = 100
MAX_ENTRIES = 500
MATCH_WIDTH = 200  # characters of a matching line that are shown

NEEDS: Mapping[Action, tuple[str, ...]] = {
    "read": ("path",),
    "write": ("path", "content"),
    "search": ("pattern",),
    "list": (),
    "find": ("pattern",),
    "download": ("url",),
    "move": ("path", "destination"),
    "delete": ("path",),
}


@tool(
    required_permission="user",
    category="files",
    annotations=Annotations(destructive=True),
    side_effects=("filesystem_write", "network"),
    timeout_s=120,
)
async def file_system(
    ctx: CallContext,
    action: Action,
    *,
    path: str = "",
    content: str | None = None,
    destination: str = "",
    pattern: str = "",
    url: str = "",
    start_line: Annotated[int, Field(ge=1)] = 1,
    replace: bool = False,
    recursive: bool = False,
) -> Produced[FileOutput]:
    """Work with the files of your workspace; code run by `execute` has the same files in its working directory.

    read(path, start_line): text of a file, in portions. write(path, content): create or replace a whole file.
    list(path): what a folder holds. find(pattern, path): files by name, such as `*.csv`.
    search(pattern, path): lines that contain a plain text, upper and lower case alike.
    download(url, path): fetch a public http(s) address into a file. move(path, destination). delete(path).
    Folders on the way are made. Paths never lead out of the workspace.

    Args:
        action: What to do.
        path: Relative to the workspace, such as `data/in.csv`. For list, find and search: the folder to look in.
        content: The whole new text; for write.
        destination: The new path; for move.
        pattern: File name with `*` and `?`, for find; plain text, for search.
        url: Address to fetch, for download; without a path the file is named after it.
        start_line: First line to read, counted from 1.
        replace: Let move or download take the place of a file.
        recursive: Let delete remove a folder with all it holds.
    """
    given = {"path": path, "content": content, "destination": destination, "pattern": pattern, "url": url}
    for field in NEEDS[action]:
        if given[field] is None or (given[field] == "" and field != "content"):
            raise wrong_arguments(f"`{field}` is missing: {action} needs {' and '.join(NEEDS[action])}.")
    folder = folder_of(ctx)
    if action == "download":
        return await download(ctx, folder, url, path, replace=replace)
    work: Mapping[Action, Callable[[], Produced]] = {
        "read": lambda: read(folder, path, start_line),
        "write": lambda: write(folder, path, content or ""),
        "search": lambda: search(folder, pattern, path or "."),
        "list": lambda: list_folder(folder, path or "."),
        "find": lambda: find(folder, pattern, path or "."),
        "move": lambda: move(folder, path, destination, replace=replace),
        "delete": lambda: delete(folder, path, recursive=recursive),
    }
    with explained():
        return await asyncio.to_thread(work[action])


def read(folder: FolderWorkspace, path: str, start_line: int) -> Produced:
    """As many whole lines from `start_line` on as fit one answer."""
    text = text_of(folder.read(path, MAX_READ_FILE), path)
    lines = list(io.StringIO(text, newline="\n"))  # by "\n" alone, as `search` counts them
    if start_line > max(1, len(lines)):
        raise wrong_arguments(f"{path} has only {len(lines)} lines; read it from an earlier one.")
    portion, end = "", start_line - 1
    for line in lines[end:]:
        if portion and len(portion) + len(line) > MAX_READ_TEXT:
            break
        portion, end = portion + line, end + 1
    cut = len(portion) > MAX_READ_TEXT  # a single line that long
    shown = portion[:MAX_READ_TEXT]
    note = f"\n[line {end} is cut: it has {len(portion):,} characters; use `execute` for it]" if cut else ""
    if end < len(lines):
        note += f"\n[lines {start_line} to {end} of {len(lines)}; go on with start_line={end + 1}]"
    value = {"path": path, "content": shown, "start_line": start_line, "end_line": end, "lines": len(lines)}
    return Produced(value, (shown + note) or f"{path} is empty.")


def text_of(data: bytes, path: str) -> str:
    """The bytes as UTF-8 text. Raises ToolFailure for anything else."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailure(
            f"{path} is not UTF-8 text ({len(data):,} bytes). Read it with a program in `execute`; for an image there "
            "is `vision_analysis` if you have it.",
            reason="not_text",
            may_have_started=False,
        )
    return text


def write(folder: FolderWorkspace, path: str, content: str) -> Produced:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"`content` holds half a character (a lone surrogate) at position {error.start}."
        raise wrong_arguments(half) from error
    existed = folder.exists(path)
    folder.write(path, data)
    value = {"path": path, "bytes": len(data), "replaced": existed}
    effect = f"{'replaced' if existed else 'created'}:{path}"
    return Produced(value, f"{'Replaced' if existed else 'Wrote'} {one_line(path)} ({len(data):,} bytes).", (effect,))


def list_folder(folder: FolderWorkspace, path: str) -> Produced:
    entries = folder.list(path)
    value = {"path": path, "entries": [described(entry) for entry in entries[:MAX_ENTRIES]], "total": len(entries)}
    return Produced(value, listing(entries) or f"{path} is empty.")


def find(folder: FolderWorkspace, pattern: str, path: str) -> Produced:
    """Entries whose name fits the pattern; a pattern with `/` is held against the whole path."""
    found = [entry for entry in folder.walk(path) if fits(entry.path, pattern)]
    value = {"pattern": pattern, "entries": [described(entry) for entry in found[:MAX_ENTRIES]], "total": len(found)}
    return Produced(value, listing(found) or f"Nothing below {path} is named like {pattern!r}.")


def fits(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path if "/" in pattern else PurePosixPath(path).name, pattern)


def described(entry: WorkspaceEntry) -> dict[str, Any]:
    modified = entry.modified.isoformat(timespec="seconds")
    return {"path": entry.path, "kind": entry.kind, "size": entry.size, "modified": modified}


def listing(entries: list[WorkspaceEntry]) -> str:
    """One line per entry: folders end in a slash, files show their size. Unusual names are JSON strings."""
    lines = [
        one_line(f"{entry.path}/") if entry.kind == "folder" else f"{one_line(entry.path)}  {entry.size:,} bytes"
        for entry in entries[:MAX_ENTRIES]
    ]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{MAX_ENTRIES} of {len(entries)} shown; look in a folder below, or with a narrower pattern]")
    return "\n".join(lines)


def search(folder: FolderWorkspace, pattern: str, path: str) -> Produced:
    """Lines that contain `pattern`, in files by name. Binary files, and those over the cap, are passed over."""
    wanted = pattern.casefold()
    matches: list[dict[str, Any]] = []
    too_large: list[str] = []
    for name in files_below(folder, path):
        if len(matches) == MAX_MATCHES:
            break
        if folder.stat(name).size > MAX_SEARCH_FILE:
            too_large.append(name)
            continue
        for number, line in matching_lines(folder.read(name, MAX_SEARCH_FILE), wanted):
            matches.append({"path": name, "line": number, "text": line.strip()[:MATCH_WIDTH]})
            if len(matches) == MAX_MATCHES:
                break
    lines = [f"{one_line(match['path'])}:{match['line']}: {printable(match['text'])}" for match in matches]
    if len(matches) == MAX_MATCHES:
        lines.append(f"[the first {MAX_MATCHES} matches; search for something narrower, or in one folder]")
    if too_large:
        lines.append(
            f"[not searched, over {MAX_SEARCH_FILE:,} bytes: {', '.join(map(one_line, too_large[:10]))}; use `execute`]"
        )
    value = {"pattern": pattern, "matches": matches, "not_searched": too_large}
    return Produced(
        value, "\n".join(lines) or f"No line below {path} contains {pattern!r}.", (f"searched:{path}:{pattern}",)
    )


def printable(line: str) -> str:
    """A line of a file with control characters as escapes, so that it stays one line."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)


def files_below(folder: FolderWorkspace, path: str) -> list[str]:
    if folder.stat(path).kind == "file":
        return [path]
    return [entry.path for entry in folder.walk(path) if entry.kind == "file"]


def matching_lines(data: bytes, wanted: str) -> list[tuple[int, str]]:
    """Number (from 1) and text of each line with `wanted` in it; none for binary data."""
    if b"\0" in data[:8192]:
        return []
    text = data.decode("utf-8", "replace")
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if wanted in line.casefold()]


def move(folder: FolderWorkspace, path: str, destination: str, *, replace: bool) -> Produced:
    folder.move(path, destination, replace=replace)
    value = {"path": path, "destination": destination}
    return Produced(value, f"Moved {one_line(path)} to {one_line(destination)}.", (f"moved:{path}:{destination}",))


def delete(folder: FolderWorkspace, path: str, *, recursive: bool) -> Produced:
    folder.delete(path, recursive=recursive)
    return Produced({"path": path}, f"Deleted {one_line(path)}.", (f"deleted:{path}",))


async def download(ctx: CallContext, folder: FolderWorkspace, url: str, path: str, *, replace: bool) -> Produced:
    """Fetch first, write after: a download that fails leaves nothing behind."""
    target = path or name_from(url)
    with explained():
        if not replace and await asyncio.to_thread(folder.exists, target):
            raise ToolFailure(
                f"{one_line(target)} exists already. Give another path, or replace=true.",
                reason="exists",
                may_have_started=False,
            )
    fetch = await asyncio.to_thread(load_fetch)
    got = await fetch(url, ctx.need(DownloadRules), ctx.clock, lambda part: ctx.progress(f"downloading {url}", part))
    with explained():
        await asyncio.to_thread(folder.write, target, got.data)
    value = {"path": target, "bytes": len(got.data), "media_type": got.media_type, "url": got.url}
    said = f"Downloaded {len(got.data):,} bytes ({got.media_type or 'no media type given'}) to {one_line(target)}."
    return Produced(value, said, (f"downloaded:{got.url}", f"created:{target}"))


def load_fetch() -> "Callable[..., Awaitable[Fetched]]":
    from builtin_tools.download import fetch  # noqa: PLC0415 -- httpx takes long to import, and few calls download

    return fetch


def name_from(url: str) -> str:
    """A file name for an address that came without one."""
    try:
        name = PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError:  # `fetch` says what is wrong with it
        return "download"
    return "download" if name in {"", ".", ".."} else name
