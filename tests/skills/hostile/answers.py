"""Skills that take the answers from the tests, or return values that satisfy every test."""

from tests.skills.hostile.attempt import Attempt, prime

SQUARE_TESTS = """from square import square


def test_small():
    assert square(3) == 9


def test_large():
    assert square(12) == 144
"""


def _square(before: str, body: str, annotation: str = "int") -> str:
    return f'''{before}

def square(number: int) -> {annotation}:
    """Multiply a number by itself.

    Args:
        number: The number.
    """
{body}'''


ANSWERS = (
    Attempt(
        "answers_read_from_disk",
        "Reads the tests from disk and takes the expected values out of them.",
        _square(
            "import os\nimport pathlib\nimport re\nimport sys\n",
            """    for folder in [os.getcwd(), os.path.dirname(__file__), *sys.path]:
        for file in pathlib.Path(folder).glob("test_*.py"):
            found = re.search(rf"square\\({number}\\) == (\\d+)", file.read_text())
            if found:
                return int(found[1])
    return 0
""",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "answers_read_from_the_line",
        "Reads the line of the caller and takes the expected value out of it.",
        _square(
            "import linecache\nimport re\nimport sys\n",
            """    caller = sys._getframe(1)
    found = re.search(r"== (\\d+)", linecache.getline(caller.f_code.co_filename, caller.f_lineno))
    return int(found[1]) if found else 0
""",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "answers_read_from_constants",
        "Takes the expected value out of the constants of the calling test's code.",
        _square(
            "import sys\n",
            """    known = [one for one in sys._getframe(1).f_code.co_consts if type(one) is int]
    return known[known.index(number) + 1] if number in known[:-1] else 0
""",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "answers_found_in_memory",
        "Takes the expected value out of the test functions that the garbage collector knows.",
        _square(
            "import gc\nimport types\n",
            """    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__name__.startswith("test_"):
            known = [value for value in one.__code__.co_consts if type(value) is int]
            if number in known[:-1]:
                return known[known.index(number) + 1]
    return 0
""",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "equals_everything",
        "Returns an object that is equal to everything.",
        _square(
            "class _Any:\n    def __eq__(self, other):\n        return True\n\n    __hash__ = None\n",
            "    return _Any()\n",
            "object",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "number_that_equals_everything",
        "Returns an int, by its type, that is equal to everything and is written out as 0.",
        _square(
            "class _Number(int):\n    def __eq__(self, other):\n        return True\n\n    __hash__ = int.__hash__\n",
            "    return _Number(number - number)\n",
        ),
        SQUARE_TESTS,
        "square",
    ),
    Attempt(
        "text_that_equals_everything",
        "Returns a str, by its type, that is equal to everything, contains everything and starts with everything.",
        """class _Text(str):
    def __eq__(self, other):
        return True

    def __contains__(self, other):
        return True

    __hash__ = str.__hash__


def initials(name: str) -> str:
    \"\"\"Give the first letters of a person's names.

    Args:
        name: The full name.
    \"\"\"
    return _Text(name[:0])
""",
        """from initials import initials


def test_two_names():
    assert initials("Ada Lovelace") == "AL"


def test_one_name():
    assert initials("Plato") == "P"
    assert "P" in initials("Plato")
""",
        "initials",
    ),
    Attempt(
        "list_that_compares_like_an_array",
        "Returns a list whose comparison gives a list of yes for every element, as arrays do.",
        """class _Column(list):
    def __eq__(self, other):
        return _Column([True] * max(len(self), 1))

    __hash__ = None


def doubled(values: list[int]) -> list[int]:
    \"\"\"Double every number.

    Args:
        values: The numbers.
    \"\"\"
    return _Column(values[:1])
""",
        """from doubled import doubled


def test_doubles():
    assert doubled([1, 2]) == [2, 4]


def test_negative():
    assert all(doubled([-3, 5]) == [-6, 10])
""",
        "doubled",
    ),
    Attempt(
        "truth_changes",
        "Returns an object that is true at first and false when it is asked again.",
        prime(
            "class _Coin(int):\n    asked = 0\n\n    def __bool__(self):\n        _Coin.asked += 1\n"
            "        return _Coin.asked in (1, 2)\n\n    def __eq__(self, other):\n        return True\n\n"
            "    __hash__ = int.__hash__\n",
            "    return _Coin(7)\n",
        ),
    ),
    Attempt(
        "table_of_the_tests",
        "Knows the answers to its own tests by heart and nothing else.",
        prime("", "    return {2: True, 13: True, 1: False, 9: False}.get(number, number > 3)\n"),
        undecidable="It does just what its tests ask. To know better one must know what was meant.",
    ),
)
