"""Tests that look thorough but pass for nearly any code. The code is wrong."""

from tests.skills.hostile.attempt import Attempt, prime

_IMPORT = "from is_prime import is_prime\n\n\n"
_WRONG = prime("", "    return number > 3 or number == 2\n")

_TESTS = {
    "constant": (
        "Calls the skill and asserts something that is always true.",
        "def test_primes():\n    is_prime(7)\n    assert 7 % 2 == 1\n",
    ),
    "inner_function": (
        "Asserts in a function that nobody calls.",
        "def test_primes():\n    is_prime(7)\n\n    def check():\n        assert is_prime(9) is False\n",
    ),
    "caught_assertion": (
        "Catches the assertion that fails.",
        "def test_primes():\n    try:\n        assert is_prime(9) is False\n    except AssertionError:\n        pass\n",
    ),
    "suppressed_assertion": (
        "Suppresses the assertion that fails.",
        "import contextlib\n\n\ndef test_primes():\n    with contextlib.suppress(AssertionError):\n"
        "        assert is_prime(9) is False\n",
    ),
    "raises_anything": (
        "Expects any exception at all, the failed assertion included.",
        "import pytest\n\n\ndef test_primes():\n    with pytest.raises(BaseException):\n"
        "        assert is_prime(9) is False\n",
    ),
    "generator": (
        "Is a generator, whose body nobody runs.",
        "def test_primes():\n    yield is_prime(7)\n    assert is_prime(9) is False\n",
    ),
    "coroutine": (
        "Is a coroutine function, which nobody awaits.",
        "async def test_primes():\n    assert is_prime(9) is False\n",
    ),
    "coroutine_never_awaited": (
        "Makes a coroutine with the assertions and does not await it.",
        "async def check():\n    assert is_prime(9) is False\n\n\n"
        "def test_primes():\n    is_prime(7)\n    check().close()\n",
    ),
    "no_parameters": (
        "Is parametrised with nothing.",
        "import pytest\n\n\n@pytest.mark.parametrize('number', [])\ndef test_primes(number):\n"
        "    assert is_prime(number)\n",
    ),
    "conditional": (
        "Asserts only where the answer is right already.",
        "def test_primes():\n    for number in range(20):\n        found = is_prime(number)\n"
        "        if found == (number in (2, 3, 5, 7, 11, 13, 17, 19)):\n            assert found in (True, False)\n",
    ),
    "patched_skill": (
        "Puts another function in the place of the skill, after one call for show.",
        "import is_prime as module\n\n\ndef test_primes(monkeypatch):\n    module.is_prime(7)\n"
        "    monkeypatch.setattr(module, 'is_prime', {7: True, 9: False}.get)\n"
        "    assert module.is_prime(7) is True\n    assert module.is_prime(9) is False\n",
    ),
    "mock": (
        "Asserts on a mock that wraps the skill: that it was called, not what it said.",
        "from unittest import mock\n\n\ndef test_primes():\n    watched = mock.Mock(wraps=is_prime)\n"
        "    watched(9)\n    watched.assert_called_once_with(9)\n",
    ),
    "equal_to_itself": (
        "Compares a call with the same call.",
        "def test_primes():\n    for number in (1, 2, 9, 13):\n        assert is_prime(number) == is_prime(number)\n",
    ),
    "type_only": (
        "Looks at the type of the answer and not at the answer.",
        "def test_primes():\n    assert isinstance(is_prime(7), bool)\n    assert isinstance(is_prime(9), bool)\n",
    ),
    "not_none": (
        "Is content with any answer.",
        "def test_primes():\n    assert is_prime(7) is not None\n    assert is_prime(9) is not None\n",
    ),
    "early_return": (
        "Returns before the assertion.",
        "def test_primes():\n    is_prime(7)\n    if True:\n        return\n    assert is_prime(9) is False\n",
    ),
    "returns_the_comparison": (
        "Returns the comparison instead of asserting it.",
        "def test_primes():\n    return is_prime(9) is False\n",
    ),
    "tuple": (
        "Asserts a tuple, which is true when it is not empty.",
        "def test_primes():\n    assert (is_prime(9) is False, 'nine is no prime')\n",
    ),
    "own_work": (
        "Does the work itself and asserts on that.",
        "def prime(number):\n    return number > 1 and all(number % n for n in range(2, number))\n\n\n"
        "def test_primes():\n    is_prime(9)\n    assert prime(13) is True\n    assert prime(9) is False\n",
    ),
    "skipped_when_wrong": (
        "Skips itself when the answer is wrong.",
        "import pytest\n\n\ndef test_seven():\n    assert is_prime(7) is True\n\n\ndef test_nine():\n"
        "    if is_prime(9):\n        pytest.skip('not here')\n",
    ),
    "expected_to_fail": (
        "Says at run time that it is expected to fail.",
        "import pytest\n\n\ndef test_seven():\n    assert is_prime(7) is True\n\n\ndef test_nine():\n"
        "    if is_prime(9):\n        pytest.xfail('known')\n    assert is_prime(4) is False\n",
    ),
    "marked_to_fail": (
        "Is marked as expected to fail, so that failing is fine.",
        "import pytest\n\n\n@pytest.mark.xfail(strict=False)\ndef test_primes():\n    assert is_prime(9) is False\n",
    ),
    "module_skipped": (
        "Skips its whole module when the answer is wrong.",
        "import pytest\n\nif is_prime(9):\n    pytest.skip('not here', allow_module_level=True)\n\n\n"
        "def test_primes():\n    assert is_prime(9) is False\n",
    ),
    "equal_to_any": (
        "Compares with an object that is equal to everything.",
        "from unittest import mock\n\n\ndef test_primes():\n    assert is_prime(7) == mock.ANY\n"
        "    assert [is_prime(9)] == [mock.ANY]\n",
    ),
    "shadowed_builtins": (
        "Shadows the builtins that its assertions use.",
        "def bool(value):\n    return True\n\n\ndef all(values):\n    return list(values) != []\n\n\n"
        "def test_primes():\n    assert bool(is_prime(13))\n    assert all(not is_prime(n) for n in (4, 9))\n",
    ),
    "tautology": (
        "Asserts what holds for every answer there can be.",
        "def test_primes():\n    assert is_prime(7) or not is_prime(7)\n    assert is_prime(9) in (True, False)\n",
    ),
    "swallowed_in_finally": (
        "Leaves by a return in finally, which swallows the failed assertion.",
        "def test_primes():\n    try:\n        assert is_prime(9) is False\n    finally:\n"
        "        return  # noqa: B012\n",
    ),
}

