"""Reads one document in a box. The result is written to ``extracted.json``, because texts may be too long to return."""

import importlib
import json
from pathlib import Path
from typing import Any

from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument

OUTPUT = "extracted.json"
PACKAGE = "builtin_tools.documents.in_box"
# Format -> module, function, and the distribution that the module needs.
READERS = {
    "pdf": ("pdf", "read", "pypdfium2"),
    "docx": ("docx", "read", "python-docx"),
    "pptx": ("pptx", "read", "python-pptx"),
    "xlsx": ("xlsx", "read", "openpyxl"),
    "epub": ("epub", "read", "lxml"),
    "html": ("html", "read", "lxml"),
    "web_page": ("web_page", "read", "trafilatura"),
    "markdown": ("plain", "read_markdown", "markdown-it-py"),
    "text": ("plain", "read_text", "charset-normalizer"),
    "csv": ("plain", "read_csv", "charset-normalizer"),
    "json": ("plain", "read_json", "charset-normalizer"),
}


def extract(path: str, format_name: str, options: dict[str, str]) -> dict[str, Any]:
    """Read a document and write the result to ``extracted.json``.

    Args:
        path: The path of the document.
        format_name: A key of `READERS`.
        options: Further arguments of the reader.

    Returns:
        ``{"problem": text}``, where the text is "" if the document was read.
    """
    module, function, needed = READERS[format_name]
    outline = Outline()
    try:
        reader = importlib.import_module(f"{PACKAGE}.{module}")
    except ImportError:
        return {"problem": f"reading {format_name} needs {needed}: pip install {needed}."}
    try:
        getattr(reader, function)(path, outline, **options)
    except UnreadableDocument as error:
        return {"problem": str(error)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- the libraries raise many classes for damaged files
        detail = " ".join(str(error).split())[:300]
        return {"problem": f"it is damaged, or not a {format_name} document ({type(error).__name__}: {detail})."}
    Path(OUTPUT).write_text(json.dumps(outline.result(), ensure_ascii=False), encoding="utf-8")
    return {"problem": ""}
