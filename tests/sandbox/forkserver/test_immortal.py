"""Objects of a template are exempt from reference counting, where CPython can do that."""

import subprocess
import sys

import pytest

_CODE = """
import ctypes, sys
from sandbox.forkserver import immortal

class Kept:
    text = "a string that is not interned, %d" % len(sys.argv)

def function():
    return Kept.text

kept = Kept()
number = immortal.make_all_immortal()
before = [sys.getrefcount(each) for each in (kept, Kept, function, function.__code__, Kept.text)]
more = [kept, Kept, function, function.__code__, Kept.text] * 3
after = [sys.getrefcount(each) for each in (kept, Kept, function, function.__code__, Kept.text)]
new = Kept()
del more, kept
print(number > 1000, before == after, sys.getrefcount(new) < 5, function())
"""


@pytest.mark.spec("BOX-7")
def test_references_to_a_templates_objects_are_not_counted_where_objects_can_be_immortal() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], check=True, capture_output=True, text=True, timeout=60)
    can = sys.implementation.name == "cpython" and sys.version_info >= (3, 12)
    assert done.stdout.split(maxsplit=3)[:3] == ([*["True"] * 3] if can else ["False", "False", "True"])
    assert done.stdout.endswith("a string that is not interned, 1\n")
