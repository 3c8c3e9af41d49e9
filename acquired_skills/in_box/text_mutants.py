"""Makes small changes to the text of a Node or Bash program, without running the program (SKILL-6).

This module runs in a box. Pygments splits the text into tokens. Changes that lead to invalid syntax are left out.
Besides changes that good tests should detect, there are neutral changes, which do not change the meaning of the
program.
"""

import json
import random
import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Token, Whitespace

from acquired_skills.in_box.common_js import own_range

HERE = Path(__file__).resolve().parents[2]  # the job's folder
MOST_TRIED = 4  # maximum number of changes to try, as a multiple of the wanted number of mutants
_Change = tuple[int, int, str]  # where the replaced text begins and ends, and the new text
_Piece = tuple[int, Any, str]  # where a token begins, its type and its text

_BOTH = {
    "&&": ["||"], "||": ["&&"], "==": ["!="], "!=": ["=="], "<": ["<=", ">"], ">": [">=", "<"], "<=": ["<"],
    ">=": [">"], "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["*"], "++": ["--"], "--": ["++"], "+=": ["-="],
    "-=": ["+="],
}  # fmt: skip
_NODE = {**_BOTH, "===": ["!=="], "!==": ["==="], "??": ["&&"], "!": [""], "**": ["*"], "*=": ["/="], "/=": ["*="]}
_NODE_NAMES = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "round": "floor", "trunc": "ceil", "some": "every",
    "every": "some", "push": "unshift", "shift": "pop", "pop": "shift", "startsWith": "endsWith", "slice": "concat",
    "endsWith": "startsWith", "toLowerCase": "toUpperCase", "toUpperCase": "toLowerCase", "indexOf": "lastIndexOf",
    "trim": "trimEnd", "filter": "map", "reverse": "slice", "sort": "slice", "keys": "values", "values": "keys",
    "replaceAll": "replace", "isInteger": "isFinite", "true": "false", "false": "true", "break": "continue",
    "continue": "break",
}  # fmt: skip
_BASH_TESTS = {
    "-eq": "-ne", "-ne": "-eq", "-lt": "-le", "-le": "-lt", "-gt": "-ge", "-ge": "-gt", "-z": "-n", "-n": "-z",
    "-f": "-d", "-e": "! -e", "-d": "-f",
}  # fmt: skip
_OPTION = re.compile(r"-[A-Za-z]{1,8}\Z")
_DIGITS = re.compile(r"\d+")
_PROGRAM = re.compile(r"\A['\"]?s[/|,#]|[{}();=]\s|\n\s*\S+.*[{}();=]")  # what a quoted text contains that is a program
_PARTS = re.compile(r"(?<![\w.])\d+(?![\w.])|&&|\|\||\+\+|--|[=!<>+-]=|(?<![-=<>!+*/%&|])[<>+*/%-](?![-=<>+*/%&|])")


def mutants(language: str, code: str, most: int, seed: int) -> dict[str, Any]:
    """Return mutants and neutral variants of a program.

    Args:
        most: The maximum number of mutants, and of neutral variants. Both are spread evenly over the lines.
        seed: The seed of random choices. The same seed gives the same mutants.

    Returns:
        ``error`` is the program's own syntax error, or "". ``mutants`` and ``neutral`` are lists of changes, each as
        [start, end, text].
    """
    lexer = JavascriptLexer if language == "node" else BashLexer
    pieces = _pieces(code, lexer(ensurenl=False, stripnl=False))
    make = _of_node if language == "node" else _of_bash
    starts = [0, *(match.end() for match in re.finditer("\n", code))]
    order = random.Random(seed)  # noqa: S311 -- a choice, not a secret
    first, last = own_range(code)

    def own(changes: Iterator[_Change]) -> dict[_Change, None]:
        return dict.fromkeys(each for each in changes if first <= each[0] and each[1] <= last)

    chosen = _spread(own(make(pieces)), starts, order)[: MOST_TRIED * most]
    neutral = _spread(own(_neutral(pieces, language)), starts, order)[:most]
    programs = [code, *(code[:start] + text + code[end:] for start, end, text in (*chosen, *neutral))]
    errors = _node_errors(programs) if language == "node" else _bash_errors(programs, HERE / "program.sh")
    valid = [not error for error in errors[1:]]
    return {
        "error": errors[0],
        "mutants": [change for change, good in zip(chosen, valid, strict=False) if good][:most],
        "neutral": [change for change, good in zip(neutral, valid[len(chosen) :], strict=True) if good],
    }


def _pieces(code: str, lexer: Lexer) -> list[_Piece]:
    found = [each for each in lexer.get_tokens_unprocessed(code) if each[2]]
    return found if "".join(text for _, _, text in found) == code else []


def _spread(changes: Iterator[_Change] | Any, starts: Sequence[int], order: random.Random) -> list[_Change]:
    """Return the changes in an order that takes one change from each line in turn."""
    rows: dict[int, list[_Change]] = {}
    for change in changes:
        rows.setdefault(bisect_right(starts, change[0]), []).append(change)
    for row in rows.values():
        order.shuffle(row)
    return [each for turn in zip_longest(*rows.values()) for each in turn if each is not None]


