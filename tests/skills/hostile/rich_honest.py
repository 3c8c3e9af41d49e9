"""Honest skills whose arguments and results have types that JSON lacks, which must be admitted."""

from tests.skills.hostile.attempt import Attempt

RICH_HONEST = (
    Attempt(
        "linked_list",
        "Takes a linked list without type hints, as exercises have them, and reverses it in place.",
        '''class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next


def reverse_list(head: ListNode | None) -> ListNode | None:
    """Reverse a linked list.

    Args:
        head: The first node.
    """
    before = None
    while head is not None:
        head.next, before, head = before, head, head.next
    return before
''',
        """from reverse_list import ListNode, reverse_list


def values(node):
    found = []
    while node is not None:
        found.append(node.val)
        node = node.next
    return found


def test_three():
    first = ListNode(1, ListNode(2, ListNode(3)))
    last = first.next.next
    assert reverse_list(first) is last
    assert values(last) == [3, 2, 1]
    assert first.next is None


def test_long():
    head = None
    for value in range(40):
        head = ListNode(value, head)
    assert values(reverse_list(head)) == list(range(40))


def test_short():
    assert reverse_list(None) is None
    assert values(reverse_list(ListNode(7))) == [7]
""",
        "reverse_list",
    ),
    Attempt(
        "tree_with_parents",
        "Takes two nodes of a tree whose nodes know their parents and children.",
        '''from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A node of a tree."""

    name: str
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)


def common_ancestor(one: Node, other: Node) -> str | None:
    """Give the name of the lowest node that is above both nodes, or is one of them.

    Args:
        one: A node.
        other: Another node.
    """
    above = set()
    node: Node | None = one
    while node is not None:
        above.add(id(node))
        node = node.parent
    node = other
    while node is not None and id(node) not in above:
        node = node.parent
    return node and node.name
''',
        """from common_ancestor import Node, common_ancestor


def tree():
    root = Node("root")
    for name in "ab":
        child = Node(name, root)
        root.children.append(child)
        for number in "12":
            child.children.append(Node(name + number, child))
    return root


def test_siblings():
    root = tree()
    left = root.children[0]
    assert common_ancestor(left.children[0], left.children[1]) == "a"
    assert common_ancestor(left, left.children[1]) == "a"


def test_far():
    root = tree()
    assert common_ancestor(root.children[0].children[1], root.children[1].children[0]) == "root"
    assert common_ancestor(root, root) == "root"


def test_strangers():
    assert common_ancestor(tree(), tree()) is None
""",
        "common_ancestor",
    ),
    Attempt(
        "plain_class_with_equality",
        "Has a class with hints, an __eq__, a __hash__, a __repr__ and methods, and takes a list of instances.",
        '''class Money:
    """An amount in a currency."""

    __slots__ = ("amount", "currency")

    def __init__(self, amount: int, currency: str = "EUR") -> None:
        if amount < 0:
            raise ValueError("an amount is 0 or more")
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and (self.amount, self.currency) == (other.amount, other.currency)

    def __hash__(self) -> int:
        return hash((self.amount, self.currency))

    def __repr__(self) -> str:
        return f"Money({self.amount}, {self.currency!r})"

    def plus(self, other: "Money") -> "Money":
        return Money(self.amount + other.amount, self.currency)


def totals(amounts: list[Money]) -> list[Money]:
    """Add amounts up by currency, in alphabetical order.

    Args:
        amounts: The amounts.
    """
    found: dict[str, Money] = {}
    for each in amounts:
        known = found.get(each.currency)
        found[each.currency] = each if known is None else known.plus(each)
    return [found[currency] for currency in sorted(found)]
''',
        """import pytest
from totals import Money, totals


def test_one_currency():
    assert totals([Money(1), Money(2), Money(4)]) == [Money(7)]


def test_two():
    assert totals([Money(5, "USD"), Money(1), Money(3, "USD")]) == [Money(1), Money(8, "USD")]


def test_none():
    assert totals([]) == []


def test_negative():
    with pytest.raises(ValueError):
        totals([Money(-1)])
    assert totals([Money(0), Money(0)]) == [Money(0)]


def test_method():
    assert totals([Money(1)])[0].plus(Money(2)) == Money(3)
""",
        "totals",
    ),
    Attempt(
        "collections",
        "Gives a Counter, a deque, an OrderedDict, a defaultdict and a named tuple.",
        '''from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

Words = namedtuple("Words", "count last order by_letter")


def words_of(text: str, keep: int = 2) -> Words:
    """Count the words of a text, and give the last ones, all in their order, and by their first letter.

    Args:
        text: The text.
        keep: How many of the last ones to give.
    """
    words = text.split()
    letters = defaultdict(set)
    for word in words:
        letters[word[0]].add(word)
    order = OrderedDict((word, place) for place, word in enumerate(words))
    return Words(Counter(words), deque(words, maxlen=keep), order, letters)
''',
        """from collections import Counter, deque

from words_of import Words, words_of


def test_words():
    found = words_of("a bee a cat")
    assert found.count.most_common(1) == [("a", 2)]
    assert found.last == deque(["a", "cat"]) and found.last.maxlen == 2
    assert list(found.order.items()) == [("a", 2), ("bee", 1), ("cat", 3)]
    assert found.by_letter["b"] == {"bee"}
    assert found.by_letter["z"] == set()


def test_keep():
    assert words_of("x y z", 1).last == deque(["z"])
    assert words_of("x y z", 3).last == deque(["x", "y", "z"])


def test_none():
    assert words_of("") == Words(Counter(), deque(), {}, {})
""",
        "words_of",
    ),
    Attempt(
        "numbers_of_the_library",
        "Takes and gives decimals, fractions, complex numbers, dates, tuples, sets and bytes.",
        '''import datetime
from decimal import Decimal
from fractions import Fraction


def shares(total: Decimal, parts: tuple[int, ...], day: datetime.date) -> dict[tuple[int, int], object]:
    """Divide a total by parts, and give each share with the day on which it is due.

    Args:
        total: The total.
        parts: The parts.
        day: The first day.
    """
    whole = sum(parts)
    found: dict[tuple[int, int], object] = {}
    for number, part in enumerate(parts):
        due = day + datetime.timedelta(days=30 * number)
        found[number, part] = (Fraction(part, whole), total * part / whole, due, {part}, complex(part, -part), b"%d" % part)
    return found
''',
        """import datetime
from decimal import Decimal
from fractions import Fraction

from shares import shares

DAY = datetime.date(2024, 2, 1)


def test_halves():
    found = shares(Decimal("10.0"), (1, 1), DAY)
    assert found[0, 1] == (Fraction(1, 2), Decimal("5.0"), DAY, {1}, 1 - 1j, b"1")
    assert found[1, 1][2] == datetime.date(2024, 3, 2)


def test_thirds():
    found = shares(Decimal(9), (1, 2), DAY)
    assert found[1, 2][:2] == (Fraction(2, 3), Decimal(6))
    assert found[1, 2][3:] == ({2}, 2 - 2j, b"2")
    assert shares(Decimal(1), (), DAY) == {}
""",
        "shares",
    ),
    Attempt(
        "arrays_and_tables",
        "Takes an array and a table, and gives a table, an array and a scalar of numpy.",
        '''import numpy as np
import pandas as pd


def weighted(table: pd.DataFrame, weights: np.ndarray) -> dict[str, object]:
    """Weigh the rows of a table.

    Args:
        table: The table, with the columns `name` and `value`.
        weights: A weight for each row.
    """
    values = table["value"].to_numpy() * weights
    result = table.assign(value=values).groupby("name", as_index=False)["value"].sum()
    return {"table": result, "values": values, "highest": values.max()}
''',
        """import numpy as np
import pandas as pd
import pytest
from weighted import weighted

TABLE = pd.DataFrame({"name": ["a", "b", "a"], "value": [1, 2, 3]})


def test_sums():
    found = weighted(TABLE, np.array([1, 2, 3]))
    pd.testing.assert_frame_equal(found["table"], pd.DataFrame({"name": ["a", "b"], "value": [10, 4]}))
    np.testing.assert_array_equal(found["values"], [1, 4, 9])
    assert found["highest"] == 9


def test_missing():
    found = weighted(TABLE, np.array([0.5, np.nan, 1]))
    np.testing.assert_array_equal(found["values"], [0.5, np.nan, 3])
    assert np.isnan(found["highest"])


def test_wrong_length():
    with pytest.raises(ValueError):
        weighted(TABLE, np.array([1, 2]))
""",
        "weighted",
    ),
)
