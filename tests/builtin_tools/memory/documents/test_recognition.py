"""The text of scanned pages is recognized with tesseract, if it is configured."""

import re
from pathlib import Path

import pypdfium2
import pytest

from builtin_tools.documents.extraction import extract
from builtin_tools.documents.in_box import recognition
from builtin_tools.documents.in_box.outline import UnreadableDocument
from builtin_tools.documents.in_box.recognition import TextRecognition
from builtin_tools.memory.pack import MemorySettings
from engine.contract.failure import ToolFailure
from sandbox.contract import Sandbox
from tests.builtin_tools.memory.documents import samples

pytestmark = pytest.mark.spec("MEM-3")
SCAN = samples.scan("The ferry leaves at noon.", "Bring your own rope.")


@pytest.mark.services
async def test_the_text_of_a_scan_is_recognized_in_its_box_and_cited_by_page(box: Sandbox) -> None:
    found = await extract(box, SCAN, "pdf", name="a.pdf", ocr="eng")
    assert [found.text[start:].split("\n")[0] for start in found.pages] == [
        "The ferry leaves at noon.",
        "Bring your own rope.",
    ]
    assert found.notes == ("2 of 2 pages are scans. Their text was recognized by OCR.",)


@pytest.mark.services
async def test_a_language_that_is_not_installed_is_named(box: Sandbox) -> None:
    with pytest.raises(ToolFailure, match=r"tesseract could not recognize its text .*'zzz'"):
        await extract(box, SCAN, "pdf", name="a.pdf", ocr="zzz")


def test_a_missing_tesseract_is_reported_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnreadableDocument, match="apt install tesseract-ocr"):
        TextRecognition("eng").text(pypdfium2.PdfDocument(SCAN)[0])


def test_pages_for_which_no_time_is_left_are_counted_and_a_disabled_recognition_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = pypdfium2.PdfDocument(SCAN)[0]
    monkeypatch.setattr(recognition, "BUDGET_S", 0.0)
    late, off = TextRecognition("eng"), TextRecognition("")
    assert [late.text(page), off.text(page)] == ["", ""]
    assert [(each.pages, each.skipped) for each in (late, off)] == [(0, 1), (0, 0)]


def test_a_huge_page_is_rendered_with_a_lower_resolution() -> None:
    document = pypdfium2.PdfDocument.new()
    picture = recognition._picture(document.new_page(14_400, 14_400))  # the largest page that PDF allows
    head = re.match(rb"P5 (\d+) (\d+) 255\n", picture)
    assert head is not None
    width, height = int(head[1]), int(head[2])
    assert len(picture) - head.end() == width * height
    assert width * height <= 1.01 * recognition._MOST_PIXELS


@pytest.mark.parametrize(("text", "valid"), [("eng", True), ("eng+deu", True), ("", True), ("eng; rm", False)])
def test_the_languages_of_the_configuration_are_checked(text: str, *, valid: bool) -> None:
    if valid:
        assert MemorySettings(ocr=text).ocr == text
    else:
        with pytest.raises(ValueError, match="ocr"):
            MemorySettings(ocr=text)
