"""`file_system` works on files of the workspace and on no others."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builtin_tools.file_system import MAX_ENTRIES, MAX_MATCHES, MAX_READ_TEXT, file_system, name_from
from engine.contract.context import CallContext, Produced
from engine.contract.failure import FailureClass, ToolFailure
from tests.builtin_tools.http_server import reply, serving


async def do(ctx: CallContext, action: str, **arguments: Any) -> Produced:
    produced = await file_system.run(ctx, {"action": action, **arguments})
    assert isinstance(produced, Produced)
    return produced


async def refused(ctx: CallContext, action: str, **arguments: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await do(ctx, action, **arguments)
    assert caught.value.failure_class is FailureClass.DIAGNOSTIC
    return caught.value


async def outcome(ctx: CallContext, action: str, **arguments: Any) -> str:
    """Return the whole result or failure of a call as text."""
    try:
        return repr(await do(ctx, action, **arguments))
    except ToolFailure as failure:
        return repr(failure)


def names_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


@pytest.fixture
def root(ctx: CallContext) -> Path:
    return ctx.workspace.root


@pytest.mark.spec("TOOL-2")
async def test_a_written_file_is_read_back(ctx: CallContext) -> None:
    written = await do(ctx, "write", path="notes/a.txt", content="first\nsecond\n")
    assert written.side_effects == ("created:notes/a.txt",)
    assert (await do(ctx, "read", path="notes/a.txt")).message == "first\nsecond\n"
    again = await do(ctx, "write", path="notes/a.txt", content="")
    assert again.side_effects == ("replaced:notes/a.txt",)
    assert (await do(ctx, "read", path="notes/a.txt")).message == "notes/a.txt is empty."


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
async def test_any_text_survives_writing_and_reading(ctx: CallContext, text: str) -> None:
    await do(ctx, "write", path="t.txt", content=text)
    assert (await do(ctx, "read", path="t.txt")).value["content"] == text


async def test_a_long_file_is_read_in_portions_without_gaps(ctx: CallContext, root: Path) -> None:
    whole = "".join(f"line {number} {'x' * 90}\n" for number in range(1, 1001))
    (root / "long.txt").write_text(whole)
    got, start = "", 1
    while start <= 1000:
        portion = await do(ctx, "read", path="long.txt", start_line=start)
        assert len(portion.value["content"]) <= MAX_READ_TEXT
        got, start = got + portion.value["content"], portion.value["end_line"] + 1
    assert got == whole
    assert "lines 1 to" in str((await do(ctx, "read", path="long.txt")).message)


async def test_a_line_too_long_for_one_answer_is_cut_with_a_note(ctx: CallContext, root: Path) -> None:
    (root / "wide.txt").write_text("x" * 50_000 + "\nnext\n")
    read = await do(ctx, "read", path="wide.txt")
    assert len(read.value["content"]) == MAX_READ_TEXT
    assert "line 1 is cut: it has 50,001 characters" in str(read.message)
    assert "start_line=2" in str(read.message)


async def test_reading_past_the_end_says_how_long_the_file_is(ctx: CallContext) -> None:
    await do(ctx, "write", path="a.txt", content="1\n2\n3\n")
    assert "has only 3 lines" in str(await refused(ctx, "read", path="a.txt", start_line=4))


async def test_a_binary_file_is_not_shown_as_text(ctx: CallContext, root: Path) -> None:
    (root / "a.bin").write_bytes(b"\xff\xfe\0\1")
    assert "is not UTF-8 text (4 bytes)" in str(await refused(ctx, "read", path="a.bin"))


async def test_a_missing_file_is_named_with_advice(ctx: CallContext) -> None:
    failure = await refused(ctx, "read", path="gone.txt")
    assert failure.reason == "not_found"
    assert "'gone.txt'" in str(failure)


@pytest.mark.spec("TOOL-2", "BOX-6")
@pytest.mark.parametrize("path", ["../out.txt", "/etc/hostname", "a/../../out.txt", "link/out.txt", "up", "a\0b"])
@pytest.mark.parametrize("action", ["read", "write", "list", "find", "search", "move", "delete", "download"])
async def test_no_action_leaves_the_workspace(ctx: CallContext, root: Path, action: str, path: str) -> None:
    outside = root.parent / "out.txt"
    outside.write_text("secret: 4711")
    (root / "link").symlink_to(root.parent)
    (root / "up").symlink_to(outside)
    (root / "inside.txt").write_text("inside")
    before = names_in(root.parent)
    arguments: dict[str, Any] = {
        "read": {"path": path},
        "write": {"path": path, "content": "changed"},
        "list": {"path": path},
        "find": {"path": path, "pattern": "*"},
        "search": {"path": path, "pattern": "secret"},
        "move": {"path": "inside.txt", "destination": path, "replace": True},
        "delete": {"path": path, "recursive": True},
        "download": {"path": path, "url": "http://127.0.0.1:9/", "replace": True},
    }[action]
    text = await outcome(ctx, action, **arguments)
    assert "4711" not in text
    if path != "up":  # a link itself may be replaced or removed
        assert text.startswith("ToolFailure")
    assert outside.read_text() == "secret: 4711"
    assert names_in(root.parent) == before


async def test_a_folder_is_listed_with_sizes(ctx: CallContext, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "b.txt").write_text("12345")
    assert (await do(ctx, "list")).message == "b.txt  5 bytes\nsub/"
    assert (await do(ctx, "list", path="sub")).message == "sub is empty."


async def test_a_folder_with_very_many_files_is_listed_partly(ctx: CallContext, root: Path) -> None:
    for number in range(MAX_ENTRIES + 5):
        (root / f"{number:04}").touch()
    listed = await do(ctx, "list")
    assert (len(listed.value["entries"]), listed.value["total"]) == (MAX_ENTRIES, MAX_ENTRIES + 5)
    assert f"[{MAX_ENTRIES} of {MAX_ENTRIES + 5} shown" in str(listed.message)


async def test_files_are_found_by_name_in_all_folders(ctx: CallContext, root: Path) -> None:
    for name in ("a.csv", "deep/er/b.csv", "deep/c.txt"):
        await do(ctx, "write", path=name, content="x")
    names = [entry["path"] for entry in (await do(ctx, "find", pattern="*.csv")).value["entries"]]
    assert names == ["a.csv", "deep/er/b.csv"]
    names = [entry["path"] for entry in (await do(ctx, "find", pattern="deep/*")).value["entries"]]
    assert names == ["deep/c.txt", "deep/er", "deep/er/b.csv"]
    assert "Nothing below deep" in str((await do(ctx, "find", pattern="*.md", path="deep")).message)


async def test_text_is_searched_in_all_files_ignoring_case(ctx: CallContext, root: Path) -> None:
    await do(ctx, "write", path="a.txt", content="one\nTwo fish\n")
    await do(ctx, "write", path="d/b.txt", content="no fish\nRED FISH\n")
    (root / "c.bin").write_bytes(b"fish\0")
    found = await do(ctx, "search", pattern="Fish")
    assert found.message == "a.txt:2: Two fish\nd/b.txt:1: no fish\nd/b.txt:2: RED FISH"
    assert found.side_effects == ("searched:.:Fish",)
    assert [m["line"] for m in (await do(ctx, "search", pattern="two", path="a.txt")).value["matches"]] == [2]
    assert "No line" in str(
        (await do(ctx, "search", pattern="(?:x+x+)+y")).message
    )  # plain text, not a regular expression


async def test_a_search_with_very_many_matches_stops_and_says_so(ctx: CallContext) -> None:
    await do(ctx, "write", path="a.txt", content="hit\n" * 500)
    found = await do(ctx, "search", pattern="hit")
    assert len(found.value["matches"]) == MAX_MATCHES
    assert f"first {MAX_MATCHES} matches" in str(found.message)


async def test_a_pipe_in_the_workspace_does_not_block(ctx: CallContext, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "only files can be read" in str(await refused(ctx, "read", path="pipe"))
    assert "No line" in str((await do(ctx, "search", pattern="x")).message)


async def test_a_move_replaces_a_file_only_on_request(ctx: CallContext, root: Path) -> None:
    await do(ctx, "write", path="a.txt", content="a")
    await do(ctx, "write", path="b.txt", content="b")
    assert "exists already" in str(await refused(ctx, "move", path="a.txt", destination="b.txt"))
    moved = await do(ctx, "move", path="a.txt", destination="new/c.txt")
    assert moved.side_effects == ("moved:a.txt:new/c.txt",)
    await do(ctx, "move", path="new/c.txt", destination="b.txt", replace=True)
    assert (root / "b.txt").read_text() == "a"


async def test_a_folder_is_deleted_only_with_recursive(ctx: CallContext, root: Path) -> None:
    await do(ctx, "write", path="d/a.txt", content="a")
    assert "recursive" in str(await refused(ctx, "delete", path="d"))
    assert (await do(ctx, "delete", path="d", recursive=True)).side_effects == ("deleted:d",)
    assert names_in(root) == []


@pytest.mark.parametrize("path", [".", "", "d/.."])
async def test_the_workspace_itself_is_never_deleted(ctx: CallContext, root: Path, path: str) -> None:
    await refused(ctx, "delete", path=path, recursive=True)
    assert root.name in names_in(root.parent)


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    ("action", "field"),
    [
        ("read", "path"),
        ("write", "path"),
        ("search", "pattern"),
        ("find", "pattern"),
        ("download", "url"),
        ("move", "path"),
        ("delete", "path"),
    ],
)
async def test_a_missing_field_of_an_action_is_named(ctx: CallContext, action: str, field: str) -> None:
    failure = await refused(ctx, action)
    assert (failure.reason, failure.end, failure.may_have_started) == ("invalid_arguments", "refused", False)
    assert f"`{field}` is missing" in str(failure)


async def test_a_lone_surrogate_is_not_written(ctx: CallContext, root: Path) -> None:
    assert "lone surrogate" in str(await refused(ctx, "write", path="a.txt", content="\ud800"))
    assert names_in(root) == []


@pytest.mark.spec("TOOL-2")
async def test_a_download_becomes_a_file_named_after_its_url(ctx: CallContext, root: Path) -> None:
    with serving({"/d/p.csv?v=1": lambda h, _: reply(h, 200, b"a,b\n", {"Content-Type": "text/csv"})}) as server:
        url = server.url("/d/p.csv?v=1")
        got = await do(ctx, "download", url=url)
        assert got.side_effects == (f"downloaded:{url}", "created:p.csv")
        assert "exists already" in str(await refused(ctx, "download", url=url))
        await do(ctx, "download", url=url, path="data/q.csv")
    assert (root / "p.csv").read_bytes() == (root / "data" / "q.csv").read_bytes() == b"a,b\n"


async def test_a_failed_download_leaves_no_file(ctx: CallContext, root: Path) -> None:
    with serving({}) as server:
        assert "404" in str(await refused(ctx, "download", url=server.url("/gone.csv")))
    assert names_in(root) == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://x.org/a/b.csv?q=1#f", "b.csv"),
        ("https://x.org/", "download"),
        ("https://x.org/a/..", "download"),
        ("https://x.org/%2e%2e%2fpasswd", "passwd"),
        ("http://[", "download"),
    ],
)
def test_the_name_of_a_download_is_the_last_part_of_its_path(url: str, name: str) -> None:
    assert name_from(url) == name


EVIL = ("a\nb.txt  5 bytes", "c\x1b[2J\x1b[31mred", "d\r0", "e\u2028f", "g  9 bytes", '"quoted"', "back\\slash")


@pytest.mark.spec("TOOL-2")
@pytest.mark.parametrize("action", [{"action": "list"}, {"action": "find", "pattern": "*"}])
async def test_a_file_name_cannot_forge_a_line_of_a_listing(
    ctx: CallContext, root: Path, action: dict[str, str]
) -> None:
    for name in EVIL:
        (root / name).write_text("x")
    (root / "sub\nfolder").mkdir()
    shown = str((await do(ctx, **action)).message)
    assert all(each.isprintable() or each == "\n" for each in shown)
    lines = shown.split("\n")
    assert len(lines) == len(EVIL) + 1
    names = [line.removesuffix("  1 bytes") for line in lines]
    read = {json.loads(name) if name.startswith('"') else name for name in names}
    assert read == {*EVIL, "sub\nfolder/"}  # each line is exactly one name


@pytest.mark.spec("TOOL-2")
async def test_neither_file_name_nor_content_can_forge_a_match(ctx: CallContext, root: Path) -> None:
    (root / "x\nother.txt:1: needle").write_text("a needle\x1b[2K\rsafe.txt:1: needle\n")
    shown = str((await do(ctx, "search", pattern="needle")).message)
    assert shown == '"x\\nother.txt:1: needle":1: a needle\\x1b[2K\\rsafe.txt:1: needle'
