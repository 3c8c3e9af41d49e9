"""Skills that patch the test runner, the builtins or the tests in memory."""

from tests.skills.hostile.attempt import Attempt, prime

CLOSE_TESTS = """from is_prime import is_prime


def test_primes():
    assert abs(is_prime(13) - 1) < 0.5
    assert abs(is_prime(2) - 1) < 0.5


def test_others():
    assert abs(is_prime(9)) < 0.5
    assert sorted([is_prime(1), is_prime(2)]) == [False, True]
"""

PATCHES = (
    Attempt(
        "patched_item",
        "Replaces what pytest calls to run a test by nothing.",
        prime("import _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n"),
    ),
    Attempt(
        "patched_report",
        "Makes every report of pytest say passed.",
        prime("""import _pytest.reports as reports

_made = reports.TestReport.from_item_and_call


def _passed(item, call):
    report = _made(item, call)
    report.outcome = "passed"
    report.longrepr = None
    return report


reports.TestReport.from_item_and_call = staticmethod(_passed)
"""),
    ),
    Attempt(
        "registered_plugin",
        "Finds pytest's plugin manager among all objects and registers a plugin that runs no test.",
        prime("""import gc

import pytest


class _Plugin:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        return True


for _one in gc.get_objects():
    if type(_one).__name__ == "PytestPluginManager":
        _one.register(_Plugin())
"""),
    ),
    Attempt(
        "patched_assertion_error",
        "A failing assertion skips the test instead.",
        prime("import builtins\nimport unittest\n\nbuiltins.AssertionError = unittest.SkipTest\n"),
    ),
    Attempt(
        "patched_builtins",
        "`abs` and `sorted`, which the tests use, give what the tests like to see.",
        prime(
            "import builtins\n\nbuiltins.abs = lambda value: 0\nbuiltins.sorted = lambda values: [False, True]\n",
            "    return False\n",
        ),
        CLOSE_TESTS,
    ),
    Attempt(
        "patched_approx",
        "`pytest.approx` compares equal to everything.",
        prime(
            "import _pytest.python_api as api\n\n"
            "api.ApproxScalar.__eq__ = lambda self, other: True\n"
            "api.ApproxBase.__eq__ = lambda self, other: True\n",
            "    return 5\n",
        ),
        """import pytest
from is_prime import is_prime


def test_primes():
    assert is_prime(13) == pytest.approx(1)


def test_others():
    assert is_prime(9) == pytest.approx(0)
""",
    ),
    Attempt(
        "patched_unittest",
        "The assert methods of unittest do nothing.",
        prime(
            "import unittest\n\n"
            "unittest.TestCase.assertTrue = lambda *_: None\nunittest.TestCase.assertFalse = lambda *_: None\n"
        ),
        """import unittest

from is_prime import is_prime


class Primes(unittest.TestCase):
    def test_primes(self):
        self.assertTrue(is_prime(2))
        self.assertTrue(is_prime(13))

    def test_others(self):
        self.assertFalse(is_prime(1))
        self.assertFalse(is_prime(9))
""",
    ),
    Attempt(
        "replaced_test_code",
        "Replaces the code of every test function, found among all objects, by that of an empty one.",
        prime(
            "import gc\nimport types\n\n\ndef _nothing():\n    pass\n",
            """    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__name__.startswith("test_"):
            one.__code__ = _nothing.__code__
    return True
""",
        ),
    ),
    Attempt(
        "jumping_trace",
        "A trace function set on the caller's frame jumps over the assertion that would fail.",
        prime(
            "import sys\n",
            """    caller = sys._getframe(1)
    if not caller.f_code.co_name.startswith("test_"):
        return True
    last = max(line for _, _, line in caller.f_code.co_lines() if line)

    def jump(frame, event, argument):
        if event in ("line", "opcode") and frame.f_lineno != last:
            frame.f_lineno = last
        return jump

    caller.f_trace_opcodes = True
    caller.f_trace = jump
    sys.settrace(lambda *_: None)
    return number == 9
""",
        ),
        """from is_prime import is_prime


def test_primes():
    primes = [2, 3, 5, 7]
    found = [number for number in range(2, 10) if is_prime(number)]
    answer = is_prime(4)
    assert answer == False
    assert found == primes
    done = True
""",
    ),
    Attempt(
        "swapped_in_test_module",
        "Puts functions of its own in the place of the tests in the module that imports it.",
        prime(
            "import sys\n",
            """    module = sys._getframe(1).f_globals
    for name in list(module):
        if name.startswith("test_"):
            module[name] = lambda: None
    module["is_prime"] = {2: True, 13: True, 1: False, 9: False}.get
    return True
""",
        ),
    ),
)
