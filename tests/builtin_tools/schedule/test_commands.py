"""`knackbox jobs` for people, and the processes that run jobs: `work`, `serve` and `mcp`."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually_sync
from tests.interfaces.cli import REPOSITORY, Ran, command, here

pytestmark = [pytest.mark.slow]

PING = ("--tool", "system_utility", "--arguments", '{"action": "diagnostics"}')


def jobs(capfd: pytest.CaptureFixture[str], home: Path, *arguments: str) -> Ran:
    return here(capfd, "--home", str(home), "jobs", *arguments)


@pytest.mark.spec("JOB-2")
def test_a_job_is_added_shown_paused_resumed_and_deleted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    added = jobs(
        capfd, tmp_path, "add", "the time", "every weekday at 9", "--time-zone", "Europe/Berlin", *PING, "--json"
    )
    assert added.code == 0, added.err
    job_id = added.last["id"]
    assert added.last["meaning"] == "cron 0 0 9 * * 1-5 (Europe/Berlin)"
    listed = jobs(capfd, tmp_path, "list")
    assert job_id in listed.out
    assert "no process runs jobs" in listed.err
    assert jobs(capfd, tmp_path, "list", "--user", "bob", "--json").last == {"jobs": [], "worker": False}
    assert jobs(capfd, tmp_path, "pause", job_id).code == 0
    assert jobs(capfd, tmp_path, "show", job_id, "--json").last["state"] == "paused"
    assert "next run" in jobs(capfd, tmp_path, "resume", job_id).err
    assert jobs(capfd, tmp_path, "history", job_id).err.endswith("it has not run yet.\n")
    assert jobs(capfd, tmp_path, "run", "the time").code == 0
    assert [each["state"] for each in jobs(capfd, tmp_path, "history", "the time", "--json").last] == ["due"]
    other = jobs(capfd, tmp_path, "add", "the time", "every 1 hour", *PING).out.strip()
    ambiguous = jobs(capfd, tmp_path, "pause", "the time")
    assert (ambiguous.code, other in ambiguous.err) == (2, True)
    assert jobs(capfd, tmp_path, "delete", job_id).code == 0
    assert jobs(capfd, tmp_path, "show", job_id).code == 2


@pytest.mark.spec("JOB-2")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a", "whenever", *PING), "not understood"),
        (("a", "every 1 hour"), "exactly one of"),
        (("a", "every 1 hour", "--tool", "nothing"), "no tool"),
        (("a", "every 1 hour", "--tool", "system_utility", "--arguments", "[]"), "must be a JSON object"),
        (("a", "every 1 hour", "--tool", "system_utility", "--arguments", "{"), "not JSON"),
    ],
)
def test_a_wrong_request_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    refused = jobs(capfd, tmp_path, "add", *arguments)
    assert refused.code == 2
    assert said in refused.err


@contextmanager
def running(home: Path, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command that serves until it is stopped."""
    process = subprocess.Popen(
        command("--home", str(home), *arguments),
        cwd=REPOSITORY,
        env=dict(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ran(capfd: pytest.CaptureFixture[str], home: Path, job_id: str) -> bool:
    history = jobs(capfd, home, "history", job_id, "--json").last
    return any(each["state"] == "done" for each in history)


@pytest.mark.spec("JOB-4")
def test_work_runs_jobs_and_ends_when_it_is_stopped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job_id = jobs(capfd, tmp_path, "add", "the time", "every 1 second", *PING).out.strip()
    with running(tmp_path, "work") as process:
        eventually_sync(lambda: ran(capfd, tmp_path, job_id), pause_s=0.3)
        assert jobs(capfd, tmp_path, "list", "--json").last["worker"] is True
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert jobs(capfd, tmp_path, "list", "--json").last["worker"] is False


@pytest.mark.spec("JOB-4")
def test_serve_runs_jobs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job_id = jobs(capfd, tmp_path, "add", "the time", "every 1 second", *PING).out.strip()
    assert here(capfd, "--home", str(tmp_path), "serve", "token", "add", "t").code == 0
    with running(tmp_path, "serve", "--port", "0"):
        eventually_sync(lambda: ran(capfd, tmp_path, job_id), pause_s=0.3)


@pytest.mark.spec("JOB-4")
def test_mcp_runs_jobs_once_a_client_uses_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job_id = jobs(capfd, tmp_path, "add", "the time", "every 1 second", *PING).out.strip()
    messages = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
    )
    with running(tmp_path, "mcp") as process:
        assert process.stdin is not None
        process.stdin.write(messages.encode())
        process.stdin.flush()
        eventually_sync(lambda: ran(capfd, tmp_path, job_id), pause_s=0.3)


@pytest.mark.spec("JOB-4")
def test_work_without_isolation_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refused = here(capfd, "--home", str(tmp_path), "--unsafe-no-sandbox", "work")
    assert refused.code == 3
    assert "never run without isolation" in refused.err


@pytest.mark.spec("JOB-1")
def test_a_run_whose_worker_was_killed_is_unknown_and_not_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = {"language": "python", "code": "import time; time.sleep(60)"}
    arguments = ("--tool", "execute", "--arguments", json.dumps(code))
    job_id = jobs(capfd, tmp_path, "add", "slow", "in 1 second", *arguments).out.strip()

    def states() -> list[tuple[str, int]]:
        return [(each["state"], each["attempts"]) for each in jobs(capfd, tmp_path, "history", job_id, "--json").last]

    with running(tmp_path, "work"):
        eventually_sync(lambda: states() == [("claimed", 1)], pause_s=0.3)
    with running(tmp_path, "work"):
        eventually_sync(lambda: states() == [("unknown", 1)], pause_s=0.3)
    assert "may have had an effect" in jobs(capfd, tmp_path, "history", job_id).out
    assert "1 runs were interrupted" in jobs(capfd, tmp_path, "list").err
