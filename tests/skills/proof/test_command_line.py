"""Command-line programs that are proposed as skills."""

import pytest

from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.static_checks import check
from tests.skills.parts import STATIC

pytestmark = pytest.mark.spec("SKILL-2")

PROGRAM = """
import argparse
import sys


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", "-v", action="store_true")
    parser.add_argument("path")
    parser.add_argument("words", nargs="*", type=int)
    parser.add_argument("-n", "--max-lines", type=int, default=10)
    parser.add_argument("--out")
    parser.add_argument("--key", required=True)
    parser.add_argument("--version", action="version", version="1")
    options = parser.parse_args(argv)
    print(len(open(options.path).read().split()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""
TESTS = "from word_count import word_count\n\n\ndef test_it():\n    assert word_count('x') == 1\n"


def said(code: str) -> str:
    with pytest.raises(SkillRefused) as refused:
        check(Proposal("word_count", "Counts the words of a file.", code, TESTS), STATIC)
    (problem,) = refused.value.problems
    assert problem.part == "code"
    return problem.text


def test_a_program_is_refused_with_the_signature_of_the_function_that_it_needs() -> None:
    signature = (
        "`def word_count(path: str, words: list[int], key: str, verbose: bool = False, max_lines: int = 10, "
        "out: str | None = None):`"
    )
    text = said(PROGRAM)
    assert signature in text
    assert 'Call the function under `if __name__ == "__main__":`. Let the tests call `word_count(...)`' in text


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        ("import sys\nprint(len(sys.argv[1]))\n", "arguments: list[str]"),
        ("import click\n\n@click.command()\ndef main(path):\n    print(path)\n", "arguments: list[str]"),
        ('import argparse\np = argparse.ArgumentParser()\np.add_argument("class")\n', "arguments: list[str]"),
        (
            'import argparse\np = argparse.ArgumentParser()\np.add_argument("-x", default=compute())\n',
            "x: str | None = None",
        ),
    ],
)
def test_programs_with_incomplete_argument_declarations_are_recognised(code: str, parameters: str) -> None:
    text = said(code)
    assert f"`def word_count({parameters}):`" in text
    assert "No other code may run when the file is imported." in text


def test_other_code_without_the_function_is_refused_without_this_advice() -> None:
    assert said("def other():\n    pass\n").startswith("There is no top-level function `word_count` (found: `other`)")
    assert "but a class of that name" in said("import sys\nclass word_count:\n    x = sys.argv\n")


def test_a_program_that_has_the_function_is_accepted() -> None:
    code = f'def word_count(path: str) -> int:\n    """Count words."""\n    return 1\n{PROGRAM}'
    assert check(Proposal("word_count", "Counts the words of a file.", code, TESTS), STATIC)