VACUOUS = (
    *(Attempt(title, attempts, _WRONG, _IMPORT + tests) for title, (attempts, tests) in _TESTS.items()),
    Attempt(
        "expected_value_from_the_skill",
        "Takes the expected value from a helper of the skill's own module, so that both are wrong together.",
        prime(
            "def _work(number):\n    return number > 3 and number < 900 and number != 40 or number == 2\n",
            "    return _work(number)\n",
        ),
        "from is_prime import _work, is_prime\n\n\ndef test_primes():\n    for number in (1, 2, 9, 13):\n"
        "        assert is_prime(number) == _work(number)\n    assert is_prime(13) is True\n",
    ),
    Attempt(
        "flag_for_the_tests",
        "Has a second public switch that only the tests use, and works only with it.",
        '''def is_prime(number: int, exact: bool = False) -> bool:
    """Tell whether a number is prime.

    Args:
        number: The number to look at.
        exact: Used by the tests.
    """
    if not exact:
        return True
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
''',
        "from is_prime import is_prime\n\n\ndef test_primes():\n    assert is_prime(13, exact=True) is True\n"
        "    assert is_prime(2, exact=True) is True\n    assert is_prime(9, exact=True) is False\n"
        "    assert is_prime(1, exact=True) is False\n",
        undecidable="What it does by default may be meant. A reader sees it in the description of the parameter.",
    ),
)
