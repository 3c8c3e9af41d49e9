"""`file_system`: reads, writes and finds files of the workspace, and downloads into it.

No action reads or changes anything outside the workspace.
"""

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
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.workspace_folder import folder_of, one_line, workspace_failures
from engine.registry.decorate import tool
from engine.stores.workspace import FolderWorkspace, WorkspaceEntry

if TYPE_CHECKING:
    from builtin_tools.download import Download

Action = Literal["read", "write", "search", "list", "find", "download", "move", "delete"]

MAX_READ_FILE = 32 << 20  # bytes; a larger file should be read by a program in a box, not by a model
MAX_READ_TEXT = 12_000  # characters in one result; below the pipeline's cap of 16 KiB
MAX_SEARCH_FILE = 8 << 20  # bytes; larger files are skipped and named in the result
MAX_MATCHES = 100
MAX_ENTRIES = 500
MATCH_WIDTH = 200  # characters shown of a matching line

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
    """Read, write, find, search, download, move and delete files of your workspace.

    Use it for text files and for downloads. To compute something from files, or to read binary files, use `execute`,
    which has the same files in its working directory.

    read(path, start_line): the text of a file, in portions. write(path, content): create or replace a whole file.
    list(path): the contents of a folder. find(pattern, path): files by name, such as `*.csv`.
    search(pattern, path): the lines that contain a text, ignoring case; regular expressions are not supported.
    download(url, path): save a public http(s) URL as a file. move(path, destination). delete(path).
    Missing folders are created. A path outside the workspace is refused.

    Args:
        action: What to do.
        path: Path relative to the workspace, such as `data/in.csv`. For list, find and search, the folder to look in.
        content: For write, the whole new text.
        destination: For move, the new path.
        pattern: For find, a file name with the wildcards `*` and `?`. For search, the text to look for.
        url: For download, the address. Without `path` the file is named after it.
        start_line: For read, the first line to return, counted from 1.
        replace: Allow move and download to replace an existing file.
        recursive: Allow delete to remove a folder with everything in it.
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
    with workspace_failures():
        return await asyncio.to_thread(work[action])


def read(folder: FolderWorkspace, path: str, start_line: int) -> Produced:
    """Return as many whole lines, beginning with `start_line`, as fit into one result."""
    text = decode_text(folder.read(path, MAX_READ_FILE), path)
    lines = list(io.StringIO(text, newline="\n"))  # split only at "\n", so that `search` numbers lines the same way
    if start_line > max(1, len(lines)):
        raise wrong_arguments(f"{path} has only {len(lines)} lines. Use a smaller `start_line`.")
    portion, end = "", start_line - 1
    for line in lines[end:]:
        if portion and len(portion) + len(line) > MAX_READ_TEXT:
            break
        portion, end = portion + line, end + 1
    cut = len(portion) > MAX_READ_TEXT  # a single line exceeds the limit of one result
    shown = portion[:MAX_READ_TEXT]
    note = f"\n[line {end} is cut: it has {len(portion):,} characters; read it with `execute`]" if cut else ""
    if end < len(lines):
        note += f"\n[lines {start_line} to {end} of {len(lines)}; continue with start_line={end + 1}]"
    value = {"path": path, "content": shown, "start_line": start_line, "end_line": end, "lines": len(lines)}
    return Produced(value, (shown + note) or f"{path} is empty.")


def decode_text(data: bytes, path: str) -> str:
    """Decode UTF-8 text.

    Raises:
        ToolFailure: The file is not UTF-8 text.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailure(
            f"{path} is not UTF-8 text ({len(data):,} bytes). Read it with a program in `execute`, or, if it is an "
            "image, with `vision_analysis` if that tool is available.",
            reason="not_text",
            may_have_started=False,
        )
    return text


def write(folder: FolderWorkspace, path: str, content: str) -> Produced:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise wrong_arguments(
            f"`content` contains half a character (a lone surrogate) at position {error.start}. Remove it."
        ) from error
    existed = folder.exists(path)
    folder.write(path, data)
    value = {"path": path, "bytes": len(data), "replaced": existed}
    effect = f"{'replaced' if existed else 'created'}:{path}"
    return Produced(value, f"{'Replaced' if existed else 'Wrote'} {one_line(path)} ({len(data):,} bytes).", (effect,))


