"""The peer of `knackbox bench documents`: the parser alone, in a plain process without a sandbox.

It reads one path per line from stdin, and writes one JSON line for each: the number of characters and the seconds.
"""

import json
import sys
import time
from pathlib import Path


def pdf(path: str) -> int:
    from pypdfium2 import PdfDocument  # noqa: PLC0415 -- only the formats that occur are loaded

    document = PdfDocument(path)
    return sum(len(page.get_textpage().get_text_bounded()) for page in document)


def html(path: str) -> int:
    from lxml import html as lxml_html  # noqa: PLC0415 -- same

    return len(lxml_html.fromstring(Path(path).read_bytes()).text_content())


def docx(path: str) -> int:
    from docx import Document  # noqa: PLC0415 -- same

    return sum(len(paragraph.text) for paragraph in Document(path).paragraphs)


def xlsx(path: str) -> int:
    from openpyxl import load_workbook  # noqa: PLC0415 -- same

    book = load_workbook(path, read_only=True, data_only=True)
    return sum(len(str(cell)) for sheet in book for row in sheet.iter_rows(values_only=True) for cell in row)


def markdown(path: str) -> int:
    from markdown_it import MarkdownIt  # noqa: PLC0415 -- same

    text = Path(path).read_text(encoding="utf-8", errors="replace")
    MarkdownIt("commonmark").parse(text)
    return len(text)


def plain(path: str) -> int:
    return len(Path(path).read_text(encoding="utf-8", errors="replace"))


PARSERS = {".pdf": pdf, ".html": html, ".htm": html, ".docx": docx, ".xlsx": xlsx, ".md": markdown}


def main() -> None:
    for line in sys.stdin:
        path = line.rstrip("\n")
        began = time.perf_counter()
        characters = PARSERS.get(Path(path).suffix.lower(), plain)(path)
        print(json.dumps({"characters": characters, "seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
