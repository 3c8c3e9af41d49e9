"""At a terminal a person must approve calls. Any answer but yes rejects the call, and so does a missing terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("ACCESS-8")
REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
WRITE = '{"action": "write", "path": "a.txt", "content": "x\\u001b[2Jy"}'


def command(home: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "engine.interfaces.cli.main",
        "--home",
        str(home),
        "call",
        "file_system",
        "--args",
        WRITE,
    ]


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")}
    return kept | {"KNACKBOX_POLICY_APPROVAL": "destructive", "PYTHONPATH": str(REPOSITORY)}


def at_terminal(home: Path, answer: str, *, before: str = "") -> tuple[int, str]:
    """Run the command in a terminal and type `answer` when it asks. Return its exit code and output.

    `before` is typed before the command starts.
    """
    master, slave = pty.openpty()
    os.write(master, before.encode())
    process = subprocess.Popen(command(home), cwd=REPOSITORY, env=environ(), stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + DEADLINE_S
    asked = False
    try:
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            shown += data
            if not asked and b"[y/N]" in shown:
                asked = True
                os.write(master, answer.encode())
        return process.wait(DEADLINE_S), shown.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_yes_at_the_terminal_approves_the_call(tmp_path: Path) -> None:
    code, shown = at_terminal(tmp_path, "y\n")
    assert code == 0, shown
    assert (tmp_path / "workspace" / "a.txt").read_text() == "x\x1b[2Jy"
    assert "Run file_system?" in shown
    assert "\\u001b[2J" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("answer", ["n\n", "\n", "yes please\n", "\x04"])
def test_any_other_answer_rejects_the_call(tmp_path: Path, answer: str) -> None:
    code, shown = at_terminal(tmp_path, answer)
    assert code == 1, shown
    assert "the user said no" in shown
    assert not (tmp_path / "workspace" / "a.txt").exists()


def test_input_typed_before_the_question_is_not_an_answer(tmp_path: Path) -> None:
    code, shown = at_terminal(tmp_path, "n\n", before="y\n")
    assert code == 1, shown
    assert "the user said no" in shown
    assert not (tmp_path / "workspace" / "a.txt").exists()


def test_without_a_terminal_calls_that_need_approval_do_not_run(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path),
        cwd=REPOSITORY,
        env=environ(),
        input="y\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "nobody can be asked here" in done.stderr
    assert not (tmp_path / "workspace" / "a.txt").exists()
