"""`knackbox run` runs a notebook in a kernel in a box."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from tests.interfaces.cli import REPOSITORY, command, here, run_as_process
from tests.interfaces.notebooks import outputs, write

pytestmark = [pytest.mark.spec("KERN-7"), pytest.mark.timeout(240)]
WAIT_S = 60
_WITH_SIGINT = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_outputs_are_printed_as_text_and_the_executed_notebook_is_written(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(
        tmp_path / "nb.ipynb",
        "import socket, sys\nx = 6\nprint('on', socket.gethostname())\nprint('err', file=sys.stderr)",
        "x * 7",
        "from IPython.display import HTML\nHTML('<b>bold</b>')",
    )
    before = Path(source).read_bytes()
    ran = here(capfd, "run", source, "--output", str(tmp_path / "out.ipynb"))
    assert (ran.code, ran.err) == (0, "err\n")
    assert ran.out == "on box\n42\n<IPython.core.display.HTML object>\n"
    assert Path(source).read_bytes() == before
    first, second, third = outputs(tmp_path / "out.ipynb")
    assert {output.text for output in first} == {"on box\n", "err\n"}
    assert second[0].data["text/plain"] == "42"
    assert third[0].data["text/html"] == "<b>bold</b>"


def test_running_a_notebook_twice_writes_the_same_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write(tmp_path / "nb.ipynb", "for i in range(1000): print(i, flush=True)", "[1, 2]")
    for name in ("a", "b"):
        assert here(capfd, "run", source, "--output", str(tmp_path / name)).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len(outputs(tmp_path / "a")[0]) == 1


def test_in_place_overwrites_the_notebook_also_through_a_link(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "nb.ipynb", "1 + 1")
    (tmp_path / "link.ipynb").symlink_to("nb.ipynb")
    assert here(capfd, "run", str(tmp_path / "link.ipynb"), "--in-place").code == 0
    assert (tmp_path / "link.ipynb").is_symlink()
    assert outputs(tmp_path / "nb.ipynb")[0][0].data["text/plain"] == "2"


def test_the_first_failing_cell_ends_the_run_and_executed_cells_are_written(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(tmp_path / "nb.ipynb", "print('before')", "def f():\n    return 1 / 0\nf()", "print('never')")
    ran = here(capfd, "run", source, "--output", str(tmp_path / "out.ipynb"))
    assert (ran.code, ran.out) == (1, "before\n")
    assert ran.err.count("Traceback (most recent call last)") == 1
    assert "\x1b" not in ran.err
    assert ran.err.endswith("knackbox: cell 2 of 3 ended the run: ZeroDivisionError: division by zero\n")
    before, failed, never = outputs(tmp_path / "out.ipynb")
    assert (before[0].text, failed[0].ename, never) == ("before\n", "ZeroDivisionError", [])


def test_allowed_errors_do_not_end_the_run(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cells = ("1 / 0", "print('after')")
    tagged = write(tmp_path / "tagged.ipynb", *cells, tags={0: "raises-exception"})
    ran = here(capfd, "run", tagged)
    assert (ran.code, ran.out) == (0, "after\n")
    assert "ZeroDivisionError" in ran.err
    assert here(capfd, "run", write(tmp_path / "nb.ipynb", *cells)).code == 1
    assert here(capfd, "run", write(tmp_path / "nb.ipynb", *cells), "--allow-errors").out == "after\n"


def test_with_json_a_notebook_run_prints_one_object(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = here(capfd, "run", write(tmp_path / "nb.ipynb", "print(1)", "", "raise ValueError('no')"), "--json")
    assert (ran.code, ran.out.count("\n"), ran.err) == (1, 1, "")
    found = ran.last
    assert found.pop("wall_s") > 0
    assert found == {
        "end": "error",
        "cells": 2,
        "executed": 2,
        "failed_cell": 2,
        "why": "ValueError: no",
        "output": None,
    }


@pytest.mark.spec("KERN-5")
@pytest.mark.parametrize(
    ("code", "end", "reason"),
    [
        ("while True: pass", "timeout", "longer than 1.5 s"),
        ("import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass", "timeout", "longer than 1.5 s"),
        ("import os; os.kill(os.getpid(), 9)", "died", "its kernel died"),
        ("print('x' * (65 << 20))", "output", "over 64 MiB"),
        ("import sys\nsys.stdout.session.send(sys.stdout.pub_thread, 'stream', {'name': 7}, parent=get_ipython()"
         ".kernel.get_parent('shell'), ident=b'stream.stdout')\nimport time; time.sleep(60)", "died", "malformed message"),
    ],
)  # fmt: skip
def test_a_killed_or_timed_out_cell_ends_the_run_with_the_reason(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, code: str, end: str, reason: str
) -> None:
    source = write(tmp_path / "nb.ipynb", "1", code, "2")
    ran = here(capfd, "run", source, "--timeout", "1.5" if end == "timeout" else "60", "--json")
    assert (ran.code, ran.last["end"], ran.last["failed_cell"]) == (1, end, 1)
    assert reason in ran.last["why"]


def test_the_box_has_only_the_files_of_the_workspace(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.csv").write_text("7\n")
    source = write(tmp_path / "nb.ipynb", "print(open('in.csv').read())", "n = open('out.txt', 'w').write('w')")
    ran = here(capfd, "run", source)
    assert ran.code == 1
    assert "--workspace DIR" in ran.err
    data = str(tmp_path / "data")
    assert here(capfd, "run", source, "--workspace", data, "--read-only").code == 1
    assert not (tmp_path / "data" / "out.txt").exists()
    assert here(capfd, "run", source, "--workspace", data).code == 0
    assert (tmp_path / "data" / "out.txt").read_text() == "w"


INVALID: list[tuple[bytes | None, list[str], str]] = [
    (b"not json", [], "is not JSON"),
    (b"\xff\xfe", [], "is not JSON"),
    (b"[]", [], "not a notebook"),
    (b"[" * 100_000, [], "is not JSON"),
    (b'{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}', [], "format 3"),
    (b'{"nbformat": 5, "nbformat_minor": 0, "metadata": {}, "cells": []}', [], "format 5"),
    (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "coda"}]}', [], "not a valid notebook"),
    (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "ir", "display_name": "R", '
     b'"language": "R"}}, "cells": []}', [], "is in R, but only Python notebooks can be run"),
    (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {"language_info": {"name": "bash"}}, "cells": []}', [],
     "is in bash, but only Python notebooks can be run"),
    (None, [], "does not exist"),
    (b"{}", ["--output", "a", "--in-place"], "either --output or --in-place"),
    (b"{}", ["--output", "/nowhere/a"], "/nowhere/a cannot be written"),
    (b"{}", ["--workspace", "/nowhere"], "/nowhere is not a folder"),
    (b"{}", ["--read-only"], "--read-only"),
    (b"{}", ["--unsafe-no-sandbox"], "only run in a box"),
    (b"{}", ["--timeout", "0"], "--timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "arguments", "message"), INVALID)
def test_an_invalid_notebook_or_option_is_refused_in_one_line(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, arguments: list[str], message: str
) -> None:
    source = tmp_path / "nb.ipynb"
    if content is not None:
        source.write_bytes(content)
    ran = here(capfd, "run", str(source), *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert message in ran.err


def test_a_folder_is_refused_as_a_notebook(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = here(capfd, "run", str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "is a folder" in ran.err


def test_a_sandbox_without_kernels_is_refused(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_SANDBOX", "landlock")
    ran = here(capfd, "run", write(tmp_path / "nb.ipynb", "print(1)"))
    assert (ran.code, ran.out) == (3, "")
    assert "landlock" in ran.err


def test_a_notebook_without_cell_ids_and_with_source_lines_runs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cell = {
        "cell_type": "code",
        "metadata": {},
        "source": ["x = 1\n", "print(x)"],
        "outputs": [],
        "execution_count": None,
    }
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell, cell]}
    (tmp_path / "nb.ipynb").write_text(json.dumps(notebook))
    ran = here(capfd, "run", str(tmp_path / "nb.ipynb"), "--in-place")
    assert (ran.code, ran.out, ran.err) == (0, "1\n1\n", "")
    assert outputs(tmp_path / "nb.ipynb")[1][0].text == "1\n"


def test_outputs_with_lone_surrogates_are_printed_and_written(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(tmp_path / "nb.ipynb", "'\\ud800'", "print('ä€😀')")
    ran = here(capfd, "run", source, "--in-place")
    assert (ran.code, ran.out) == (0, "'\\ud800'\nä€😀\n")
    assert outputs(Path(source))[1][0].text == "ä€😀\n"


def test_an_interrupt_ends_the_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write(tmp_path / "nb.ipynb", "print('go', flush=True)\nwhile True: pass")
    words = command("run", source, "--output", str(tmp_path / "out.ipynb"))
    start = [sys.executable, "-c", _WITH_SIGINT, *words]
    with subprocess.Popen(start, cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (130, b"")
    assert below
    psutil.wait_procs(below, timeout=WAIT_S)
    assert [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nb.ipynb"]


def test_a_closed_stdout_ends_the_notebook_run(tmp_path: Path) -> None:
    source = write(tmp_path / "nb.ipynb", "while True: print('y' * 100)")
    with subprocess.Popen(command("run", source), cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y" * 100 + b"\n"
        process.stdout.close()
        assert process.wait(WAIT_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


def shown_on_a_terminal(source: str, code: int = 0) -> bytes:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            command("run", source), cwd=REPOSITORY, stdout=slave, stderr=slave, timeout=WAIT_S, check=False
        )
        assert done.returncode == code
        return os.read(master, 1 << 16)
    finally:
        os.close(master)
        os.close(slave)


def test_a_progress_bar_shows_the_running_cell_after_a_while(tmp_path: Path) -> None:
    seen = shown_on_a_terminal(write(tmp_path / "nb.ipynb", "import time; time.sleep(2.5)", "print('end')"))
    assert b"cell" in seen
    assert b"1/2" in seen
    assert seen.endswith(b"end\r\n")


def test_a_terminal_gets_colours_but_no_other_control_sequences(tmp_path: Path) -> None:
    escapes = "\\x1b]0;title\\x07\\x1b[2J\\x9bH"
    source = write(
        tmp_path / "nb.ipynb", f"print('\\x1b[31mred\\x1b[0m {escapes} end')", f"raise ValueError('{escapes}')"
    )
    seen = shown_on_a_terminal(source, code=1)
    assert b"\x1b[31mred\x1b[0m" in seen
    assert b"end" in seen
    assert b"ended the run: ValueError" in seen
    assert b"\x1b]" not in seen
    assert b"\x1b[2J" not in seen
    assert "\x9b".encode() not in seen


def test_run_without_the_extra_names_the_remedy(tmp_path: Path) -> None:
    source = write(tmp_path / "nb.ipynb", "1")
    code = "import sys; sys.modules['nbclient'] = None; from engine.interfaces.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", source],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "pip install 'knackbox[kernels]'" in done.stderr


def test_help_imports_no_jupyter_packages() -> None:
    ran = run_as_process("run", "--help", python=["-X", "importtime"])
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.err.splitlines() if "|" in line}
    assert ran.code == 0
    assert loaded.isdisjoint({"nbclient", "nbformat", "jupyter_client", "zmq", "traitlets"})
