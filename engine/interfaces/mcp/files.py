"""`LinkedFiles`: offers a client the files that its calls created, as resources; images are also sent as content.

A client can read only files that a result has named, not the rest of the workspace. The tools that it may call
therefore still determine what it can read.
"""

import base64
import mimetypes
import threading
from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import quote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ImageContent,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceLink,
    TextResourceContents,
)

from engine.formats.pictures import BINARY, is_really
from engine.stores.workspace import FolderWorkspace, WorkspaceError

SCHEME = "knackbox://workspace/"
CREATED = "created:"
MAX_LINKS = 20  # limit for one result
MAX_READABLE = 1_000  # links that a client can read; the oldest are forgotten
PAGE = 100  # links on one page of the list
IMAGE_BYTES = 1 << 20  # limit for one image; a larger one is only a resource
IMAGES_BYTES = 4 << 20  # limit for all images of one result
READ_BYTES = 32 << 20
_IMAGE_TYPES = BINARY - {"application/pdf"}


class LinkedFiles:
    """The files that the clients of one owner may read. Thread-safe; every method except `listed` reads the disk."""

    def __init__(self, workspace: FolderWorkspace) -> None:
        self._workspace = workspace
        # Not a cachetools cache, because `listed` returns the most recently linked files first.
        self._links: OrderedDict[str, Resource] = OrderedDict()
        self._lock = threading.Lock()  # guards the links

    def of(self, side_effects: Sequence[str]) -> list[ImageContent | ResourceLink]:
        """Return links to the files that a call created, and the content of small images.

        Files that no longer exist or are outside the workspace are omitted.
        """
        found: list[ImageContent | ResourceLink] = []
        bytes_left = IMAGES_BYTES
        paths = [each.removeprefix(CREATED) for each in side_effects if each.startswith(CREATED)]
        for path in list(dict.fromkeys(paths))[:MAX_LINKS]:
            link = self._link(path)
            if link is None:
                continue
            image = self._image(path, link, min(bytes_left, IMAGE_BYTES))
            if image is not None:
                found.append(image)
                bytes_left -= link.size or 0
            found.append(link)
        return found

    def listed(self, cursor: str = "") -> ListResourcesResult:
        """Return one page of the files that may be read, newest first.

        Args:
            cursor: `next_cursor` of the previous page, which is the URI of its last file; "" for the first page.

        Raises:
            MCPError: The file at the cursor was forgotten, so the list must be read from the start.
        """
        with self._lock:
            links = list(reversed(self._links.values()))
        start = 0
        if cursor:
            start = next((number for number, link in enumerate(links, 1) if link.uri == cursor), 0)
            if not start:
                raise MCPError(INVALID_PARAMS, "The cursor is not valid any longer. List the resources from the start.")
        page = links[start : start + PAGE]
        more = start + PAGE < len(links)
        return ListResourcesResult(resources=page, next_cursor=page[-1].uri if more else None)

    def read(self, uri: str) -> ReadResourceResult:
        """Read a linked file.

        Raises:
            MCPError: No result has named the file, or it can no longer be read.
        """
        with self._lock:
            link = self._links.get(uri)
        if link is None:
            text = f"{uri}: no result of this session has named this file. Call a tool to read files."
            raise MCPError(INVALID_PARAMS, text, {"uri": uri})
        try:
            data = self._workspace.read(link.name, READ_BYTES)
        except (OSError, WorkspaceError) as error:
            raise MCPError(INVALID_PARAMS, f"{uri}: {error}") from error
        return ReadResourceResult(contents=[contents(uri, link.mime_type, data)])

    def _link(self, path: str) -> ResourceLink | None:
        try:
            entry = self._workspace.stat(path)
        except (OSError, WorkspaceError):
            return None
        if entry.kind != "file":
            return None
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        uri = SCHEME + quote(path)
        with self._lock:
            self._links.pop(uri, None)
            self._links[uri] = Resource(name=path, uri=uri, mime_type=kind, size=entry.size)
            while len(self._links) > MAX_READABLE:
                self._links.popitem(last=False)
        return ResourceLink(name=path, uri=uri, mime_type=kind, size=entry.size)

    def _image(self, path: str, link: ResourceLink, limit: int) -> ImageContent | None:
        """Return the file as image content if it is an image of at most `limit` bytes."""
        kind = link.mime_type or ""
        if kind not in _IMAGE_TYPES or (link.size or 0) > limit:
            return None
        try:
            data = self._workspace.read(path, limit)
        except (OSError, WorkspaceError):
            return None
        return ImageContent(mime_type=kind, data=base64.b64encode(data).decode()) if is_really(data, kind) else None


def contents(uri: str, kind: str | None, data: bytes) -> TextResourceContents | BlobResourceContents:
    """Return data as text if it is UTF-8 without NUL bytes, otherwise as base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(data).decode())
    return TextResourceContents(uri=uri, mime_type=kind, text=text)
