"""The changes of a project keep its tasks in order, without cycles, and its summary bounded."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.projects.project import (
    ENDED_TASK,
    NEXT_STATES,
    NewTask,
    Project,
    ProjectError,
    ProjectState,
    TaskState,
    with_changed_task,
    with_link,
    with_note,
    with_state,
    with_tasks,
    without_link,
    without_note,
)
from builtin_tools.projects.summary import MOST_CHARACTERS, summary

pytestmark = [pytest.mark.spec("JOB-3", "TOOL-8")]

AT = "2026-03-11T09:00:00+00:00"
TEXT = st.text(min_size=1, max_size=300).filter(lambda text: bool(text.strip()))


def project(*needs: tuple[int, ...]) -> Project:
    """Return a project with one task for each argument, which are the numbers that it needs."""
    return with_tasks(Project("p1", "ada", "site"), [NewTask(f"t{at}", each) for at, each in enumerate(needs, 1)], AT)


def order(of: Project) -> list[int]:
    return [task.number for task in of.tasks]


def has_cycle(of: Project) -> bool:
    """Follow every dependency from every task, and return whether one leads back to it."""
    needs = {task.number: task.needs for task in of.tasks}

    def reached(number: int, seen: frozenset[int]) -> frozenset[int]:
        for each in needs[number]:
            if each not in seen:
                seen = reached(each, seen | {each})
        return seen

    return any(number in reached(number, frozenset()) for number in needs)


def test_tasks_are_added_and_moved_before_others() -> None:
    added = with_tasks(project((), (), ()), [NewTask("a"), NewTask("b", ("a",))], AT, before=2)
    assert order(added) == [1, 4, 5, 2, 3]
    assert added.task(5).needs == (4,)
    assert order(with_changed_task(added, 3, AT, before=1)) == [3, 1, 4, 5, 2]
    assert order(with_changed_task(added, 1, AT, before=0)) == [4, 5, 2, 3, 1]
    assert order(with_changed_task(added, 4, AT, before=4)) == order(added)


def test_a_task_waits_for_what_it_needs() -> None:
    two = project((), (1,))
    assert two.waits_for(two.task(2)) == (1,)
    with pytest.raises(ProjectError, match="waits for 1"):
        with_changed_task(two, 2, AT, state=TaskState.DONE)
    dropped = with_changed_task(two, 1, AT, state=TaskState.DROPPED)
    assert with_changed_task(dropped, 2, AT, state=TaskState.DONE).task(2).state is TaskState.DONE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda at: with_changed_task(at, 1, AT, needs=[3]), "1 -> 3 -> 2 -> 1|2 -> 1 -> 3 -> 2|3 -> 2 -> 1 -> 3"),
        (lambda at: with_changed_task(at, 2, AT, needs=[2]), "wait for each other"),
        (lambda at: with_changed_task(at, 2, AT, needs=[9]), "there is no task 9"),
        (lambda at: with_changed_task(at, 9, AT, title="x"), "has no task 9"),
        (lambda at: with_tasks(at, [NewTask("x", ("y",))], AT), "No task with the title 'y'"),
        (lambda at: with_tasks(at, [NewTask("x")], AT, before=9), "has no task 9"),
        (lambda at: with_tasks(at, [NewTask("x")] * 500, AT), "500 tasks at most"),
        (lambda at: with_note(at, "  ", AT), "empty"),
        (lambda at: without_note(at, 3), "has no note 3"),
        (lambda at: without_link(at, "file", "a.txt"), "has no link"),
        (lambda at: with_state(with_state(at, ProjectState.ACTIVE), ProjectState.DONE), "3 tasks .* have not ended"),
        (lambda at: with_state(at, ProjectState.DONE), "cannot become done"),
    ],
)
def test_an_impossible_change_says_why(change: Callable[[Project], Project], said: str) -> None:
    with pytest.raises(ProjectError, match=said):
        change(project((), (1,), (2,)))


def test_numbers_of_notes_and_tasks_are_never_used_again() -> None:
    noted = with_note(without_note(with_note(project(), "a", AT), 1), "b", AT)
    assert [note.number for note in noted.notes] == [2]


def test_a_link_is_kept_once() -> None:
    linked = with_link(with_link(project(), "file", "a.txt", AT), "file", " a.txt ", AT)
    assert [link.target for link in linked.links] == ["a.txt"]
    assert without_link(linked, "file", "a.txt").links == ()


@given(st.lists(st.sampled_from(ProjectState), max_size=8))
def test_a_project_moves_only_along_its_life_cycle(states: list[ProjectState]) -> None:
    at = project()
    for state in states:
        try:
            after = with_state(at, state)
        except ProjectError:
            assert state not in NEXT_STATES[at.state]
            continue
        assert state is at.state or state in NEXT_STATES[at.state]
        at = after


@given(st.lists(st.tuples(st.integers(1, 7), st.sets(st.integers(1, 7), max_size=3)), max_size=25))
def test_no_sequence_of_changes_makes_a_cycle(changes: list[tuple[int, set[int]]]) -> None:
    at = project(*[()] * 7)
    for number, needs in changes:
        try:
            at = with_changed_task(at, number, AT, needs=needs)
        except ProjectError:
            assert has_cycle(forced(at, number, needs))
        assert not has_cycle(at)


def forced(of: Project, number: int, needs: set[int]) -> Project:
    """Return the project with these dependencies, without checking them."""
    tasks = tuple(replace(task, needs=tuple(needs)) if task.number == number else task for task in of.tasks)
    return replace(of, tasks=tasks)


@pytest.mark.spec("LOOP-8")
@given(st.lists(TEXT, max_size=40), st.lists(TEXT, max_size=5), TEXT, st.lists(st.sampled_from(TaskState), max_size=40))
def test_the_summary_is_bounded_and_stable(
    titles: list[str], notes: list[str], goal: str, states: list[TaskState]
) -> None:
    at = with_tasks(Project("p1", "ada", "n" * 100, goal * 6), [NewTask(title) for title in titles], AT)
    for task, state in zip(at.tasks, states, strict=False):
        at = with_changed_task(at, task.number, AT, state=state)
    for note in notes:
        at = with_link(with_note(at, note * 10, AT), "file", note, AT)
    text = summary(at)
    assert len(text) <= MOST_CHARACTERS
    assert text == summary(replace(at, changed="2027-01-01T00:00:00+00:00"))
    unfinished = [task for task in at.tasks if task.state not in ENDED_TASK]
    assert all(f"{task.number}. " in text for task in unfinished[:8])


def test_the_longest_summary_fits() -> None:
    at = Project("p" * 12, "ada", "n" * 100, "g" * 2_000, ProjectState.ACTIVE)
    at = with_tasks(at, [NewTask("t" * 300, tuple(range(101, 120)) if n < 100 else ()) for n in range(200)], AT)
    for n in range(10):
        at = with_link(with_note(at, f"{n}" * 4_000, AT), "skill", f"{n}" * 400, AT)
    for number in range(101, 120):
        at = with_changed_task(at, number, AT, state=TaskState.DONE)
    for number in range(1, 100):
        at = with_changed_task(at, number, AT, state=TaskState.DOING)
    for number in range(101, 120):
        at = with_changed_task(at, number, AT, state=TaskState.OPEN)
    assert len(summary(at)) <= MOST_CHARACTERS
