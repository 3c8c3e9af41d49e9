"""`knackbox exec` runs code in a fresh box."""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.interfaces.cli import REPOSITORY, command, here, run_as_process
from tests.sandbox.environments.wheels import from_folder, make_wheel

_WITH_SIGINT = (
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
def test_with_json_stdout_is_one_complete_object(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_failing_code_gives_exit_code_1_and_a_structured_error(
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


def test_without_json_output_is_forwarded_and_remarks_go_to_stderr(
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
    ("arguments", "message"),
    [
        (["exec", "python", "/nowhere/x.py"], "/nowhere/x.py cannot be read"),
        (["exec", "cobol", "-"], "cobol"),
        (["exec", "python"], "Missing argument"),
        (["exec", "python", "-", "--timeout", "soon"], "--timeout"),
        (["exce", "python", "-"], "Did you mean exec?"),
        (["--hoem", "x", "tools"], "--hoem"),
    ],
)
def test_an_invalid_command_line_prints_one_line_and_gives_exit_code_2(
    capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    ran = here(capfd, *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_code_that_is_not_utf_8_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "code").write_bytes(b"print(1)\xff\xfe")
    ran = here(capfd, "exec", "python", str(tmp_path / "code"))
    assert ran.code == 2
    assert "not UTF-8" in ran.err


def test_an_invalid_configuration_gives_exit_code_3_and_names_file_and_field(
    capfd: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("sandbocks = 'x'\n")
    ran = here(capfd, "exec", "python", script(tmp_path, "1"))
    assert ran.code == 3
    assert "config.toml: sandbocks" in ran.err
    assert "Did you mean sandbox?" in ran.err


def test_an_unknown_sandbox_is_refused_with_a_suggestion(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNACKBOX_SANDBOX", "namespaces")
    ran = here(capfd, "exec", "python", script(tmp_path, "1"))
    assert ran.code == 3
    assert "Did you mean namespace?" in ran.err


@pytest.mark.spec("BOX-2")
def test_without_isolation_every_call_warns(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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
    ran = run_as_process(*[code if word == "CODE" else word for word in arguments], python=["-X", "importtime"])
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.err.splitlines() if "|" in line}
    assert ran.code == 0
    assert loaded.isdisjoint(HEAVY)


def test_global_options_are_accepted_after_the_command(
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
def test_an_interrupt_kills_the_code_without_a_message(tmp_path: Path) -> None:
    code = script(tmp_path, "print('go', flush=True)\nwhile True: pass")
    # If a shell started the tests in the background, as in CI, the command would inherit an ignored SIGINT.
    start = [sys.executable, "-c", _WITH_SIGINT, *command("exec", "python", code)]
    with subprocess.Popen(start, cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")


def test_a_closed_stdout_ends_the_run_without_a_message(tmp_path: Path) -> None:
    code = script(tmp_path, "while true; do echo y; done")
    with subprocess.Popen(command("exec", "bash", code), cwd=REPOSITORY, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == b""


@pytest.mark.spec("FACE-14")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys; print(sys.argv[1:])"),
        ("node", "console.log(process.argv.slice(2))"),
        ("bash", "printf '%s, ' \"$@\""),
    ],
)
def test_code_gets_the_arguments_after_the_double_dash(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, language: str, code: str
) -> None:
    from_file = here(capfd, "exec", language, script(tmp_path, code), "--", "--json", "b c")
    given = here(capfd, "exec", language, "-c", code, "--", "--json", "b c")
    assert from_file.out == given.out
    assert "--json" in given.out
    assert "b c" in given.out
    assert given.code == 0


@pytest.mark.spec("FACE-14")
def test_a_workspace_is_writable_copied_or_read_only(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "in.txt").write_text("in")
    code = script(tmp_path, "cat in.txt; echo new > out.txt")
    workspace = ("--workspace", str(folder))
    refused = here(capfd, "exec", "bash", code, *workspace, "--read-only")
    assert (refused.code, "Read-only" in refused.err) == (1, True)
    copied = here(capfd, "exec", "bash", code, *workspace, "--copy", "--json")
    assert (copied.code, copied.last["stdout"]) == (0, "in")
    assert copied.last["changes"] == [{"path": "out.txt", "kind": "added"}]
    assert [path.name for path in folder.iterdir()] == ["in.txt"]
    assert "out.txt" in here(capfd, "exec", "bash", code, *workspace, "--copy").err
    assert here(capfd, "exec", "bash", code, *workspace).out == "in"
    assert (folder / "out.txt").read_text() == "new\n"


@pytest.mark.spec("FACE-14")
def test_files_are_copied_next_to_the_program(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one")
    (tmp_path / "two.txt").write_bytes(b"\xff")
    files = ("--file", str(tmp_path / "one.txt"), "--file", str(tmp_path / "two.txt"))
    ran = here(
        capfd, "exec", "python", "-c", "(open('one.txt').read(), open('two.txt','rb').read()[0])", *files, "--json"
    )
    assert ran.last["value"] == ["one", 255]


@pytest.mark.spec("FACE-14")
def test_a_pipe_or_a_file_on_stdin_reaches_the_code(tmp_path: Path) -> None:
    for number, data in enumerate((b"from a pipe", b"")):
        done = subprocess.run(
            command("exec", "python", "-c", "import sys; print(sys.stdin.read())"),
            cwd=REPOSITORY, input=data, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert (number, done.returncode, done.stdout) == (number, 0, data + b"\n")
    (tmp_path / "in").write_text("from a file")
    with (tmp_path / "in").open() as file:
        done = subprocess.run(
            command("exec", "bash", "-c", "cat"),
            cwd=REPOSITORY,
            stdin=file,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == b"from a file"


@pytest.mark.spec("FACE-14", "BOX-11")
def test_packages_are_installed_only_for_the_run_that_requests_them(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path, "alpha", "1.5")
    for name, value in from_folder(tmp_path).items():
        monkeypatch.setenv(name, value)
    code = "import alpha; alpha.VERSION"
    assert here(capfd, "exec", "python", "-c", code, "--with", "alpha>=1", "--json").last["value"] == "1.5"
    assert "ModuleNotFoundError" in here(capfd, "exec", "python", "-c", code).err
    missing = here(capfd, "exec", "python", "-c", code, "--with", "alpha>=2")
    assert (missing.code, missing.out, missing.err.count("\n")) == (2, "", 1)
    assert "--with" in missing.err


@pytest.mark.spec("FACE-14")
def test_the_memory_limit_is_applied(capfd: pytest.CaptureFixture[str]) -> None:
    code = "x = bytearray(700 << 20); x[::4096] = x[::4096]; len(x)"
    assert here(capfd, "exec", "python", "-c", code, "--memory", "1GiB", "--json").last["value"] == 700 << 20
    over = here(capfd, "exec", "python", "-c", code, "--memory", "256MiB", "--json")
    assert (over.code, over.last["end"]) == (1, "memory")


@pytest.mark.spec("FACE-14")
def test_code_connects_only_to_allowed_destinations(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[egress]\nallow_private = ["localhost"]\n')
    code = (
        "import socket, sys\n"
        "with socket.create_connection(('localhost', int(sys.argv[1])), 10) as peer: print(peer.recv(99))"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]

        def greet() -> None:
            with suppress(TimeoutError, OSError):
                peer, _ = server.accept()
                with peer:
                    peer.sendall(b"hello")

        greeter = threading.Thread(target=greet)
        greeter.start()
        refused = here(capfd, "exec", "python", "-c", code, "--", str(port))
        allowed = here(capfd, "exec", "python", "-c", code, "--allow", f"localhost:{port}", "--", str(port))
        greeter.join(60)
    assert (refused.code, refused.out) == (1, "")
    assert (allowed.code, allowed.out) == (0, "b'hello'\n")


@pytest.mark.spec("FACE-14")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["python"], "Missing argument FILE"),
        (["python", "-c", "1", "--copy"], "--copy needs --workspace"),
        (["python", "-c", "1", "--workspace", "/nowhere"], "/nowhere is not a folder"),
        (["python", "-c", "1", "--workspace", "/tmp", "--copy", "--read-only"], "either --copy or --read-only"),
        (["python", "-c", "1", "--file", "/nowhere"], "/nowhere cannot be read"),
        (["python", "-c", "1", "--allow", "everywhere"], "api.example.com:443"),
        (["python", "-c", "1", "--memory", "much"], "512MiB"),
        (["node", "-c", "1", "--with", "requests"], "Python packages"),
    ],
)
def test_invalid_options_run_nothing(capfd: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    ran = here(capfd, "exec", *arguments)
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")
    assert message in ran.err


ESCAPES = "printf 'red \\033[31m\\033]0;title\\007 caf\\303\\251 \\377\\n'; printf 'bad\\033[2J\\n\\303' >&2"


@pytest.mark.spec("FACE-14")
def test_escape_sequences_reach_a_pipe_unchanged(tmp_path: Path) -> None:
    start = command("exec", "bash", "-c", ESCAPES)
    done = subprocess.run(start, cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.stdout == b"red \x1b[31m\x1b]0;title\x07 caf\xc3\xa9 \xff\n"
    assert done.stderr == b"bad\x1b[2J\n\xc3"


@pytest.mark.spec("FACE-14")
def test_escape_sequences_are_shown_as_text_on_a_terminal() -> None:
    master, slave = os.openpty()
    try:
        start = command("exec", "bash", "-c", ESCAPES)
        done = subprocess.run(start, cwd=REPOSITORY, stdin=slave, stdout=slave, stderr=slave, timeout=60, check=False)
        shown = os.read(master, 65_536)
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 0
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert "red \\x1b[31m\\x1b]0;title\\x07 café \\xff\r\n".encode() in shown
    assert b"bad\\x1b[2J\r\n\\xc3" in shown
