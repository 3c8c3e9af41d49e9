"""Sizes as people write them on a command line."""

import re

import typer

_SIZE = re.compile(r"(\d+)\s*(|[KMGT](?:i?B)?)", re.IGNORECASE)
_UNITS = "KMGT"  # powers of 1024, with and without the i: nobody means the other one by `--memory 1GB`
_LEAST_MEMORY_BYTES = 128 << 20  # below it ipykernel itself does not start


def size(text: str) -> int:
    """Bytes of ``1GiB``, ``512M`` or ``1000000``. Raises typer.BadParameter."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size. Write it like 512MiB or 2GiB")
    unit = match[2][:1].upper()
    return int(match[1]) << (10 * (_UNITS.index(unit) + 1) if unit else 0)


def kernel_memory(text: str) -> int:
    """A size that a kernel starts in. Raises typer.BadParameter."""
    found = size(text)
    if found < _LEAST_MEMORY_BYTES:
        raise typer.BadParameter(f"no kernel starts in {text}. Give {_LEAST_MEMORY_BYTES >> 20}MiB or more")
    return found
