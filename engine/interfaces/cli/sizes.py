"""Parsers for sizes on the command line."""

import re

import typer

_SIZE = re.compile(r"(\d+)\s*(|[KMGT](?:i?B)?)", re.IGNORECASE)
_UNITS = "KMGT"  # always powers of 1024, since 1GB of memory usually means 1GiB
_MIN_KERNEL_MEMORY_BYTES = 128 << 20  # ipykernel does not start with less


def size(text: str) -> int:
    """Return the bytes of a size such as ``1GiB``, ``512M`` or ``1000000``.

    Raises:
        typer.BadParameter: The text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size. Write it like 512MiB or 2GiB")
    unit = match[2][:1].upper()
    return int(match[1]) << (10 * (_UNITS.index(unit) + 1) if unit else 0)


def kernel_memory(text: str) -> int:
    """Return the bytes of a memory limit for a kernel.

    Raises:
        typer.BadParameter: The text is not a size, or no kernel starts with so little memory.
    """
    amount = size(text)
    if amount < _MIN_KERNEL_MEMORY_BYTES:
        minimum = f"{_MIN_KERNEL_MEMORY_BYTES >> 20}MiB"
        raise typer.BadParameter(f"{text} is too little memory for a kernel. Use {minimum} or more")
    return amount