def list_folder(folder: FolderWorkspace, path: str) -> Produced:
    entries = folder.list(path)
    value = {"path": path, "entries": [entry_row(entry) for entry in entries[:MAX_ENTRIES]], "total": len(entries)}
    return Produced(value, listing(entries) or f"{path} is empty.")


def find(folder: FolderWorkspace, pattern: str, path: str) -> Produced:
    """Return the entries whose name matches the pattern. A pattern with `/` is compared with the whole path."""
    found = [entry for entry in folder.walk(path) if matches_pattern(entry.path, pattern)]
    value = {"pattern": pattern, "entries": [entry_row(entry) for entry in found[:MAX_ENTRIES]], "total": len(found)}
    return Produced(value, listing(found) or f"Nothing below {path} has a name that matches {pattern!r}.")


def matches_pattern(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path if "/" in pattern else PurePosixPath(path).name, pattern)


def entry_row(entry: WorkspaceEntry) -> dict[str, Any]:
    modified = entry.modified.isoformat(timespec="seconds")
    return {"path": entry.path, "kind": entry.kind, "size": entry.size, "modified": modified}


def listing(entries: list[WorkspaceEntry]) -> str:
    """Return one line per entry. Folders end in a slash, files show their size, unusual names are JSON strings."""
    lines = [
        one_line(f"{entry.path}/") if entry.kind == "folder" else f"{one_line(entry.path)}  {entry.size:,} bytes"
        for entry in entries[:MAX_ENTRIES]
    ]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{MAX_ENTRIES} of {len(entries)} shown; use a subfolder or a narrower pattern to see others]")
    return "\n".join(lines)


def search(folder: FolderWorkspace, pattern: str, path: str) -> Produced:
    """Find the lines that contain `pattern`, ignoring case. Binary and very large files are skipped."""
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
        lines.append(f"[the first {MAX_MATCHES} matches; search for a longer text or in one folder to see others]")
    if too_large:
        names = ", ".join(map(one_line, too_large[:10]))
        lines.append(f"[not searched, larger than {MAX_SEARCH_FILE:,} bytes: {names}; search these with `execute`]")
    value = {"pattern": pattern, "matches": matches, "not_searched": too_large}
    return Produced(
        value, "\n".join(lines) or f"No line below {path} contains {pattern!r}.", (f"searched:{path}:{pattern}",)
    )


def printable(line: str) -> str:
    """Escape the control characters of a line, so that it stays one line."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)


def files_below(folder: FolderWorkspace, path: str) -> list[str]:
    if folder.stat(path).kind == "file":
        return [path]
    return [entry.path for entry in folder.walk(path) if entry.kind == "file"]


def matching_lines(data: bytes, wanted: str) -> list[tuple[int, str]]:
    """Return the number (from 1) and text of each line that contains `wanted`; [] for binary data."""
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
    """Download into memory, then write the file, so that a failed download leaves no file."""
    target = path or name_from(url)
    with workspace_failures():
        if not replace and await asyncio.to_thread(folder.exists, target):
            raise ToolFailure(
                f"{one_line(target)} exists already. Use another path, or set replace=true.",
                reason="exists",
                may_have_started=False,
            )
    fetch = await asyncio.to_thread(load_fetch)
    got = await fetch(url, ctx.need(DownloadRules), ctx.clock, lambda part: ctx.progress(f"downloading {url}", part))
    with workspace_failures():
        await asyncio.to_thread(folder.write, target, got.data)
    value = {"path": target, "bytes": len(got.data), "media_type": got.media_type, "url": got.url}
    message = f"Downloaded {len(got.data):,} bytes ({got.media_type or 'no media type given'}) to {one_line(target)}."
    return Produced(value, message, (f"downloaded:{got.url}", f"created:{target}"))


def load_fetch() -> "Callable[..., Awaitable[Download]]":
    from builtin_tools.download import fetch  # noqa: PLC0415 -- httpx is slow to import, and few calls download

    return fetch


def name_from(url: str) -> str:
    """Return the file name for a download that was requested without a path."""
    try:
        name = PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError:  # `fetch` then reports what is wrong with the URL
        return "download"
    return "download" if name in {"", ".", ".."} else name
