"""Results whose methods make them look correct in comparisons. Each of the numbers is wrong."""

from tests.skills.hostile.answers import SQUARE_TESTS
from tests.skills.hostile.attempt import Attempt

_CODE = '''{before}

def square(number: int) -> {annotation}:
    """Multiply a number by itself.

    Args:
        number: The number.
    """
    return {value}
'''

_VALUES = {
    "int_subclass_equal_to_all": (
        "Returns a subclass of int that is equal to everything.",
        "class Odd(int):\n    __hash__ = int.__hash__\n    def __eq__(self, other):\n        return True\n"
        "    def __ne__(self, other):\n        return False\n",
        "Odd(number)",
    ),
    "int_subclass_converted": (
        "Returns a subclass of int that is another number when it is converted.",
        "class Odd(int):\n    def __int__(self):\n        return int.__add__(self, 0) ** 2\n"
        "    def __index__(self):\n        return int.__add__(self, 0) ** 2\n",
        "Odd(number)",
    ),
    "float_subclass_equal_to_all": (
        "Returns a subclass of float that is equal to everything.",
        "class Odd(float):\n    __hash__ = float.__hash__\n    def __eq__(self, other):\n        return True\n"
        "    def __float__(self):\n        return float.__add__(self, 0.0) ** 2\n",
        "Odd(number)",
    ),
    "str_subclass_equal_to_numbers": (
        "Returns a text that is equal to everything.",
        "class Odd(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other):\n        return True\n",
        "Odd('right')",
    ),
    "bool_for_a_number": ("Returns the result as a length of True values, one too few.", "", "sum([True] * (number ** 2 - 1))"),
    "list_that_iterates_otherwise": (
        "Returns a list that is another one each time it is iterated, and equal to everything.",
        "class Odd(list):\n    def __iter__(self):\n        return iter([len(self)] * 9)\n"
        "    def __eq__(self, other):\n        return True\n    def __len__(self):\n        return 9\n",
        "Odd([number])",
    ),
    "dict_with_another_length": (
        "Returns a dictionary with another length, equal to everything.",
        "class Odd(dict):\n    def __len__(self):\n        return 9\n    def __eq__(self, other):\n        return True\n",
        "Odd(value=number)",
    ),
    "tuple_that_contains_all": (
        "Returns a tuple that contains everything and is equal to everything.",
        "class Odd(tuple):\n    __hash__ = tuple.__hash__\n    def __contains__(self, item):\n        return True\n"
        "    def __eq__(self, other):\n        return True\n",
        "Odd((number,))",
    ),
    "lazy_value": (
        "Returns an object that decides what it is when it is compared.",
        "class Odd:\n    def __init__(self, number):\n        self.number = number\n"
        "    def __eq__(self, other):\n        self.number = other\n        return True\n"
        "    def __hash__(self):\n        return hash(self.number)\n",
        "Odd(number)",
    ),
    "generator_result": ("Returns a generator, which is empty the second time.", "", "(number ** 2 for _ in range(1))"),
    "data_class_equal_to_all": (
        "Returns a data class that is equal to everything.",
        "import dataclasses\n\n\n@dataclasses.dataclass\nclass Odd:\n    number: int\n"
        "    def __eq__(self, other):\n        return True\n",
        "Odd(number)",
    ),
    "named_tuple_equal_to_all": (
        "Returns a named tuple that is equal to everything.",
        "from typing import NamedTuple\n\n\nclass Odd(NamedTuple):\n    number: int\n"
        "    def __eq__(self, other):\n        return True\n",
        "Odd(number)",
    ),
    "set_that_grows": (
        "Returns a set that grows with every call.",
        "_SEEN = set()\n\n\ndef _seen(number):\n    _SEEN.add(number)\n    return _SEEN\n",
        "_seen(number)",
    ),
    "endless_number": ("Returns a number with a million digits.", "", "1 << 4_000_000"),
    "nested_without_end": ("Returns a list that contains itself.", "_LIST = []\n_LIST.append(_LIST)\n", "_LIST"),
}  # fmt: skip

ODD_VALUES = tuple(
    Attempt(title, attempts, _CODE.format(before=before, annotation="object", value=value), SQUARE_TESTS, "square")
    for title, (attempts, before, value) in _VALUES.items()
)
