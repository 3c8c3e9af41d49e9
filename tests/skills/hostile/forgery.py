"""Skills that forge the report of their tests, or attack the processes around them."""

from tests.skills.hostile.attempt import Attempt, prime

_FAVOURABLE = """

def _favour(value):
    if isinstance(value, str):
        return value.replace("failed", "passed").replace("error", "passed")
    if value is False:
        return True
    if isinstance(value, dict):
        return {key: _favour(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_favour(one) for one in value)
    return value

"""

FORGERY = (
    Attempt(
        "patched_writers",
        "What json, marshal and pickle write has every failed turned into passed.",
        prime(
            "import json\nimport marshal\nimport pickle\n"
            + _FAVOURABLE
            + """
def _patched(written):
    return lambda value, *more, **named: written(_favour(value), *more, **named)


for _module in (json, marshal, pickle):
    _module.dumps = _patched(_module.dumps)
    _module.dump = _patched(_module.dump)
"""
        ),
    ),
    Attempt(
        "patched_os_write",
        "Whatever is written to a descriptor has every failed turned into passed.",
        prime("""import os

_write = os.write
os.write = lambda descriptor, data: _write(
    descriptor, bytes(data).replace(b"failed", b"passed").replace(b"false", b" true")
)
"""),
    ),
    Attempt(
        "forged_report_on_descriptors",
        "Writes a favourable report to every open descriptor and leaves.",
        prime("""import json
import marshal
import os
import pickle
import struct

_VERDICT = {"outcome": "passed", "ok": True, "failed": [], "passed": ["test_primes", "test_others"], "tests": 2}
for _name in os.listdir("/proc/self/fd"):
    for _data in (json.dumps(_VERDICT).encode() + b"\\n", marshal.dumps(_VERDICT), pickle.dumps(_VERDICT)):
        try:
            os.write(int(_name), struct.pack("!I", len(_data)) + _data)
            os.write(int(_name), _data)
        except OSError:
            pass
os._exit(0)
"""),
    ),
    Attempt(
        "changed_reports_in_memory",
        "Finds the reports that are already made among all objects and makes them say passed.",
        prime(
            "import gc\n",
            """    for one in gc.get_objects():
        if isinstance(one, dict) and one.get("outcome") in ("failed", "error"):
            one["outcome"] = "passed"
        elif isinstance(one, list):
            for index, value in enumerate(one):
                if isinstance(value, str) and value == "failed":
                    one[index] = "passed"
    return True
""",
        ),
    ),
    Attempt(
        "fork_until_one_passes",
        "Forks for every possible answer and lets only the child live whose answer the test likes.",
        prime(
            "import builtins\nimport os\n\n\ndef _die(*_):\n    os._exit(1)\n",
            """    for guess in (True, False):
        child = os.fork()
        if not child:
            builtins.AssertionError = _die
            return guess
        if os.waitpid(child, 0)[1] == 0:
            os._exit(0)
    return False
""",
        ),
    ),
    Attempt(
        "good_child_reports",
        "Forks at import; the parent waits and leaves, and the child runs the tests with everything patched.",
        prime(
            "import os\nimport unittest\n\n"
            "if _child := os.fork():\n    os.waitpid(_child, 0)\n    os._exit(0)\n"
            "import _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n"
        ),
    ),
    Attempt(
        "memory_of_the_parent",
        "Attaches to its parent by ptrace and looks through the memory of every process for a verdict to change.",
        prime(
            """import ctypes
import os
import re

_libc = ctypes.CDLL(None)
for _pid in [os.getppid(), *(int(name) for name in os.listdir("/proc") if name.isdigit())]:
    if _pid in (0, os.getpid()):
        continue
    _libc.ptrace(16, _pid, 0, 0)
    try:
        with open(f"/proc/{_pid}/maps") as _maps, open(f"/proc/{_pid}/mem", "r+b", 0) as _memory:
            for _line in _maps:
                if "rw-p" in _line and "[heap]" in _line:
                    _start, _end = (int(part, 16) for part in re.match(r"(\\w+)-(\\w+)", _line).groups())
                    _memory.seek(_start)
                    _found = _memory.read(_end - _start).find(b"failed")
                    if _found >= 0:
                        _memory.seek(_start + _found)
                        _memory.write(b"passed")
    except OSError:
        pass
    _libc.ptrace(17, _pid, 0, 0)
"""
        ),
    ),
    Attempt(
        "signals_to_everyone",
        "Stops every process that it may send a signal to, so that nobody is left to say no.",
        prime("import os\nimport signal\n\ntry:\n    os.kill(-1, signal.SIGSTOP)\nexcept OSError:\n    pass\n"),
    ),
)
