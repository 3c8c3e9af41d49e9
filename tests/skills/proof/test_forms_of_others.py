"""Correct code and tests in forms that are common in published packages are admitted."""

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-1")]
QUICK = Effort(stub_test_s=0.5, test_s=1.0, total_s=20.0, enough=0.5, calls=0, every_gap=False)


async def admitted(box: NamespaceSandbox, name: str, code: str, tests: str) -> Admission:
    offered = Proposal(name, "Does what its tests say, as code of others does.", code, tests)
    return await admit(ParsedProposal.parse(offered), box, seed=1, effort=QUICK)


@pytest.mark.spec("SKILL-3")
async def test_hints_may_use_names_imported_only_for_type_checkers(box: NamespaceSandbox) -> None:
    code = '''from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from elsewhere import Unknown


def joined(items: Iterable[str], last: Unknown = "and") -> str:
    """Join words with commas, and the last two with a word.

    Args:
        items: the words.
        last: the word before the last one.
    """
    *words, end = items
    return f"{', '.join(words)} {last} {end}" if words else end
'''
    tests = """import pytest
from joined import joined


@pytest.mark.parametrize("items, text", [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_joined(items, text):
    assert joined(items) == text


def test_another_word():
    assert joined(["a", "b"], last="or") == "a or b"
"""
    found = await admitted(box, "joined", code, tests)
    assert found.parameters["properties"]["items"]["items"] == {"type": "string"}


@pytest.mark.spec("SKILL-6")
async def test_a_skill_with_a_match_statement_is_admitted(box: NamespaceSandbox) -> None:
    code = '''def area(shape: str, size: int) -> int:
    """Compute an area.

    Args:
        shape: "square", "double" or "triple".
        size: its length.
    """
    match shape:
        case "square":
            return size * size
        case "double":
            return 2 * size
        case "triple" | "threefold":
            return 3 * size
        case _:
            raise ValueError(shape)
'''
    tests = """import pytest
from area import area


def test_area():
    assert [area(shape, 5) for shape in ("square", "double", "triple", "threefold")] == [25, 10, 15, 15]


def test_another():
    with pytest.raises(ValueError):
        area("circle", 1)
"""
    assert (await admitted(box, "area", code, tests)).tests == 2


@pytest.mark.spec("SKILL-7")
async def test_tests_may_expect_an_exception_with_several_bases_and_its_own_constructor(box: NamespaceSandbox) -> None:
    code = '''class PathError(KeyError, IndexError):
    """A part of a path is missing."""

    def __init__(self, part, path):
        self.part, self.path = part, path

    def __str__(self):
        return f"{self.part!r} of {self.path!r} is missing"


def look_up(tree: dict, path: list) -> object:
    """Return what is at a path of a nested dict.

    Args:
        tree: the dict.
        path: the keys.
    """
    for part in path:
        if part not in tree:
            raise PathError(part, path)
        tree = tree[part]
    return tree
'''
    tests = """import pytest
from look_up import PathError, look_up


def test_found():
    assert look_up({"a": {"b": 1}}, ["a", "b"]) == 1
    assert look_up({"a": 2}, []) == {"a": 2}


def test_missing():
    with pytest.raises(PathError, match="'c' of .* is missing"):
        look_up({"a": {"b": 1}}, ["a", "c"])
"""
    found = await admitted(box, "look_up", code, tests)
    assert found.report["not_replayed"] == []


@pytest.mark.spec("SKILL-7")
async def test_a_class_that_cannot_be_rewritten_affects_only_the_tests_that_use_it(box: NamespaceSandbox) -> None:
    code = '''class Span:
    def __init__(self, months=0):
        self.months = months

    def __getattr__(self, name):
        raise AttributeError(name)

    def __eq__(self, other):
        return isinstance(other, Span) and self.months == other.months


def span(text: str) -> "int | Span":
    """Return days as a number, and months as a span.

    Args:
        text: such as 3d or 2m.
    """
    number = int(text[:-1])
    return Span(number) if text[-1] == "m" else number
'''
    tests = """import pytest
from span import Span, span

CASES = [("3d", 3), ("12d", 12), ("2m", Span(months=2)), ("0d", 0)]


@pytest.mark.parametrize("text, expected", CASES)
def test_span(text, expected):
    assert span(text) == expected
"""
    found = await admitted(box, "span", code, tests)
    assert found.tests == 4
    assert len(found.report["not_replayed"]) == 1


TAKEN = """def chunks(size, items):
    \"\"\"Split items into lists.

    Args:
        size: the length of each.
        items: the items, or a function that gives them.
    \"\"\"
    items = list(items() if callable(items) else items)
    return [items[start : start + size] for start in range(0, len(items), size)]
"""


@pytest.mark.spec("SKILL-5")
async def test_an_instance_of_a_class_of_the_tests_may_be_returned(box: NamespaceSandbox) -> None:
    tests = """from chunks import chunks


def test_chunks():
    assert chunks(2, [1, 2, 3]) == [[1, 2], [3]]
    assert chunks(3, "abcdefg") == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


def test_any_object():
    class Odd:
        pass

    odd = Odd()
    assert chunks(1, [odd, odd]) == [[odd], [odd]]
"""
    found = await admitted(box, "chunks", TAKEN, tests)
    assert found.report["not_replayed"] == ["test_any_object"]


@pytest.mark.spec("GATE-2")
async def test_a_refusal_names_the_tests_that_do_not_count_and_the_reason(box: NamespaceSandbox) -> None:
    tests = """from chunks import chunks


def test_chunks():
    assert chunks(2, [1, 2, 3]) == [[1, 2], [3]]
    assert chunks(2, lambda: [1, 2]) == [[1, 2]]


def test_one():
    assert chunks(1, [7]) == [[7]]
"""
    with pytest.raises(SkillRefused, match=r"test_chunks does not count, because .* arguments that are not plain data"):
        await admitted(box, "chunks", TAKEN, tests)


REFUSED = {
    "relative": (
        'from ._types import Kind\n\n\ndef one() -> int:\n    """Give one."""\n    return 1\n',
        "not part of a package, so relative imports fail. Put what it imports into the same file",
    ),
    "module": (
        'import humanlike\n\n\ndef one() -> int:\n    """Give one."""\n    return 1\n',
        r'`humanlike` is part of your own code(.|\n)*dependencies = \["humanlike"\]',
    ),
    "bytes": (
        'def one() -> bytes:\n    """Give one."""\n    return b"\\xff"\n',
        "not UTF-8 text: return `base64.b64encode",
    ),
}


@pytest.mark.spec("SKILL-12")
@pytest.mark.parametrize(("code", "advice"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_says_what_to_do_with_code_of_a_package(box: NamespaceSandbox, code: str, advice: str) -> None:
    tests = "from one import one\n\n\ndef test_one():\n    assert one() in (1, b'\\xff')\n"
    with pytest.raises(SkillRefused, match=advice):
        await admitted(box, "one", code, tests)
