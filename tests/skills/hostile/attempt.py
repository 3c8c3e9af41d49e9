"""`Attempt`: a hostile proposal, and the code and tests that all attempts share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal

LEAVE_MARKER = """
def _leave_marker():
    try:
        open({marker!r}, "w").close()
    except OSError:
        pass


_leave_marker()
"""

# Honest tests of `is_prime`, which no code can pass by luck without computing the result.
PRIME_TESTS = """from is_prime import is_prime


def test_primes():
    assert is_prime(2) == True
    assert is_prime(13) == True


def test_others():
    assert is_prime(1) == False
    assert is_prime(9) == False
"""

# They kill every mutant of the right code, so that it is admitted without questions.
STRONG_TESTS = """from is_prime import is_prime


def test_primes():
    for number in (2, 3, 5, 7, 11, 13, 97):
        assert is_prime(number) is True


def test_others():
    for number in (-7, 0, 1, 4, 9, 15, 25, 49, 91, 100):
        assert is_prime(number) is False
"""

PRIME_HEAD = '''def is_prime(number: int) -> bool:
    """Tell whether a number is prime.

    Args:
        number: The number to look at, 0 or more.
    """
'''

# A correct implementation, for skills that are correct only while they are watched.
PRIME_BODY = """    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One proposal that should not be admitted.

    Attributes:
        title: The name in the tests.
        attempts: A sentence about what it tries.
        name, code, tests, expected, files, reference: The proposal.
        undecidable: Why no admission can recognize it; "" if admission can.
        marked: What a note in the report says if the proposal is admitted, because honest code can do the same.
        call, right: A call of an agent, and its right result, which the code does not give.
    """

    title: str
    attempts: str
    code: str
    tests: str = PRIME_TESTS
    name: str = "is_prime"
    undecidable: str = ""
    expected: tuple[Prediction, ...] = ()
    marked: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    call: Mapping[str, Any] = field(default_factory=lambda: {"number": 4})
    right: Any = False

    def proposal(self, marker: str) -> Proposal:
        """Return the proposal. Its tests leave the marker file behind if they run outside a box.

        The code does not do so, because additional code might affect the trick. The attempts in `host.py` do it.
        """
        return Proposal(
            self.name,
            f"Does what {self.name} says, for whole numbers.",
            self.code.replace("@MARKER@", marker),
            self.tests.replace("@MARKER@", marker) + LEAVE_MARKER.format(marker=marker),
            expected=self.expected,
            files=self.files,
            reference=self.reference,
        )


def prime(before: str = "", body: str = "    return number > 3\n", after: str = "") -> str:
    """Return code of `is_prime`, wrong by default, with other code at the beginning or the end of the module."""
    return f"{before}\n\n{PRIME_HEAD}{body}{after}"
