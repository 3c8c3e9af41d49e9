"""Small documents in every format, and hostile ones, made by the tests."""

import io
import json
import zipfile
from collections.abc import Iterable

import openpyxl
import pptx
import pypdfium2
from docx import Document

_PDF_PAGE = "BT /F1 12 Tf 72 700 Td ({text}) Tj ET"


def pdf(*pages: str, title: str = "") -> bytes:
    """Return a PDF document with a line of text on each page; a page without text has none."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for text in pages:
        stream = _PDF_PAGE.format(text=text) if text else ""
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        content = len(objects)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    body, offsets = "%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    body += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
    start = body.index("xref\n")
    return f"{body}startxref\n{start}\n%%EOF\n".encode("latin-1")


def scan(*pages: str) -> bytes:
    """Return a PDF document whose pages are pictures of these texts."""
    source, target = pypdfium2.PdfDocument(pdf(*pages)), pypdfium2.PdfDocument.new()
    for page in source:
        picture, (width, height) = pypdfium2.PdfImage.new(target), page.get_size()
        picture.set_bitmap(page.render(scale=200 / 72))
        picture.set_matrix(pypdfium2.PdfMatrix().scale(width, height))
        made = target.new_page(width, height)
        made.insert_obj(picture)
        made.gen_content()
    saved = io.BytesIO()
    target.save(saved)
    return saved.getvalue()


def many_pages(count: int) -> bytes:
    document = pypdfium2.PdfDocument.new()
    for _ in range(count):
        document.new_page(10, 10)
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def docx(title: str, blocks: Iterable[tuple[int, str]], table: Iterable[Iterable[str]] = ()) -> bytes:
    """Return a Word document. Each block is a level, 0 for a paragraph, and a text."""
    document = Document()
    document.core_properties.title = title
    for level, text in blocks:
        document.add_heading(text, level) if level else document.add_paragraph(text)
    rows = [list(row) for row in table]
    if rows:
        made = document.add_table(len(rows), len(rows[0]))
        for at, row in enumerate(rows):
            for column, text in enumerate(row):
                made.cell(at, column).text = text
    return _saved(document)


def slides(*titled: tuple[str, str]) -> bytes:
    presentation = pptx.Presentation()
    for title, text in titled:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    return _saved(presentation)


def sheet(name: str, rows: Iterable[Iterable[object]]) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.title = name
    for row in rows:
        workbook.active.append(list(row))
    return _saved(workbook)


def epub(pages: Iterable[str], package: str | None = None) -> bytes:
    pages = list(pages)
    items = "".join(
        f'<item id="p{at}" href="p{at}.xhtml" media-type="application/xhtml+xml"/>' for at in range(len(pages))
    )
    spine = "".join(f'<itemref idref="p{at}"/>' for at in range(len(pages)))
    package = package or (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>A Book</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    files = {"META-INF/container.xml": container, "OPS/book.opf": package}
    files |= {f"OPS/p{at}.xhtml": page for at, page in enumerate(pages)}
    return archive({"mimetype": "application/epub+zip", **files})


def archive(files: dict[str, str], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", packing) as made:
        for name, text in files.items():
            made.writestr(name, text, zipfile.ZIP_STORED if name == "mimetype" else None)
    return target.getvalue()


def zip_bomb() -> bytes:
    """Return what claims to be a Word document: half a megabyte that unpacks to 512 MiB."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("[Content_Types].xml", "<Types/>")
        with made.open("word/document.xml", "w") as inside:
            for _ in range(512):
                inside.write(bytes(1 << 20))
    return target.getvalue()


def entity_bomb() -> bytes:
    """Return an electronic book whose package file expands to three billion characters (the billion laughs attack)."""
    entities = '<!ENTITY a0 "lol">' + "".join(
        f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 10)
    )
    return epub(["<html/>"], f"<!DOCTYPE package [{entities}]><package><metadata>&a9;</metadata></package>")


def nested_json(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _saved(document: object) -> bytes:
    target = io.BytesIO()
    document.save(target)  # type: ignore[attr-defined]
    return target.getvalue()


HOSTILE = {
    "zip bomb": ("a.docx", zip_bomb, "ZIP bomb"),
    "entity bomb": ("a.epub", entity_bomb, "damaged"),
    "6,000 pages": ("a.pdf", lambda: many_pages(6_000), "6,000 pages"),
    "huge cell": ("a.csv", lambda: b"a,b\n" + b"x" * 300_000 + b",1\n", "field larger|300,000 characters"),
    "deep JSON": ("a.json", lambda: nested_json(200), "nested"),
    "very deep JSON": ("a.json", lambda: nested_json(1_000_000), "nested"),
    "deep HTML": ("a.html", lambda: b"<html>" + b"<div>" * 10_000 + b"deep", "nested|no text"),
    "scan": ("a.pdf", lambda: pdf("", ""), "a scan.*Set `ocr`"),
    "damaged PDF": ("a.pdf", lambda: b"%PDF-1.7\n" + bytes(500), "damaged"),
    "damaged archive": ("a.docx", lambda: archive({"word/document.xml": "<x"})[:-30], "damaged"),
    "no Word document": ("a.docx", lambda: archive({"word/document.xml": "<x/>"}), "damaged"),
    "old Office": ("a.doc", lambda: b"\xd0\xcf\x11\xe0" + bytes(100), "Save it as .docx"),
    "program": ("a.bin", lambda: b"\x7fELF" + bytes(100), "not supported"),
    "nothing": ("a.txt", lambda: b" \n ", "no text"),
    "invalid JSON": ("a.json", lambda: json.dumps({"a": 1}).encode()[:-1], "not valid JSON"),
}
