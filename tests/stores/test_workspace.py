"""The workspace: no path leads outside, with openat2 and without."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.contract.failure import ConfigError
from engine.stores.atomic import AT_FDCWD, LIBC, RENAME_EXCHANGE, TEMPORARY
from engine.stores.workspace import FolderWorkspace, WorkspaceEntry, WorkspaceError

SECRET = b"the secret"


@pytest.fixture(params=[True, False], ids=["openat2", "walking"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> FolderWorkspace:
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    return FolderWorkspace(tmp_path / "work", use_openat2=request.param)


def test_files_are_written_read_listed_moved_and_deleted(workspace: FolderWorkspace) -> None:
    workspace.write("data/in/a.csv", b"1,2")
    workspace.write("./data/../b.txt", b"b")
    assert workspace.read("data/in/a.csv") == b"1,2"
    assert [(entry.path, entry.kind, entry.size) for entry in workspace.walk() if entry.kind == "file"] == [
        ("b.txt", "file", 1),
        ("data/in/a.csv", "file", 3),
    ]
    assert [entry.path for entry in workspace.list("data")] == ["data/in"]
    assert [entry.path for entry in workspace.list()] == ["b.txt", "data"]
    workspace.move("b.txt", "moved/c.txt")
    assert workspace.exists("moved/c.txt")
    assert not workspace.exists("b.txt")
    with pytest.raises(WorkspaceError, match="exists already"):
        workspace.move("moved/c.txt", "data/in/a.csv")
    workspace.move("moved/c.txt", "data/in/a.csv", replace=True)
    assert workspace.read("data/in/a.csv") == b"b"
    workspace.delete("data/in/a.csv")
    with pytest.raises(WorkspaceError, match="recursive"):
        workspace.delete("data")
    workspace.delete("data", recursive=True)
    workspace.make_folder("x/y")
    workspace.make_folder("x/y")
    assert workspace.stat("x/y").kind == "folder"
    assert workspace.stat(".").kind == "folder"
    assert [entry.path for entry in workspace.walk()] == ["moved", "x", "x/y"]


def test_a_file_that_is_written_in_parts_appears_when_it_is_complete(workspace: FolderWorkspace) -> None:
    workspace.write("a/file.csv", b"old")
    with workspace.replacing("a/file.csv") as stream:
        stream.write(b"new ")
        assert workspace.read("a/file.csv") == b"old"
        stream.write(b"content")
    assert workspace.read("a/file.csv") == b"new content"
    with pytest.raises(TypeError), workspace.replacing("a/file.csv") as stream:
        stream.writelines([b"half", None])  # type: ignore[list-item]
    assert workspace.read("a/file.csv") == b"new content"
    assert os.listdir(workspace.root / "a") == ["file.csv"]
    for path in ("a", "../outside"):
        with pytest.raises(WorkspaceError), workspace.replacing(path):
            pass


def test_a_missing_file_or_folder_is_an_error_that_names_it(workspace: FolderWorkspace) -> None:
    for act in (workspace.read, workspace.stat, workspace.delete, workspace.list):
        with pytest.raises(FileNotFoundError):
            act("no/such/thing")
    with pytest.raises(FileNotFoundError):
        workspace.move("nothing", "something")
    assert not workspace.exists("no/such/thing")


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize(
    "path", ["..", "../secret", "a/../../secret", "/etc/passwd", "//etc/passwd", "", "a\0b", "./../secret"]
)
def test_a_path_that_leads_outside_is_refused_in_one_line(workspace: FolderWorkspace, path: str) -> None:
    acts = [
        lambda: workspace.read(path),
        lambda: workspace.write(path, b"x"),
        lambda: workspace.list(path),
        lambda: workspace.exists(path),
        lambda: workspace.stat(path),
        lambda: workspace.delete(path, recursive=True),
        lambda: workspace.move(path, "here"),
        lambda: workspace.move("here", path),
        lambda: workspace.make_folder(path),
    ]
    for act in acts:
        with pytest.raises(WorkspaceError) as caught:
            act()
        assert "\n" not in str(caught.value)


@pytest.mark.spec("BOX-6")
def test_links_that_lead_outside_are_never_followed(workspace: FolderWorkspace, tmp_path: Path) -> None:
    workspace.write("kept", b"x")
    root = workspace.root
    (root / "absolute").symlink_to(tmp_path / "outside")
    (root / "relative").symlink_to("../outside")
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "magic").symlink_to("/proc/self/root/etc")
    for link in ("absolute", "relative", "magic"):
        for act in (
            lambda link=link: workspace.read(f"{link}/x"),
            lambda link=link: workspace.write(f"{link}/x", b"x"),
            lambda link=link: workspace.list(link),
            lambda link=link: workspace.make_folder(f"{link}/deep/er"),
            lambda link=link: workspace.move("kept", f"{link}/kept"),
            lambda link=link: workspace.delete(f"{link}/x"),
        ):
            with pytest.raises(WorkspaceError, match="leads out"):
                act()
    with pytest.raises(WorkspaceError, match="leads out"):
        workspace.read("file")
    assert workspace.stat("file").kind == "link"
    assert {entry.path for entry in workspace.walk()} == {"absolute", "file", "kept", "magic", "relative"}
    workspace.write("file", b"new")
    workspace.delete("absolute", recursive=True)
    assert (tmp_path / "secret").read_bytes() == SECRET
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.spec("BOX-6")
def test_deleting_a_tree_does_not_follow_its_links(workspace: FolderWorkspace, tmp_path: Path) -> None:
    (tmp_path / "outside" / "precious").write_bytes(SECRET)
    workspace.write("tree/file", b"x")
    (workspace.root / "tree" / "link").symlink_to(tmp_path / "outside")
    workspace.delete("tree", recursive=True)
    assert (tmp_path / "outside" / "precious").read_bytes() == SECRET
    assert not workspace.exists("tree")


def test_a_link_that_stays_inside_is_followed_where_the_kernel_checks(tmp_path: Path) -> None:
    workspace = FolderWorkspace(tmp_path / "work")
    workspace.write("data/a", b"1")
    (workspace.root / "latest").symlink_to("data/a")
    assert workspace.read("latest") == b"1"


def test_pipes_folders_and_large_files_are_not_read(workspace: FolderWorkspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    workspace.write("folder/file", b"12345")
    for path in ("pipe", "folder"):
        with pytest.raises(WorkspaceError, match="only files"):
            workspace.read(path)
    with pytest.raises(WorkspaceError, match="more than the 4"):
        workspace.read("folder/file", limit=4)
    assert workspace.read("folder/file", limit=5) == b"12345"
    with pytest.raises(WorkspaceError, match="is a folder"):
        workspace.write("folder", b"x")
    with pytest.raises(WorkspaceError, match="not a folder"):
        workspace.write("folder/file/deeper", b"x")
    with pytest.raises(WorkspaceError, match="too long"):
        workspace.read("x" * 5000)
    with pytest.raises(WorkspaceError, match="cannot become"):
        workspace.move("folder", "folder/inside")


def test_files_still_being_written_are_not_listed(workspace: FolderWorkspace) -> None:
    (workspace.root / f"{TEMPORARY}123").write_bytes(b"half")
    assert workspace.list() == []


@pytest.mark.spec("BOX-6")
def test_a_folder_replaced_by_a_link_during_access_does_not_lead_outside(
    workspace: FolderWorkspace, tmp_path: Path
) -> None:
    """A race between check and use. Here both are a single step."""
    (tmp_path / "outside" / "f").write_bytes(SECRET)
    workspace.write("d/f", b"fine")
    stop = threading.Event()

    def swap() -> None:
        evil, good = os.fsencode(workspace.root / "evil"), os.fsencode(workspace.root / "d")
        os.symlink(tmp_path / "outside", evil)
        while not stop.is_set():
            LIBC.renameat2(AT_FDCWD, evil, AT_FDCWD, good, RENAME_EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(1500):
            try:
                assert workspace.read("d/f") == b"fine"
                workspace.write(f"d/new{number % 5}", b"x")
            except (WorkspaceError, FileNotFoundError):
                continue
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["f"]


SEGMENT = st.sampled_from(["..", ".", "", "a", "b", "in", "out", "up", "secret", "~", "\\", "proc"])


@pytest.mark.spec("BOX-6")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(segments=st.lists(SEGMENT, min_size=1, max_size=6), leading=st.booleans())
def test_no_combination_of_names_reaches_outside(
    workspace: FolderWorkspace, tmp_path: Path, segments: list[str], leading: bool
) -> None:
    root = workspace.root
    for name, target in {"out": tmp_path / "outside", "up": Path(".."), "in": Path("a")}.items():
        if not os.path.lexists(root / name):
            (root / name).symlink_to(target)
    path = ("/" if leading else "") + "/".join(segments)
    with contextlib.suppress(WorkspaceError, FileNotFoundError):
        assert workspace.read(path) != SECRET
    with contextlib.suppress(WorkspaceError, FileNotFoundError):
        workspace.write(path, b"written")
    assert {item.name for item in tmp_path.iterdir()} == {"secret", "outside", "work"}
    assert (tmp_path / "secret").read_bytes() == SECRET
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_entry_has_the_time_of_its_last_change(workspace: FolderWorkspace) -> None:
    workspace.write("a", b"x")
    os.utime(workspace.root / "a", (1_000_000_000, 1_000_000_000))
    entry = workspace.stat("a")
    assert isinstance(entry, WorkspaceEntry)
    assert entry.modified.isoformat() == "2001-09-09T01:46:40+00:00"


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize("there", ["file", "folder", "link to a file", "link to nothing"])
def test_a_new_file_never_replaces_anything(tmp_path: Path, there: str) -> None:
    workspace = FolderWorkspace(tmp_path / "workspace")
    outside, place = tmp_path / "outside.txt", workspace.root / "a" / "new.txt"
    outside.write_text("outside")
    place.parent.mkdir()
    if there == "file":
        place.write_text("mine")
    elif there == "folder":
        place.mkdir()
    else:
        place.symlink_to(outside if there == "link to a file" else tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        workspace.write_new("a/new.txt", b"other")
    assert outside.read_text() == "outside"
    assert not (tmp_path / "nothing").exists()
    assert [entry.name for entry in place.parent.iterdir()] == ["new.txt"]
    workspace.write_new("b/new.txt", b"x")
    assert workspace.read("b/new.txt") == b"x"


def test_a_file_as_workspace_is_refused_in_one_line_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for root in (file, file / "below"):
        with pytest.raises(ConfigError, match=r"cannot be used as the workspace .*Name a folder") as refused:
            FolderWorkspace(root)
        assert str(root) in str(refused.value)
        assert "\n" not in str(refused.value)
    assert file.read_text() == "mine"
