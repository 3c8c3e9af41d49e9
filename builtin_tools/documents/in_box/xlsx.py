"""Reads spreadsheets (XLSX) with openpyxl."""

from openpyxl import load_workbook

from builtin_tools.documents.in_box.archives import checked_archive
from builtin_tools.documents.in_box.outline import Outline
from builtin_tools.documents.in_box.rows import add_table


def read(path: str, outline: Outline) -> None:
    """Read a spreadsheet. For formulas, the stored results are read."""
    checked_archive(path).close()
    workbook = load_workbook(path, read_only=True, data_only=True)
    outline.title = workbook.properties.title or ""
    for sheet in workbook.worksheets:
        outline.page()
        outline.heading(sheet.title, 1)
        # Files may declare a million empty rows, so the declared size is ignored.
        sheet.reset_dimensions()
        add_table(sheet.iter_rows(values_only=True), outline)
