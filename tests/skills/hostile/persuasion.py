"""Predictions and references that agree with wrong code because they say little, or because they are the code."""

import base64

from acquired_skills.model.prediction import Prediction
from tests.skills.hostile.attempt import PRIME_HEAD, Attempt, prime

_NUMBERS = (*range(-15, 31), 90, 91, 92, 93, 100, 101, 180)
_WEAK = """from is_prime import is_prime


def test_primes():
    assert is_prime(13) is True


def test_others():
    assert is_prime(1) is False
"""
_WRONG_BODY = "    return number > 3 or number == 2\n"
_WORK = "def _work(number):\n    return number > 3 or number == 2\n"
_PACKED = base64.b85encode(_WORK.encode()).decode()
_REFERENCES = {
    "executes_a_text": ("Executes the code from a text.", f"exec({_WORK!r})\n\n\ndef is_prime(number):\n    return _work(number)\n"),
    "executes_packed_text": (
        "Unpacks the code and executes it, under another name for exec.",
        f"import base64\nimport builtins\n\nrun = getattr(builtins, 'ex' + 'ec')\nrun(base64.b85decode({_PACKED!r}))\n\n\n"
        "def is_prime(number):\n    return _work(number)\n",
    ),
    "evaluates_an_expression": (
        "Evaluates the expression of the code.",
        "def is_prime(number):\n    return eval('2 == rebmun ro 3 > rebmun'[::-1])\n",
    ),
    "imports_the_skill": (
        "Imports the skill, to call it.",
        "from is_prime import is_prime as original\n\n\ndef is_prime(number):\n    return original(number)\n",
    ),
    "loads_its_file": (
        "Loads the file of the skill under another name, to call it.",
        "import importlib.util\nimport pathlib\n\n_SPEC = importlib.util.spec_from_file_location("
        "'other', pathlib.Path(__file__).parent / 'is_prime.py')\n_MODULE = importlib.util.module_from_spec(_SPEC)\n"
        "_SPEC.loader.exec_module(_MODULE)\n\n\ndef is_prime(number):\n    return _MODULE.is_prime(number)\n",
    ),
    "calls_itself": ("Calls the skill by its own name.", "def is_prime(number):\n    return is_prime(number)\n"),
    "answers_the_tests": (
        "Answers the calls of the tests and refuses all others.",
        "def is_prime(number):\n    return {13: True, 1: False}[number]\n",
    ),
    "equal_to_all": (
        "Returns a number that is equal to everything.",
        "class Any(int):\n    def __eq__(self, other):\n        return True\n\n    __hash__ = int.__hash__\n\n\n"
        "def is_prime(number):\n    return Any(number in (13,))\n",
    ),
}  # fmt: skip
_PRIORITY = '''def sorted_words(words: list[str]) -> list[str]:
    """Sort words by length, and those of one length by the alphabet.

    Args:
        words: The words.
    """
    return {body}
'''
_PRIORITY_TESTS = """from sorted_words import sorted_words


def test_sorted():
    assert sorted_words(["a"]) == ["a"]
    assert sorted_words([]) == []
    assert sorted_words(["b", "a"]) == ["a", "b"]
"""
_LISTS = (
    [], ["a"], ["b"], ["a", "a"], ["b", "b"], ["a", "b", "b"], ["b", "a", "b"], ["b", "a", "a"], ["a", "b"], ["b", "a", ""],
    ["", "a"], ["", "b"], ["b", ""], ["a", ""], ["a", "a", "a"], ["aa", "a"], ["aa"], ["B", "a"], ["bb", "a"], ["b", "aa"],
    ["a"] * 12, ["b", "a"] * 6, ["b", "a", "b", "a"],
)  # fmt: skip
_UPPER = '''def shouted(text: str) -> str:
    """Turn a text into upper case.

    Args:
        text: The text.
    """
    return text[:1].upper() + text[1:]
'''
_TEXTS = (
    "", "a", "aa", "o", "no", "NO", "on", "n", "nn", "no no", " no ", "nono", "1", "A", "a a", " a ", "N", "noo", "O", "ano", "non"
)  # fmt: skip
_COSTS = '''def cost(grams: int, express: bool = False) -> int:
    """Tell what it costs to send a parcel: 5, and 10 more above 1000 grams, and twice as much if it is express.

    Args:
        grams: The weight.
        express: Whether it is in a hurry.
    """
    return (5 if grams < 1000 else 15) * (2 if express else 1)
'''

