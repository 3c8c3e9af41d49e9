"""Random changes by agents and a person, compared with a model of who changed what."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.stores.undo.undo_fixture import Snapshot, UndoFixture

pytestmark = [pytest.mark.spec("CODE-9"), pytest.mark.slow]

PERSON = ""
RUNS = ("run1", "run2")
NAMES = st.sampled_from("ab")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from(["", "one", "two", "three"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENTS),
        st.tuples(st.just("delete"), PATHS, CONTENTS),
        st.tuples(st.just("folder"), PATHS, CONTENTS),
        st.tuples(st.just("link"), PATHS, CONTENTS),
        st.tuples(st.just("mode"), PATHS, st.sampled_from(["600", "755"])),
        st.tuples(st.just("move"), PATHS, PATHS),
    ),
    min_size=1,
    max_size=5,
)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_room(root: Path, path: Path) -> None:
    """Let the parents of a path be folders, and the path not exist."""
    for parent in reversed(path.relative_to(root).parents[:-1]):
        if (root / parent).is_symlink() or not (root / parent).is_dir():
            clear(root / parent)
            (root / parent).mkdir()
    clear(path)


def apply(root: Path, what: str, name: str, detail: str) -> None:
    path = root / name
    inside = not any((root / parent).is_symlink() for parent in Path(name).parents)
    there = inside and (path.exists() or path.is_symlink())
    if what == "write" and there and path.is_file() and not path.is_symlink():
        path.write_text(detail)  # in place
    elif what in ("write", "folder", "link"):
        make_room(root, path)
        {
            "write": lambda: path.write_text(detail),
            "folder": path.mkdir,
            "link": lambda: path.symlink_to(f"->{detail}"),
        }[what]()
    elif what == "delete" and there:
        clear(path)
    elif what == "mode" and there and not path.is_symlink():
        path.chmod(int(detail, 8))
    elif (
        what == "move" and there and not f"{detail}/".startswith(f"{name}/") and not f"{name}/".startswith(f"{detail}/")
    ):
        make_room(root, root / detail)
        if path.exists() or path.is_symlink():
            path.rename(root / detail)


class UndoMachine(RuleBasedStateMachine):
    """The model: for each path, who changed it from what to what, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.here = UndoFixture(self.folder)
        self.history: list[tuple[str, Snapshot, Snapshot]] = []
        self.undone: list[tuple[str, Snapshot, Snapshot]] = []

    def teardown(self) -> None:
        self.here.close()
        shutil.rmtree(self.folder)

    def change(self, who: str, work: Callable[[], object]) -> None:
        before = self.here.snapshot()
        work()
        self.history.append((who, before, self.here.snapshot()))

    @rule(who=st.sampled_from(RUNS), changes=CHANGES)
    def agent(self, who: str, changes: list[tuple[str, str, str]]) -> None:
        def work() -> None:
            with self.here.call(who):
                for each in changes:
                    apply(self.here.workspace, *each)

        self.change(who, work)
        self.undone.clear()

    @rule(changes=CHANGES)
    def person(self, changes: list[tuple[str, str, str]]) -> None:
        self.change(PERSON, lambda: [apply(self.here.workspace, *each) for each in changes])
        self.undone.clear()

    @rule()
    def reopen(self) -> None:
        self.here.close()
        self.here = UndoFixture(self.folder)

    @rule(run=st.sampled_from(RUNS))
    def undo(self, run: str) -> None:
        if not any(who == run and before != after for who, before, after in self.history):
            return
        before = self.here.snapshot()
        planned = {each.path: each for each in self.here.plan(run)}
        done = self.here.undo(run)
        after = self.here.snapshot()
        for path in before.keys() | after.keys():
            mine = self.changes_of(path, run)
            others = [who for who, old, new in self.history if who != run and old.get(path) != new.get(path)]
            if not mine or before.get(path) != mine[-1][1]:
                # The run never changed it, or somebody else changed it since.
                assert after.get(path) == before.get(path), (path, run)
            elif not others and (path not in planned or planned[path].restores):
                assert after.get(path) == mine[0][0], (path, run)
            else:
                assert after.get(path) in (before.get(path), *(old for old, _ in mine)), (path, run)
        refused = [each for each in planned.values() if not each.restores]
        for each in refused:  # every path that is left has a reason that is true
            changed = before.get(each.path) != self.changes_of(each.path, run)[-1][1]
            assert changed or "folder" in each.reason, each
        assert not [each for each in done.paths if each.step == "failed"], done
        if done.undo_id:
            self.undone.append((done.undo_id, before, after))
        self.history.append((f"undo of {run}", before, after))

    @precondition(lambda self: self.undone)
    @rule()
    def redo(self) -> None:
        undo_id, before, after = self.undone.pop()
        assert self.here.snapshot() == after
        done = self.here.undo(undo_id)
        assert self.here.snapshot() == before
        self.history.append(("redo", after, before))
        assert done.undo_id
        self.undone.clear()

    @invariant()
    def nothing_temporary_is_left(self) -> None:
        assert not list(self.here.workspace.rglob(".tmp-*"))

    def changes_of(self, path: str, run: str) -> list[tuple[object, object]]:
        """Return the changes of a path by a run, as pairs of states; None is the state of a path that does not exist."""
        changes = [(old.get(path), new.get(path)) for who, old, new in self.history if who == run]
        return [(old, new) for old, new in changes if old != new]


UndoMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestUndoMachine = UndoMachine.TestCase
TestUndoMachine.pytestmark = pytestmark
