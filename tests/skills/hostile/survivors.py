"""Skills with weak tests and wrong code, and with a guard that makes every mutant fail."""

import base64
import hashlib

from tests.skills.hostile.attempt import PRIME_HEAD, Attempt, prime

WEAK_TESTS = """from is_prime import is_prime


def test_seven():
    assert is_prime(7) is True
"""

_WRONG = "    return number > 2 and number < 900 and number != 40 and number * 3 > 5\n"
_PACKED = base64.b64encode(b"def _work(number): return number > 2 and number < 900 and number != 40").decode()


def _hashed() -> str:
    code = f"""import hashlib
import pathlib

_EXPECTED = "DIGEST"
_SOURCE = pathlib.Path(__file__).read_text().replace(_EXPECTED, "")
if hashlib.sha256(_SOURCE.encode()).hexdigest() != _EXPECTED:
    raise RuntimeError("changed")


{PRIME_HEAD}{_WRONG}"""
    return code.replace("DIGEST", hashlib.sha256(code.replace("DIGEST", "").encode()).hexdigest())


SURVIVORS = (
    Attempt(
        "hash_of_its_own_file",
        "Refuses to be imported when its file is not exactly what was handed in.",
        _hashed(),
        WEAK_TESTS,
    ),
    Attempt(
        "twin_functions",
        "Holds the work twice and fails when the code of one differs from that of the other.",
        prime(
            f"def _one(number):\n{_WRONG}\n\ndef _two(number):\n{_WRONG}",
            """    one, two = _one.__code__, _two.__code__
    if one.co_code != two.co_code or one.co_consts != two.co_consts:
        raise RuntimeError("changed")
    return _one(number)
""",
        ),
        WEAK_TESTS,
    ),
    Attempt(
        "source_in_a_string",
        "Keeps the work in a text, where no mutant is made, and runs it.",
        prime(
            'exec("def _work(number): return number > 2 and number < 900 and number != 40")\n',
            "    return _work(number)\n",
        ),
        WEAK_TESTS,
    ),
    Attempt(
        "packed_source",
        "Keeps the work as compressed bytes, where no mutant is made, and unpacks it at import.",
        prime(
            f"import base64\n\nexec(base64.b64decode({_PACKED!r}))\n",
            "    return _work(number)\n",
        ),
        WEAK_TESTS,
    ),
    Attempt(
        "padding",
        "Surrounds the wrong line with checks that fail when they are changed, so that the share of survivors is low.",
        prime(
            "",
            "".join(f"    if {n} + {n} != {2 * n}:\n        raise ValueError(number)\n" for n in range(3, 13)) + _WRONG,
        ),
        WEAK_TESTS,
    ),
    Attempt(
        "endless_mutants",
        "Holds so many places to change before the wrong line that no time is left to come to it.",
        prime(
            "_TABLE = [\n"
            + "".join(f"    {n} * {n} + {n},\n" for n in range(1, 700))
            + "]\nif sum(_TABLE) != "
            + str(sum(n * n + n for n in range(1, 700)))
            + ":\n    raise RuntimeError\n",
            _WRONG,
        ),
        WEAK_TESTS,
    ),
)
