"""The outputs of a cell as text for a model and as files. Nothing in a bundle is trusted."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.kernels.bundle import File
from builtin_tools.kernels.cell_display import MOST_BYTES, MOST_FILES, CellDisplay, file_writer, show
from builtin_tools.kernels.cells import failure_of_cell
from engine.formats.pictures import size_of
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import CodeError, End
from sandbox.kernels.spec import Cell, Output

pytestmark = pytest.mark.spec("KERN-4")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + b"\x03" + bytes(9)
GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + bytes(3)


def b64(data: bytes) -> str:
    return base64.encodebytes(data).decode()  # with line breaks, as some libraries send it


def stream(text: str, name: str = "stdout") -> Output:
    return Output("stream", name=name, text=text)


def display(**data: Any) -> Output:
    return Output("display", data={kind.replace("__", "+").replace("_", "/", 1): value for kind, value in data.items()})


def shown(*outputs: Output, dropped: int = 0) -> CellDisplay:
    return show(Cell(End.OK, outputs, dropped_bytes=dropped), lambda file: f"f{file.suffix}")


def test_several_outputs_are_labelled_in_order_and_a_single_one_is_not() -> None:
    assert shown(stream("a\n")).message == "a"
    assert shown(stream("a\n"), display(text_plain="b"), stream("c", "stderr")).message == (
        "stdout:\na\ndisplay:\nb\nstderr:\nc"
    )
    assert shown(stream("only", "stderr")).message == "stderr:\nonly"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"image_png": b64(PNG)}, "[image/png, 1 x 1, 70 bytes: f.png]"),
        ({"image_jpeg": b64(JPEG)}, f"[image/jpeg, 640 x 480, {len(JPEG)} bytes: f.jpg]"),
        ({"image_png": b64(PNG), "image_jpeg": b64(JPEG)}, "[image/png, 1 x 1, 70 bytes: f.png]"),
        ({"image_gif": b64(GIF)}, "[image/gif, 7 x 9, 13 bytes: f.gif]"),
        ({"image_svg__xml": "<svg/>"}, "[image/svg+xml, 6 bytes: f.svg]"),
        ({"application_pdf": b64(b"%PDF-1.7")}, "[application/pdf, 8 bytes: f.pdf]"),
        ({"text_html": "<b>x</b>", "text_plain": "<HTML object>"}, "<b>x</b>"),
        ({"text_html": "<b>x</b>" * 400, "text_plain": "<HTML object>"}, "[text/html, 3,200 bytes: f.html]"),
        ({"text_html": "<b>x</b>", "text_plain": "a table"}, "a table"),
        ({"text_markdown": "**x**", "text_plain": "<IPython.core.display.Markdown object>"}, "**x**"),
        ({"text_latex": "$x$", "text_plain": "<IPython.core.display.Latex object>"}, "$x$"),
        ({"application_json": {"a": 1}, "text_plain": "<IPython.core.display.JSON object>"}, '{"a": 1}'),
        (
            {"image_png": b64(PNG), "text_html": "<b>x</b>"},
            "[image/png, 1 x 1, 70 bytes: f.png]\n[text/html, 8 bytes: f.html]",
        ),
        ({"text_html": "<table>", "text_plain": "   a\n0  1"}, "   a\n0  1"),
        (
            {"application_vnd.plotly.v1__json": {"data": []}, "text_plain": "Figure({})"},
            "Figure({})\n[application/vnd.plotly.v1+json, 12 bytes: f.json]",
        ),
        ({"text_markdown": "**x**"}, "**x**"),
        ({"text_latex": "$x$"}, "$x$"),
        ({"application_json": {"a": 1}}, '{"a": 1}'),
        ({"application_json": "x" * 5000}, "[application/json, 5,002 bytes: f.json]"),
        ({}, ""),
    ],
)
def test_text_is_shown_and_the_rest_becomes_files(data: dict[str, Any], message: str) -> None:
    assert shown(display(**data)).message == message


@pytest.mark.parametrize(
    "data",
    [
        {"image_png": "not base64!"},
        {"image_png": b64(b"text that calls itself a picture")},
        {"image_png": ["a", "list"]},
        {"image_png": {"width": 3}},
        {"application_pdf": b64(PNG)},
        {"image_svg__xml": "<script>"},
        {"text_html": 7},
    ],
)
def test_a_form_that_does_not_match_its_type_becomes_one_line(data: dict[str, Any]) -> None:
    found = shown(stream("before"), display(**data), stream("after"))
    assert found.paths == ()
    assert found.message.count("is not of this type and was not kept]") == 1
    assert "before" in found.message
    assert "after" in found.message


def test_a_truncated_picture_has_no_size() -> None:
    for data, kind in ((PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif")):
        for length in range(len(data)):
            size_of(data[:length], kind)
    assert size_of(PNG[:20], "image/png") is None


def test_files_are_limited_in_number_and_size() -> None:
    many = shown(*(display(image_png=b64(PNG)) for _ in range(MOST_FILES + 3)))
    assert len(many.paths) == MOST_FILES
    assert many.message.count("not kept") == 3
    large = b64(PNG + bytes(MOST_BYTES // 2))
    assert len(shown(display(image_png=large), display(image_png=large)).paths) == 1


def test_dropped_bytes_are_mentioned() -> None:
    assert "5,000 bytes of output exceeded the limit" in shown(stream("x"), dropped=5000).message


def test_the_structured_value_has_types_files_and_limited_text() -> None:
    found = shown(stream("x" * (3 << 20)), display(image_png=b64(PNG), text_plain="<P>"))
    printed, picture = found.outputs
    assert len(printed["text"]) == 1 << 20
    assert picture == {
        "kind": "display",
        "media_types": ["image/png", "text/plain"],
        "files": [{"path": "f.png", "media_type": "image/png", "bytes": 70, "width": 1, "height": 1}],
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(
    [
        "text/plain",
        "text/html",
        "text/latex",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/svg+xml",
        "application/pdf",
        "application/json",
        "application/vnd.vegalite.v5+json",
    ]
)
PICTURES = st.sampled_from([b64(PNG), b64(JPEG), b64(GIF), b64(b"RIFF"), "<svg>"])
OUTPUTS = st.builds(
    Output,
    st.sampled_from(["stream", "result", "display", "error"]),
    name=st.sampled_from(["stdout", "stderr", "other"]) | st.text(),
    text=st.text(),
    data=st.dictionaries(KINDS | st.text(), JSON | PICTURES | st.binary().map(b64), max_size=5),
)


@given(outputs=st.lists(OUTPUTS, max_size=6), ok=st.booleans())
def test_any_outputs_become_a_message_json_and_files_with_known_names(outputs: list[Output], ok: bool) -> None:
    kept: list[File] = []

    def keep(file: File) -> str:
        kept.append(file)
        return f"outputs/{len(kept)}{file.suffix}"

    cell = Cell(End.OK if ok else End.ERROR, tuple(outputs), None if ok else CodeError("E", "m", "t"), 1)
    found = show(cell, keep)
    json.dumps(found.outputs)
    assert len(found.paths) == len(kept)
    assert {file.suffix for file in kept} <= {".png", ".jpg", ".gif", ".webp", ".svg", ".pdf", ".html", ".json"}
    for path in found.paths:
        assert path in found.message
    for output in outputs:
        if output.kind == "stream":
            assert output.text.rstrip("\n") in found.message
    if not ok:
        assert "The cell failed" in str(failure_of_cell(cell, found))


def picture() -> File:
    return File("image/png", ".png", PNG)


def test_files_are_named_after_the_cell_and_never_replace_others(tmp_path: Path) -> None:
    workspace = FolderWorkspace(tmp_path)
    workspace.write("outputs/default-3-1.png", b"mine")
    keep = file_writer(workspace, "default-3")
    paths = [keep(picture()) for _ in range(2)]
    assert workspace.read("outputs/default-3-1.png") == b"mine"
    assert paths[0].startswith("outputs/default-3-1-")
    assert paths[1] == "outputs/default-3-2.png"
    assert [workspace.read(path) for path in paths] == [PNG, PNG]


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize("trap", ["folder is a link out", "folder is a file", "name is a link out"])
def test_a_link_in_the_workspace_cannot_redirect_a_file(tmp_path: Path, trap: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim.png").write_bytes(b"whole")
    workspace = FolderWorkspace(tmp_path / "workspace")
    folder = tmp_path / "workspace" / "outputs"
    if trap == "folder is a link out":
        folder.symlink_to(outside)
    elif trap == "folder is a file":
        folder.write_text("x")
    else:
        folder.mkdir()
        (folder / "default-1-1.png").symlink_to(outside / "victim.png")
    found = show(Cell(End.OK, (display(image_png=b64(PNG)),)), file_writer(workspace, "default-1"))
    assert (outside / "victim.png").read_bytes() == b"whole"
    assert [path.name for path in outside.iterdir()] == ["victim.png"]
    assert ("could not be kept" in found.message) == (trap != "name is a link out")
