"""Parts of process 1 of a container that can be tested without a container."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("BOX-9")
ROOT = Path(__file__).parents[3]
# Runs in a separate process, because it handles SIGCHLD.
OVER_BEFORE = """
import os, select
from sandbox.linux.attend import wake_on_child

if (pid := os.fork()) == 0:
    os._exit(4)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its SIGCHLD was not handled
woken = wake_on_child()
print(select.select([woken], [], [], 10)[0] == [woken])
"""


def test_a_job_that_ends_before_process_1_waits_is_noticed() -> None:
    found = subprocess.run([sys.executable, "-c", OVER_BEFORE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"
