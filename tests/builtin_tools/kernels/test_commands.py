"""`knackbox kernel …` on kernels of other processes, alive, busy, stopped and dead."""

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.builtin_tools.kernels.conftest import LOST
from tests.interfaces.cli import REPOSITORY, Ran, here

pytestmark = [pytest.mark.spec("KERN-6"), pytest.mark.timeout(120)]

DEADLINE_S = 30


class Owner:
    """A process with kernels of one agent."""

    def __init__(self, home: Path, agent: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.builtin_tools.kernels.owner_process", str(home), agent],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def cell(self, code: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        answer: str = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Owner]]:
    home = tmp_path_factory.mktemp("home")
    owner = Owner(home, "ann")
    owner.cell("1")
    yield home, owner
    owner.close()


def kernel(capfd: pytest.CaptureFixture[str], home: Path, *words: str) -> Ran:
    return here(capfd, "--home", str(home), "kernel", *words)


def rows(capfd: pytest.CaptureFixture[str], home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kernel(capfd, home, "list", "--json").last
    return found


def until(wanted: Any, capfd: pytest.CaptureFixture[str], home: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while not wanted(rows(capfd, home)):
        assert time.monotonic() < end


def test_with_nothing_running_there_is_a_plain_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = kernel(capfd, tmp_path, "list")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.count("\n") == 1
    assert "no kernels are running" in ran.err
    assert rows(capfd, tmp_path) == []
    assert kernel(capfd, tmp_path, "show").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_of_another_process_is_listed_and_shown(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
    home, owner = shared
    owner.cell("words = ['a', 'b']\nprint('\\x1b[2Jhello')")
    (row,) = rows(capfd, home)
    assert (row["agent"], row["kernel"], row["state"]) == ("ann", "default", "idle")
    assert (row["process"], row["workspace"]) == (owner.process.pid, str(home / "workspace"))
    assert row["memory_bytes"] > 1 << 20
    assert "ann" in kernel(capfd, home, "list").out
    shown = kernel(capfd, home, "show")
    assert "words = ['a', 'b']" in shown.out
    assert "hello" in shown.out
    assert "\x1b[2J" not in shown.out
    last = kernel(capfd, home, "show", "default", "--agent", "ann", "--json").last
    assert last["cells"][-1]["end"] == "ok"
    assert last["variables"]["variables"][0]["name"] == "words"


def test_a_running_cell_is_interrupted_from_outside_and_keeps_its_state(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
    home, owner = shared
    owner.cell("kept = 5")
    owner.cell("&kept += 1\nwhile True: pass")
    until(lambda found: found[0]["state"] == "busy", capfd, home)
    shown = kernel(capfd, home, "show", "--json").last
    assert shown["cells"][-1]["end"] == "running"
    assert "running" in shown["variables_error"]
    end = time.monotonic() + DEADLINE_S
    while rows(capfd, home)[0]["state"] == "busy":  # it may not have begun when the first one comes
        assert kernel(capfd, home, "interrupt").code == 0
        assert time.monotonic() < end
    assert "KeyboardInterrupt" in owner.cell("wait")
    assert owner.cell("kept") == "6"


def test_an_agent_whose_kernel_a_person_stopped_is_told_once(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
    home, owner = shared
    owner.cell("x = 1")
    assert kernel(capfd, home, "stop").code == 0
    assert rows(capfd, home) == []
    told = [owner.cell("1") for _ in range(2)]
    assert "stopped by a person" in told[0]
    assert [LOST in text for text in told] == [True, False]


@pytest.mark.spec("KERN-7")
def test_a_session_is_exported_to_a_file(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner], tmp_path: Path
) -> None:
    home, owner = shared
    owner.cell("print('for the notebook')")
    assert kernel(capfd, home, "export", "default", "-o", str(tmp_path / "all.ipynb")).code == 0
    found = nbformat.read(tmp_path / "all.ipynb", as_version=4)
    nbformat.validate(found)
    assert "for the notebook" in found.cells[-1].outputs[0].text
    nowhere = kernel(capfd, home, "export", "-o", str(tmp_path / "no" / "all.ipynb"))
    assert nowhere.code == 2
    assert nowhere.err.count("\n") == 1


def test_kernels_of_the_same_name_are_told_apart(capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]) -> None:
    home, owner = shared
    second = Owner(home, "bob")
    try:
        assert (owner.cell("'of ann'"), second.cell("'of bob'")) == ("'of ann'", "'of bob'")
        assert {row["agent"] for row in rows(capfd, home)} == {"ann", "bob"}
        ran = kernel(capfd, home, "stop")
        assert ran.code == 2
        assert "--agent ann" in ran.err
        assert "--agent bob" in ran.err
        assert kernel(capfd, home, "stop", "--agent", "bob").code == 0
        assert [row["agent"] for row in rows(capfd, home)] == ["ann"]
    finally:
        second.close()


def test_a_process_that_stands_still_costs_a_line_and_the_others_are_listed(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
    home, _ = shared
    second = Owner(home, "bob")
    try:
        second.cell("1")
        second.process.send_signal(signal.SIGSTOP)
        ran = kernel(capfd, home, "list", "--json")
        assert [row["agent"] for row in ran.last] == ["ann"]
        assert f"process {second.process.pid} does not answer" in ran.err
    finally:
        second.close()


def test_a_killed_process_leaves_a_socket_alone_and_the_next_list_removes_it(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(tmp_path, "ann")
    owner.cell("1")
    (left,) = (tmp_path / "run").iterdir()
    owner.process.kill()
    owner.process.wait(DEADLINE_S)
    owner.close()
    unfinished = tmp_path / "run" / f".tmp-{left.name}"
    with socket.socket(socket.AF_UNIX) as never:  # as one that was killed before it listened
        monkeypatch.chdir(tmp_path / "run")
        never.bind(unfinished.name)
    assert left.exists()
    ran = kernel(capfd, tmp_path, "list")
    assert "no kernels are running" in ran.err
    assert ran.err.count("\n") == 1
    assert list((tmp_path / "run").iterdir()) == []


def test_a_home_with_a_very_long_path_has_a_socket_too(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = tmp_path / ("long-" * 20) / ("longer-" * 20)
    owner = Owner(home, "ann")
    try:
        owner.cell("x = 1")
        assert [row["agent"] for row in rows(capfd, home)] == ["ann"]
        assert kernel(capfd, home, "interrupt").code == 0
    finally:
        owner.close()
    assert list((home / "run").iterdir()) == []


def test_folder_and_socket_are_for_their_owner_alone(shared: tuple[Path, Owner]) -> None:
    folder = shared[0] / "run"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (found,) = folder.iterdir()
    assert stat.S_IMODE(found.stat().st_mode) == 0o600


def test_a_folder_that_others_may_enter_is_not_trusted(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    ran = kernel(capfd, tmp_path, "list")
    assert ran.code == 3
    assert "chmod 700" in ran.err
    owner = Owner(tmp_path, "ann")
    try:
        assert owner.cell("6 * 7") == "42"
        assert list((tmp_path / "run").iterdir()) == []
    finally:
        owner.close()
