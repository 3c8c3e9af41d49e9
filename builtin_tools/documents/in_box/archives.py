"""Opens DOCX, PPTX, XLSX and EPUB documents as ZIP archives, and refuses ZIP bombs."""

import zipfile

from builtin_tools.documents.in_box.outline import UnreadableDocument

MOST_FILES = 20_000
MOST_BYTES = 400 << 20  # of all files, unpacked
MOST_RATIO = 200  # between the unpacked and the packed size of a file
_SMALL = 1 << 20  # bytes; smaller files may have any ratio


def checked_archive(path: str) -> zipfile.ZipFile:
    """Open an archive.

    Raises:
        UnreadableDocument: The archive is damaged or encrypted, or its files would be too large when unpacked.
    """
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise UnreadableDocument(f"it is damaged or of another format ({error}). Save it again.") from error
    files = archive.infolist()
    if len(files) > MOST_FILES:
        raise UnreadableDocument(f"it contains {len(files):,} files, and {MOST_FILES:,} are allowed.")
    if any(file.flag_bits & 1 for file in files):
        raise UnreadableDocument("it is protected by a password. Save it without one.")
    total = sum(file.file_size for file in files)
    dense = [file for file in files if file.file_size > _SMALL and file.file_size > MOST_RATIO * file.compress_size]
    if total > MOST_BYTES or dense:
        raise UnreadableDocument(
            f"its files would take {total / (1 << 20):,.0f} MiB when unpacked, which looks like a ZIP bomb. "
            f"{MOST_BYTES >> 20} MiB, and at most {MOST_RATIO} times the packed size of a file, are allowed."
        )
    return archive
