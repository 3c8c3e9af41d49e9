"""`knackbox exec`: code in a fresh box from the command line."""

import io
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.faces.cli import REPOSITORY, apart, command, here

_HEARS_INTERRUPTS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
HEAVY = ("chromadb", "wordllama", "pydantic_ai", "mcp", "sqlalchemy", "numpy")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def script(folder: Path, text: str) -> str:
    path = folder / "code"
    path.write_text(text)
    return str(path)


@pytest.mark.spec("BOX-6", "BOX-13")
def test_the_last_line_is_one_object_that_says_everything(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = here(capfd, "exec", "python", script(tmp_path, "print('hi')\n{'answer': 42}"), "--json")
    assert ran.code == 0
    assert ran.last["end"] == "ok"
    assert (ran.last["exit_code"], ran.last["stdout"], ran.last["value"]) == (0, "hi\n", {"answer": 42})
    assert {"stderr", "usage", "error", "signal", "dropped"} <= ran.last.keys()
    assert ran.last["usage"]["wall_s"] > 0


@pytest.mark.spec("BOX-6")
@pytest.mark.parametrize(("language", "code"), [("node", "console.log(40 + 2)"), ("bash", "echo $((40 + 2))")])
def test_every_language_runs(capfd: pytest.CaptureFixture[str], tmp_path: Path, language: str, code: str) -> None:
    ran = here(capfd, "exec", language, script(tmp_path, code), "--json")
    assert (ran.code, ran.last["stdout"]) == (0, "42\n")


def test_code_that_fails_ends_the_command_with_one_and_the_error_is_structured(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran = here(capfd, "exec", "python", script(tmp_path, "raise ValueError('no')"), "--json")
    assert ran.code == 1
    assert ran.last["end"] == "error"
    assert (ran.last["error"]["type"], ran.last["error"]["message"]) == ("ValueError", "no")


@pytest.mark.spec("BOX-3")
def test_a_timeout_kills_the_code(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = script(tmp_path, "while True: pass")
    ran = here(capfd, "exec", "python", code, "--timeout", "0.5", "--json")
    assert (ran.code, ran.last["end"]) == (1, "timeout")


def test_without_json_the_output_passes_through_and_the_rest_is_on_stderr(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran = here(capfd, "exec", "bash", script(tmp_path, "echo out; echo err >&2; exit 3"))
    assert (ran.code, ran.out) == (1, "out\n")
    assert "err\n" in ran.err
    assert "ended with error (exit code 3)" in ran.err


def test_a_dash_reads_stdin(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"print(7)")))
    assert here(capfd, "exec", "python", "-", "--json").last["stdout"] == "7\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["exec", "python", "/nowhere/x.py"], "/nowhere/x.py cannot be read"),
        (["exec", "cobol", "-"], "cobol"),
        (["exec", "python"], "Missing argument"),
        (["exec", "python", "-", "--timeout", "soon"], "--timeout"),
        (["exce", "python", "-"], "Did you mean exec?"),
        (["--hoem", "x", "tools"], "--hoem"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line_and_ends_with_two(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    ran = here(capfd, *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_bytes_that_are_no_text_are_refused_before_anything_runs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "code").write_bytes(b"print(1)\xff\xfe")
    ran = here(capfd, "exec", "python", str(tmp_path / "code"))
    assert ran.code == 2
    assert "not UTF-8" in ran.err


def test_a_wrong_configuration_ends_with_three_and_names_file_and_field(
    capfd: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("sandbocks = 'x'\n")
    ran = here(capfd, "exec", "python", script(tmp_path, "1"))
    assert ran.code == 3
    assert "config.toml: sandbocks" in ran.err
    assert "Did you mean sandbox?" in ran.err


def test_an_unknown_sandbox_is_refused_with_those_installed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNACKBOX_SANDBOX", "namespaces")
    ran = here(capfd, "exec", "python", script(tmp_path, "1"))
    assert ran.code == 3
    assert "Did you mean namespace?" in ran.err


@pytest.mark.spec("BOX-2")
def test_without_isolation_every_call_says_so(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = script(tmp_path, "print(1)")
    ran = here(capfd, "exec", "python", code, "--json", "--unsafe-no-sandbox")
    assert ran.code == 0
    assert "--unsafe-no-sandbox" in ran.err
    assert ran.last["stdout"] == "1\n"


@pytest.mark.spec("BOX-2")
def test_the_configuration_alone_cannot_turn_isolation_off(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNACKBOX_SANDBOX", "unsafe")
    assert here(capfd, "exec", "python", script(tmp_path, "1")).code == 3


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "bash", "CODE"]])
def test_start_up_loads_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    code = script(tmp_path, "true")
    ran = apart(*[code if word == "CODE" else word for word in arguments], python=["-X", "importtime"])
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.err.splitlines() if "|" in line}
    assert ran.code == 0
    assert loaded.isdisjoint(HEAVY)


def test_global_options_may_stand_after_the_command(
    capfd: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text("wrong = 1\n")
    code = script(tmp_path, "1")
    assert here(capfd, "exec", "python", code, "--home", str(other)).code == 3
    assert here(capfd, f"--home={other}", "exec", "python", code).code == 3
    assert here(capfd, "exec", "python", code).code == 0


def test_the_version_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    ran = here(capfd, "--version")
    assert (ran.code, ran.out.split()[0]) == (0, "knackbox")


@pytest.mark.spec("BOX-4")
def test_an_interrupt_kills_the_code_and_says_nothing_more(tmp_path: Path) -> None:
    code = script(tmp_path, "print('go', flush=True)\nwhile True: pass")
    # Started in the background by a shell, as CI may be, this test would hand down a SIGINT that is ignored.
    start = [sys.executable, "-c", _HEARS_INTERRUPTS, *command("exec", "python", code)]
    with subprocess.Popen(start, cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")


def test_a_reader_that_went_away_ends_the_run_quietly(tmp_path: Path) -> None:
    code = script(tmp_path, "while true; do echo y; done")
    with subprocess.Popen(command("exec", "bash", code), cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == b""
