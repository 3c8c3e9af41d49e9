"""PDF documents for `vision_analysis`: with coloured pages, and hostile ones."""

import random
import zlib


def document(pages: list[tuple[str, bytes]], extra: tuple[bytes, ...] = (), resources: str = "") -> bytes:
    """Return a PDF document.

    Args:
        pages: For each page its MediaBox, such as ``0 0 612 792``, and its content stream.
        extra: Further objects, numbered from 4.
        resources: Further entries of the pages' resources.
    """
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *extra,
    ]
    kids = []
    for box, content in pages:
        packed = zlib.compress(content)
        objects.append(b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed))
        stream = len(objects)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents {stream} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> {resources} >> >>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    body, offsets = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + end


def coloured(*pages: tuple[str, str]) -> bytes:
    """Return a document whose pages are each filled with a colour (``1 0 0``) and have a line of text."""
    return document(
        [
            ("0 0 300 400", f"{colour} rg 0 0 300 400 re f 0 g BT /F1 12 Tf 20 350 Td ({text}) Tj ET".encode())
            for colour, text in pages
        ]
    )


def with_password() -> bytes:
    """Return a document that asks for a password: the digests in it belong to none (ISO 32000-1, 7.6.3)."""
    one = document([("0 0 300 400", b"")])
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'41' * 32}> /U <{'42' * 32}> >> /ID [<43> <43>]"
    return one.replace(b"/Root 1 0 R", b"/Root 1 0 R " + lock.encode())


def with_contents_of(path: str) -> bytes:
    """Return a document whose page is drawn by a file outside of the document (ISO 32000-1, table 5, entry F)."""
    one = document([("0 0 300 400", b"")])
    start = one.index(b"<< /Filter /FlateDecode")
    return one[:start] + f"<< /F ({path}) /FFilter null /Length 0 ".encode() + one[one.index(b">>", start) :]


def many_pages(count: int) -> bytes:
    """Return a small document with many pages: all are the same object."""
    one = document([("0 0 300 400", b"")])
    return one.replace(b"/Kids [5 0 R] /Count 1", b"/Kids [%s] /Count %d" % (b"5 0 R " * count, count))


def huge_page(side: int) -> bytes:
    return document([(f"0 0 {side} {side}", b"1 0 0 rg 0 0 100 100 re f")])


def picture_bomb(side: int) -> bytes:
    """Return a document with a picture of `side` by `side` black pixels, compressed twice."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(side * 3)) for _ in range(side)) + packer.flush()
    return _picture(side, zlib.compress(rows, 9), "/Filter [/FlateDecode /FlateDecode]")


def noise(side: int) -> bytes:
    """Return a document with a picture of `side` by `side` random pixels, always the same."""
    return _picture(side, random.Random(side).randbytes(side * side * 3), "")


def _picture(side: int, packed: bytes, filters: str) -> bytes:
    head = (
        f"<< /Type /XObject /Subtype /Image /Width {side} /Height {side} /ColorSpace /DeviceRGB /BitsPerComponent 8 "
        f"{filters} /Length {len(packed)} >>\nstream\n"
    )
    picture = head.encode() + packed + b"\nendstream"
    return document([("0 0 300 400", b"300 0 0 400 0 0 cm /X1 Do")], (picture,), "/XObject << /X1 4 0 R >>")


def endless_page() -> bytes:
    """Return a document whose page is a form that draws another form ten times, and so on, ten levels deep."""
    levels = 10
    forms = []
    for level in range(levels):
        content = b"0 0 300 400 re f " if level == levels - 1 else b"/X1 Do " * 10
        below = f"/Resources << /XObject << /X1 {5 + level} 0 R >> >>" if level < levels - 1 else ""
        head = f"<< /Type /XObject /Subtype /Form /BBox [0 0 300 400] {below} /Length {len(content)} >>\nstream\n"
        forms.append(head.encode() + content + b"\nendstream")
    return document([("0 0 300 400", b"/X1 Do")], tuple(forms), "/XObject << /X1 4 0 R >>")