def _of_node(pieces: Sequence[_Piece]) -> Iterator[_Change]:  # noqa: C901 -- one branch per kind
    for number, (at, kind, text) in enumerate(pieces):
        end = at + len(text)
        if kind in Comment or _throws(pieces, number):
            continue
        if kind in Operator or kind in Punctuation:
            yield from ((at, end, other) for other in _NODE.get(text, ()))
        elif kind in Number:
            yield from _numbers(at, text)
        elif kind in String.Regex:
            yield at, end, text[: text.rindex("/") + 1] if not text.endswith("/") else f"{text}i"
        elif kind in String:
            yield from _strings(at, text)
        elif text in _NODE_NAMES and (kind in Name or kind in Keyword):
            yield at, end, _NODE_NAMES[text]
        elif text in ("if", "while") and kind in Keyword:
            opening = next((each[0] + 1 for each in pieces[number + 1 : number + 3] if each[2].startswith("(")), 0)
            if opening:
                yield from (
                    (opening, opening, f"{value} ")
                    for value in (("true ||", "false &&") if text == "if" else ("false &&",))
                )
        elif text == "return" and kind in Keyword:
            yield at, end, "return void"


def _of_bash(pieces: Sequence[_Piece]) -> Iterator[_Change]:  # noqa: C901 -- likewise
    code = "".join(text for _, _, text in pieces)
    for at, kind, text in pieces:
        end = at + len(text)
        if kind in Comment:
            continue
        if text == "|" or (kind in Punctuation and text.strip() == "|"):
            stop = re.compile(r"[|\n;)]|\\\n").search(code, end)
            if stop:  # remove one stage of a pipeline
                yield at, stop.start(), " "
        elif kind in String:
            yield from _strings(at, text)
            yield from _program_in_text(at, text)
        elif kind in Number:
            yield from _numbers(at, text)
        elif kind in Operator and text in _BOTH:
            yield from ((at, end, other) for other in _BOTH[text])
        else:
            for word in re.finditer(r"[^\s]+", text):
                first, last = at + word.start(), at + word.end()
                if word[0] in _BASH_TESTS:
                    yield first, last, _BASH_TESTS[word[0]]
                if _OPTION.match(word[0]):
                    yield first, last, ""
                elif word[0].isdecimal():
                    yield from _numbers(first, word[0])


def _throws(pieces: Sequence[_Piece], number: int) -> bool:
    """Return whether a string is the message of an exception, which tests should not check."""
    before = [text for _, _, text in pieces[max(0, number - 12) : number] if text.strip()]
    return pieces[number][1] in String and "throw" in before and ";" not in before[before.index("throw") :]


def _numbers(at: int, text: str) -> Iterator[_Change]:
    if text.isdecimal():
        yield at, at + len(text), str(int(text) + 1)
        if int(text):
            yield at, at + len(text), str(int(text) - 1)


def _strings(at: int, text: str) -> Iterator[_Change]:
    quoted = len(text) > 1 and text[0] in "'\"`" and text[-1] == text[0]
    inner, first = (text[1:-1], at + 1) if quoted else (text, at)
    if not inner.strip("'\"`"):
        if quoted:
            yield first, first, "?"
        return
    if quoted:
        yield first, first + len(inner), ""
    if number := _DIGITS.search(inner):
        yield first + number.start(), first + number.end(), str(int(number[0]) + 1)


def _program_in_text(at: int, text: str) -> Iterator[_Change]:
    """Yield changes of a program in a quoted text or a here-document, such as one for awk, sed or Python."""
    if not _PROGRAM.search(text):
        return
    for part in _PARTS.finditer(text):
        start, end = at + part.start(), at + part.end()
        if part[0].isdecimal():
            yield from _numbers(start, part[0])
        else:
            yield from ((start, end, other) for other in _BOTH[part[0]])


def _neutral(pieces: Sequence[_Piece], language: str) -> Iterator[_Change]:
    """Yield changes that keep the meaning: more blanks between tokens, and numbers in parentheses."""
    for number, (at, kind, text) in enumerate(pieces[1:-1], 1):
        around = (pieces[number - 1], pieces[number + 1])
        if kind in Whitespace or kind is Token.Text:
            if text == " " and not any(each[1] in String or "\n" in each[2] or "\\" in each[2] for each in around):
                yield at, at + 1, "  "
        elif language == "node" and kind in Number and not any(each[2].strip() == "." for each in around):
            yield at, at + len(text), f"({text})"


_CHECK = r"""
const { SourceTextModule, compileFunction } = require("node:vm");
const COMMON_JS = ["exports", "require", "module", "__filename", "__dirname"];
function error(parse) {
  try { parse(); return ""; } catch (problem) { return String(problem.stack).slice(0, 500); }
}
const asModule = (code) => error(() => new SourceTextModule(code));
const asCommonJs = (code) => error(() => compileFunction(code, COMMON_JS));
const programs = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const parse = asModule(programs[0]) && !asCommonJs(programs[0]) ? asCommonJs : asModule;
const errors = programs.map(parse);
console.log(JSON.stringify(errors));
"""


def _node_errors(programs: Sequence[str]) -> list[str]:
    """Return the syntax error of each program, or "" if there is none. The programs are parsed, but not run.

    They are ES modules, or CommonJS modules if only these allow the syntax of the first program.
    """
    command = ["node", "--no-warnings", "--experimental-vm-modules", "-e", _CHECK]
    done = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def _bash_errors(programs: Sequence[str], path: Path) -> list[str]:
    found = []
    for program in programs:
        path.write_text(program)
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
        found.append((done.stderr.replace(f"{path}: ", "")[:500] or "invalid") if done.returncode else "")
    return found
