"""`knackbox kernel` with the kernels of other processes: running, busy, stopped and killed."""

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.builtin_tools.kernels.conftest import LOST
from tests.eventually import eventually_sync
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


def test_list_prints_one_line_when_no_kernels_run(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_interrupt_ends_a_cell_of_another_process_and_keeps_the_state(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
    home, owner = shared
    owner.cell("kept = 5")
    owner.cell("&kept += 1\nwhile True: pass")
    eventually_sync(lambda: rows(capfd, home)[0]["state"] == "busy")
    shown = kernel(capfd, home, "show", "--json").last
    assert shown["cells"][-1]["end"] == "running"
    assert "running" in shown["variables_error"]

    def interrupted() -> bool:
        """Interrupt the kernel until it is idle, because the first interrupt may arrive before the cell has begun."""
        if rows(capfd, home)[0]["state"] != "busy":
            return True
        assert kernel(capfd, home, "interrupt").code == 0
        return False

    eventually_sync(interrupted)
    assert "KeyboardInterrupt" in owner.cell("wait")
    assert owner.cell("kept") == "6"


def test_stopping_a_kernel_is_reported_once_to_its_agent(
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


def test_kernels_of_the_same_name_are_selected_by_agent_and_user(
    capfd: pytest.CaptureFixture[str], shared: tuple[Path, Owner]
) -> None:
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


def test_a_stopped_process_is_reported_on_one_line_and_the_others_are_listed(
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


def test_list_removes_the_socket_of_a_killed_process(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(tmp_path, "ann")
    owner.cell("1")
    (left,) = (tmp_path / "run").iterdir()
    owner.process.kill()
    owner.process.wait(DEADLINE_S)
    owner.close()
    unfinished = tmp_path / "run" / f".tmp-{left.name}"
    with socket.socket(socket.AF_UNIX) as never:  # like a process that was killed before it listened
        monkeypatch.chdir(tmp_path / "run")
        never.bind(unfinished.name)
    assert left.exists()
    ran = kernel(capfd, tmp_path, "list")
    assert "no kernels are running" in ran.err
    assert ran.err.count("\n") == 1
    assert list((tmp_path / "run").iterdir()) == []


def test_a_home_with_a_very_long_path_can_have_a_socket(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = tmp_path / ("long-" * 20) / ("longer-" * 20)
    owner = Owner(home, "ann")
    try:
        owner.cell("x = 1")
        assert [row["agent"] for row in rows(capfd, home)] == ["ann"]
        assert kernel(capfd, home, "interrupt").code == 0
    finally:
        owner.close()
    assert list((home / "run").iterdir()) == []


def test_only_the_owner_can_access_the_folder_and_the_socket(shared: tuple[Path, Owner]) -> None:
    folder = shared[0] / "run"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (found,) = folder.iterdir()
    assert stat.S_IMODE(found.stat().st_mode) == 0o600


def test_a_folder_that_other_users_can_enter_is_not_used(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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
