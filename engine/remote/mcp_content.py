"""Converts the answer of an MCP server to a return value. Text stays text, everything else becomes a file (MOD-6)."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from engine.contract.context import Produced, Workspace
from engine.remote.text import one_line

FOLDER = "modules"
MOST_FILES = 16  # files written for one answer
_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "application/pdf": "pdf",
    "text/plain": "txt",
    "text/csv": "csv",
    "application/json": "json",
}

Block = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def produced(module: str, result: CallToolResult, workspace: Workspace) -> Any:
    """Convert an answer to a return value whose message is the answer's text. Blocks, because it writes files.

    Raises:
        OSError: A file cannot be written.
    """
    files: list[str] = []
    lines = [_line(module, block, workspace, files) for block in result.content]
    text = "\n".join(line for line in lines if line)
    value = result.structured_content if result.structured_content is not None else text
    if not text:
        return value  # the message is then derived from the value
    return Produced(value, text, tuple(f"created:{path}" for path in files))


def text_of(content: Sequence[Block]) -> str:
    """Return the text parts of an answer that reports an error."""
    return "\n".join(block.text for block in content if isinstance(block, TextContent)).strip()


def _line(module: str, block: Block, workspace: Workspace, files: list[str]) -> str:
    """Return what the model reads for one content block of an answer. Files that are written are added to `files`."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return _saved(module, block.data, block.mime_type, workspace, files)
    if isinstance(block, ResourceLink):
        return f"[{one_line(block.name, 100)}: {one_line(block.uri, 500)}]"
    resource = block.resource
    if isinstance(resource, BlobResourceContents):
        return _saved(module, resource.blob, resource.mime_type or "", workspace, files)
    return resource.text


def _saved(module: str, data: str, media_type: str, workspace: Workspace, files: list[str]) -> str:
    """Write base64 data to a file named after its digest, and return a line about the file for the model."""
    kind = one_line(media_type, 60) or "data"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} that is not valid base64, omitted]"
    if len(files) >= MOST_FILES:
        return f"[{kind}, {len(raw):,} bytes, omitted: more than {MOST_FILES} files in one answer]"
    path = f"{FOLDER}/{module}/{hashlib.sha256(raw).hexdigest()[:16]}.{_ENDINGS.get(media_type, 'bin')}"
    workspace.write(path, raw)
    files.append(path)
    return f"[{kind}, {len(raw):,} bytes, saved as {path}]"
