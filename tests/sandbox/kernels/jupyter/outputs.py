"""Normalizes the outputs of a notebook, to compare runs in two kernels."""

import base64
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.image
import nbformat
import numpy as np

_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b")
_PROCESS = re.compile(r"ipykernel_\d+")


def comparable(notebook: nbformat.NotebookNode, folder: Path, packages: Iterable[str]) -> list[tuple[str, Any]]:
    """Return (source, outputs) of every code cell, without the parts that may differ between two runs.

    These are:
    - addresses of objects;
    - the process id in the generated file names of cells;
    - the folder, whose path in a box is `/work`, and packages, which are in `/env/0` in a box;
    - line ends of `!command`: a pseudo-terminal writes two characters, and a box has none;
    - how a stream was split into messages, and their order relative to the other stream and displays.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list):
            return [plain(each) for each in value]
        if not isinstance(value, str):
            return value
        value = _PROCESS.sub("ipykernel_N", _ADDRESS.sub("0x…", value)).replace("\r\n", "\n")
        for host, box in [(str(folder), "/work"), *((path, "/env/0") for path in packages)]:
            value = value.replace(host, box)
        return value

    found: list[tuple[str, Any]] = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        streams: dict[str, str] = {}
        others = []
        for output in cell.outputs:
            if output.output_type == "stream":
                streams[output.name] = streams.get(output.name, "") + output.text
            else:
                others.append(plain(dict(output)))
        found.append((cell.source, {"streams": plain(streams), "others": others}))
    return found


def same(one: Any, other: Any) -> bool:
    """Return whether the outputs of two cells are equal; pictures are compared by their pixels."""
    return pointed(one) == pointed(other)


def pointed(value: Any) -> Any:
    """Return the value with each PNG replaced by its size and pixels."""
    if isinstance(value, list):
        return [pointed(each) for each in value]
    if isinstance(value, dict):
        return {key: points(each) if key == "image/png" else pointed(each) for key, each in value.items()}
    return value


def points(encoded: str) -> tuple[tuple[int, ...], bytes]:
    picture = matplotlib.image.imread(io.BytesIO(base64.b64decode(encoded)), format="png")
    return picture.shape, np.ascontiguousarray(picture).tobytes()
