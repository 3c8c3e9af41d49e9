"""`LinkedFiles`: the files that calls made, for the client: pictures as images, all of them as resources.

A client may read what a result has named, and nothing else of the workspace: which tools it has still decides what it
can see.
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
MOST_LINKS = 20  # of one result
MOST_KEPT = 1_000  # links a client may still read; the oldest are forgotten
IMAGE_BYTES = 1 << 20  # of one picture; a larger one is a resource alone
IMAGES_BYTES = 4 << 20  # of one result's pictures
READ_BYTES = 32 << 20
_PICTURES = BINARY - {"application/pdf"}


class LinkedFiles:
    """For one client of one workspace. Every method but `listed` reads the disk. From any thread."""

    def __init__(self, workspace: FolderWorkspace) -> None:
        self._workspace = workspace
        self._links: OrderedDict[str, Resource] = OrderedDict()
        self._lock = threading.Lock()  # of the links

    def of(self, side_effects: Sequence[str]) -> list[ImageContent | ResourceLink]:
        """The files that a call created. What is not there any more, or leads out of the workspace, is left out."""
        found: list[ImageContent | ResourceLink] = []
        room = IMAGES_BYTES
        paths = [each.removeprefix(CREATED) for each in side_effects if each.startswith(CREATED)]
        for path in list(dict.fromkeys(paths))[:MOST_LINKS]:
            link = self._link(path)
            if link is None:
                continue
            image = self._image(path, link, min(room, IMAGE_BYTES))
            if image is not None:
                found.append(image)
                room -= link.size or 0
            found.append(link)
        return found

    def listed(self) -> ListResourcesResult:
        """What may be read, the latest first."""
        with self._lock:
            return ListResourcesResult(resources=list(reversed(self._links.values())))

    def read(self, uri: str) -> ReadResourceResult:
        """Raises MCPError for what no result has named, and for what cannot be read any more."""
        with self._lock:
            link = self._links.get(uri)
        if link is None:
            raise MCPError(INVALID_PARAMS, f"{uri}: no result of this session has named it. Call a tool to read files.")
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
            while len(self._links) > MOST_KEPT:
                self._links.popitem(last=False)
        return ResourceLink(name=path, uri=uri, mime_type=kind, size=entry.size)

    def _image(self, path: str, link: ResourceLink, limit: int) -> ImageContent | None:
        """The picture, when it is one, and small enough."""
        kind = link.mime_type or ""
        if kind not in _PICTURES or (link.size or 0) > limit:
            return None
        try:
            data = self._workspace.read(path, limit)
        except (OSError, WorkspaceError):
            return None
        return ImageContent(mime_type=kind, data=base64.b64encode(data).decode()) if is_really(data, kind) else None


def contents(uri: str, kind: str | None, data: bytes) -> TextResourceContents | BlobResourceContents:
    """Text where it is UTF-8 without a NUL, else base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(data).decode())
    return TextResourceContents(uri=uri, mime_type=kind, text=text)
