"""A copy-on-write workspace: the changes are listed, applied, or discarded."""

from pathlib import Path

import pytest

from sandbox.changes import Change, ChangeKind, apply
from sandbox.contract import End, Job, Language, Limits, Mount, Writes
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-6")]
CODE = """
echo new > added.txt
echo more >> kept.txt
rm gone.txt
rm -r old; mkdir old; echo again > old/b.txt
mkdir -p deep/er; echo x > deep/er/x
chmod 755 run.sh
ln -s /etc/passwd link
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("kept.txt", "gone.txt", "untouched.txt", "run.sh"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/a.txt").write_text("a\n")
    (tmp_path / "old/b.txt").write_text("b\n")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


async def test_changes_are_listed_and_the_folder_is_unchanged(box: NamespaceSandbox, workspace: Path) -> None:
    before = contents(workspace)
    outcome = await box.run(Job(language=Language.BASH, code=CODE, workspace=Mount(workspace, Writes.COPY)))
    assert outcome.end is End.OK, outcome
    assert contents(workspace) == before
    assert {change.path: change.kind.value for change in outcome.changes} == {
        "added.txt": "added",
        "deep/er/x": "added",
        "gone.txt": "deleted",
        "kept.txt": "modified",
        "link": "added",
        "old/a.txt": "deleted",
        "old/b.txt": "modified",
        "run.sh": "modified",
    }


async def test_changes_can_be_applied(box: NamespaceSandbox, workspace: Path) -> None:
    outcome = await box.run(Job(language=Language.BASH, code=CODE, workspace=Mount(workspace, Writes.COPY)))
    apply(outcome.changes, workspace)
    assert contents(workspace) == {
        "added.txt": "new\n",
        "deep/er/x": "x\n",
        "kept.txt": "kept.txt\nmore\n",
        "old/b.txt": "again\n",
        "run.sh": "run.sh\n",
        "untouched.txt": "untouched.txt\n",
    }
    assert (workspace / "run.sh").stat().st_mode & 0o111
    assert (workspace / "link").is_symlink()


async def test_writes_to_the_copy_count_against_the_disk_limit(box: NamespaceSandbox, workspace: Path) -> None:
    job = Job(
        code="open('big', 'wb').write(b'x' * (20 << 20))",
        workspace=Mount(workspace, Writes.COPY),
        limits=Limits(disk_bytes=8 << 20),
    )
    assert (await box.run(job)).end is End.DISK


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/out.txt", "up/out.txt"])
async def test_applying_changes_never_writes_outside_the_folder(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (workspace / "up").symlink_to(outside)
    with pytest.raises((ValueError, OSError)):
        apply([Change(path, ChangeKind.ADDED, b"x")], workspace)
    assert list(outside.iterdir()) == []


@pytest.mark.spec("BOX-3")
async def test_filling_a_workspace_ends_the_job(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = "import time\nfor i in range(100):\n    open(f'f{i}', 'wb').write(b'x' * (8 << 20))\n    time.sleep(0.02)"
    outcome = await box.run(Job(code=code, workspace=Mount(tmp_path), limits=Limits(disk_bytes=32 << 20)))
    assert outcome.end is End.DISK
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 400 << 20