PERSUASION = (
    *(
        Attempt(f"reference_{title}", attempts, prime("", _WRONG_BODY), _WEAK, reference=reference)
        for title, (attempts, reference) in _REFERENCES.items()
    ),
    Attempt(
        "reference_shares_a_module",
        "Code and reference call the same extra module, which does the work.",
        f"from work import work\n\n\n{PRIME_HEAD}    return work(number)\n",
        _WEAK,
        files={"work.py": _WORK.replace("_work", "work")},
        reference="import work\n\n\ndef is_prime(number):\n    found = work.work(number)\n    return bool(found)\n",
    ),
    Attempt(
        "predicted_length",
        "Predicts nothing but the length of each text, which any change of case keeps.",
        _UPPER,
        "from shouted import shouted\n\n\ndef test_shouted():\n    assert shouted('no') != 'no'\n"
        "    assert shouted('a') == 'A'\n    assert shouted('') == ''\n",
        "shouted",
        expected=tuple(Prediction({"text": text}, {"length": len(text)}) for text in _TEXTS),
        call={"text": "ab"},
        right="AB",
    ),
    Attempt(
        "predicted_permutation",
        "Predicts that sorting keeps the items, which any order does.",
        _PRIORITY.format(body="sorted(words, key=str.lower) if len(words) > 2 else sorted(words)"),
        _PRIORITY_TESTS,
        "sorted_words",
        expected=tuple(Prediction({"words": words}, {"permutation_of": words}) for words in _LISTS),
        call={"words": ["aa", "b"]},
        right=["b", "aa"],
    ),
    Attempt(
        "predicted_items",
        "Predicts that the first item is in the result, which holds in any order.",
        _PRIORITY.format(body="sorted(words, key=str.lower) if len(words) > 2 else sorted(words)"),
        _PRIORITY_TESTS,
        "sorted_words",
        expected=tuple(
            Prediction({"words": words}, {"contains": words[0], "length": len(words)}) for words in _LISTS if words
        ),
        call={"words": ["aa", "b"]},
        right=["b", "aa"],
    ),
    Attempt(
        "refuses_everything_else",
        "Raises for all but the tested calls, and predicts just that.",
        prime("", "    return {13: True, 1: False, 7: True}[number]\n"),
        _WEAK.replace("(1) is False", "(1) is False\n    assert is_prime(7) is True"),
        expected=tuple(Prediction({"number": number}, {"raises": "KeyError"}) for number in _NUMBERS if number not in (1, 7, 13)),
        marked="The code raised an exception in all",
    ),
    Attempt(
        "restated_with_the_default",
        "Restates its tests, with the default argument written out.",
        _COSTS,
        "from cost import cost\n\n\ndef test_cost():\n    assert cost(500) == 5\n    assert cost(2000) == 15\n"
        "    assert cost(700) == 5\n",
        "cost",
        expected=tuple(
            Prediction({"grams": grams, "express": False}, {"result": total})
            for grams, total in ((500, 5), (2000, 15), (700, 5))
        ),
        call={"grams": 1000},
        right=5,
    ),
    Attempt(
        "restated_as_other_numbers",
        "Restates its tests, with floats and truth values equal to the tested numbers.",
        _COSTS,
        "from cost import cost\n\n\ndef test_cost():\n    assert cost(1) == 5\n    assert cost(2000) == 15\n"
        "    assert cost(0) == 5\n",
        "cost",
        expected=tuple(
            Prediction({"grams": grams}, {"result": total})
            for grams, total in ((True, 5), (1.0, 5), (False, 5), (0.0, 5), (-0.0, 5), (2000.0, 15), (2e3, 15))
        ),
        call={"grams": 1000},
        right=5,
    ),
    Attempt(
        "wide_bounds",
        "Predicts that each cost is between 0 and 1000.",
        _COSTS,
        "from cost import cost\n\n\ndef test_cost():\n    assert cost(500) == 5\n    assert cost(2000) == 15\n"
        "    assert cost(700, express=True) == 10\n",
        "cost",
        expected=tuple(
            Prediction({"grams": grams, "express": express}, {"between": [0, 1000]})
            for grams in (-2000, -1, 0, 1, 2, 10, 100, 499, 501, 699, 701, 999, 1000, 1001, 1400, 4000)
            for express in (True, False)
        ),
        call={"grams": 1000},
        right=5,
    ),
    Attempt(
        "one_of_many",
        "Predicts that each cost is one of those that there are.",
        _COSTS,
        "from cost import cost\n\n\ndef test_cost():\n    assert cost(500) == 5\n    assert cost(2000) == 15\n"
        "    assert cost(700, express=True) == 10\n",
        "cost",
        expected=tuple(
            Prediction({"grams": grams, "express": express}, {"one_of": [5, 10, 15, 30]})
            for grams in (-2000, -1, 0, 1, 2, 10, 100, 499, 501, 699, 701, 999, 1000, 1001, 1400, 4000)
            for express in (True, False)
        ),
        call={"grams": 1000},
        right=5,
    ),
)  # fmt: skip
