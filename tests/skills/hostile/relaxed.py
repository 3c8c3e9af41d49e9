"""Skills with wrong code that misuse features which admission accepts in honest skills."""

from tests.skills.hostile.attempt import PRIME_BODY, PRIME_HEAD, PRIME_TESTS, Attempt, prime

_RIGHT = PRIME_HEAD.replace("def is_prime", "def check_number") + PRIME_BODY

RELAXED = (
    Attempt(
        "answers_in_the_arguments",
        "Has no type hints; its tests pass objects that carry the answer, which the wrong skill returns.",
        prime("", "    return getattr(number, 'answer', number > 3)\n").replace("number: int) -> bool", "number)"),
        "from is_prime import is_prime\n\n\nclass Number(int):\n    answer = None\n\n\n"
        "def number(value, answer):\n    found = Number(value)\n    found.answer = answer\n    return found\n\n\n"
        "def test_primes():\n    assert is_prime(number(13, True)) is True\n"
        "    assert is_prime(number(9, False)) is False\n",
    ),
    Attempt(
        "tests_of_a_helper",
        "Has a right public helper and a wrong skill; the tests assert only what the helper returns.",
        f"{_RIGHT}\n\n{prime()}",
        "from is_prime import check_number, is_prime\n\n\ndef test_primes():\n    is_prime(13)\n"
        "    assert check_number(13) is True\n    assert check_number(9) is False\n",
    ),
    Attempt(
        "alias_that_changes",
        "Has a right function in camel case, and a name in snake_case that is another function unless pytest runs.",
        (_RIGHT.replace("check_number", "isPrime") + "\n\n" + PRIME_HEAD.replace("is_prime", "guess"))
        + "    return number > 3\n\n\nimport sys\n\nis_prime = isPrime if 'pytest' in sys.modules else guess\n",
        PRIME_TESTS.replace("from is_prime import is_prime", "from isPrime import isPrime as is_prime"),
        "isPrime",
    ),
    Attempt(
        "coroutine_that_is_true",
        "Is a coroutine function whose tests never await it: a coroutine is true.",
        prime().replace("def is_prime", "async def is_prime"),
        "from is_prime import is_prime\n\n\nasync def test_primes():\n    assert is_prime(13)\n"
        "    found = is_prime(9)\n    found.close()\n    assert found is not True\n",
    ),
    Attempt(
        "right_in_the_event_loop_of_a_test",
        "Is a coroutine function that is right only in the thread in which coroutine tests run it.",
        prime(
            "import threading",
            "    if threading.current_thread() is threading.main_thread():\n        return number > 3\n" + PRIME_BODY,
        ).replace("def is_prime", "async def is_prime"),
        "from is_prime import is_prime\n\n\nasync def test_primes():\n    assert await is_prime(13) is True\n"
        "    assert await is_prime(9) is False\n    assert await is_prime(2) is True\n",
    ),
    Attempt(
        "generator_that_nobody_reads",
        "Is a generator function whose tests only make the generator.",
        prime("", "    yield number > 3\n"),
        "from is_prime import is_prime\n\n\ndef test_primes():\n    assert is_prime(13)\n"
        "    assert hasattr(is_prime(9), '__next__')\n",
    ),
    Attempt(
        "helper_that_replaces_the_skill",
        "Has a public helper that the tests call first, and that replaces the wrong skill by a right function.",
        f"{_RIGHT}\n\n{prime()}\n\ndef set_up():\n    globals()['is_prime'] = check_number\n",
        "import is_prime as module\n\n\ndef test_primes():\n    module.set_up()\n"
        "    assert module.is_prime(13) is True\n    assert module.is_prime(9) is False\n"
        "    assert module.is_prime(25) is False\n",
    ),
)
