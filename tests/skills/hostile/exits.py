"""Skills that end the process successfully before the tests can fail."""

from tests.skills.hostile.attempt import Attempt, prime

EXITS = (
    Attempt(
        "exit_at_import",
        "Ends the process with status 0 as soon as it is imported.",
        prime("import os\n", after="\n\nos._exit(0)\n"),
    ),
    Attempt(
        "exit_when_called",
        "Ends the process with status 0 at the first call.",
        prime("import os\n", "    os._exit(0)\n"),
    ),
    Attempt(
        "exit_by_atexit",
        "Fails every test and turns the exit status into 0 on the way out.",
        prime("import atexit\nimport os\n\natexit.register(os._exit, 0)\n"),
    ),
    Attempt(
        "exit_in_thread",
        "A thread ends the process with status 0 while the tests run.",
        prime(
            "import os\nimport threading\nimport time\n\n\n"
            "def _leave():\n    time.sleep(0.02)\n    os._exit(0)\n\n\n"
            "threading.Thread(target=_leave, daemon=True).start()\n",
            "    time.sleep(1)\n    return True\n",
        ),
    ),
    Attempt(
        "exit_by_signal",
        "A timer's signal handler ends the process with status 0 in the middle of a test.",
        prime(
            "import os\nimport signal\nimport time\n\n"
            "signal.signal(signal.SIGALRM, lambda *_: os._exit(0))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.02)\n",
            "    time.sleep(1)\n    return True\n",
        ),
    ),
    Attempt(
        "exit_by_exception",
        "Raises SystemExit(0) out of the call, so that a runner might think it is over and all is well.",
        prime("import sys\n", "    sys.exit(0)\n"),
    ),
    Attempt(
        "exit_of_pytest",
        "The tests ask pytest to stop with return code 0 before the one that fails.",
        prime(),
        """import pytest
from is_prime import is_prime


def test_a_primes():
    assert is_prime(13)
    pytest.exit("enough", returncode=0)


def test_b_others():
    assert is_prime(9) == False
""",
    ),
    Attempt(
        "skip_from_the_skill",
        "The skill itself raises pytest's skip, so that nothing fails.",
        prime("", "    import pytest\n\n    pytest.skip('not today')\n"),
    ),
)
