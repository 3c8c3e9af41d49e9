"""Docstring examples that state nothing, or manipulate the skill and its tests. The code is wrong."""

from tests.skills.hostile.attempt import Attempt

_CODE = '''def is_prime(number: int) -> bool:
    """Tell whether a number is prime.

{examples}

    Args:
        number: The number to look at.
    """
    return number > 3 or number == 2
'''
_WEAK_TESTS = "from is_prime import is_prime\n\n\ndef test_primes():\n    assert is_prime(13) is True\n"

_EXAMPLES = {
    "example_without_a_result": ("Has examples without results.", ">>> is_prime(9)\n\n>>> is_prime(1)"),
    "example_of_nothing": ("Has examples that do not call the skill.", ">>> 9 % 3\n0\n>>> True\nTrue"),
    "example_with_any_result": ("Has an example that any text satisfies.", ">>> is_prime(9)  # doctest: +ELLIPSIS\n..."),
    "example_that_is_skipped": ("Has right examples that are skipped.", ">>> is_prime(9)  # doctest: +SKIP\nFalse"),
    "example_of_a_tautology": ("Has examples that hold for every result.", ">>> is_prime(9) in (True, False)\nTrue"),
    "example_of_a_type": ("Has an example that states only a type.", ">>> type(is_prime(9))\n<class 'bool'>"),
    "example_that_patches": (
        "Has an example that replaces the skill before it calls it.",
        ">>> import is_prime as module\n>>> module.is_prime = {9: False}.get\n>>> is_prime(9)\nFalse",
    ),
    "example_that_shadows": (
        "Has an example that gives the name of the skill to another function.",
        ">>> is_prime = {9: False, 13: True}.get\n>>> is_prime(9)\nFalse",
    ),
    "example_that_exits": ("Has an example that ends the process.", ">>> is_prime(__import__('os')._exit(0))\nFalse"),
    "example_that_breaks_out": (
        "Has an example whose result closes the test and starts another.",
        ">>> is_prime(13)\nTrue)\n\ndef test_more():\n    assert (True",
    ),
    "example_that_contradicts_the_code": ("Has a right example, so that the code is wrong.", ">>> is_prime(9)\nFalse"),
}  # fmt: skip

DOCUMENTED = tuple(
    Attempt(
        title,
        attempts,
        _CODE.format(examples="\n".join(f"    {line}" for line in examples.split("\n"))),
        _WEAK_TESTS,
    )
    for title, (attempts, examples) in _EXAMPLES.items()
)
