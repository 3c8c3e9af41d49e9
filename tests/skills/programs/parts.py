"""Proposals of Node and Bash skills for the tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.proposal import Proposal, SkillRefused
from sandbox.contract import Language
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library

SLUG = """
const LONGEST = 20;

/**
 * Makes a slug of a title.
 *
 * @param {string} title - The title.
 * @param {string} [separator="-"] - Between two words.
 * @returns {string}
 */
export function makeSlug(title, separator = "-") {
  if (title.length === 0) {
    throw new RangeError("the title is empty");
  }
  const words = title.toLowerCase().split(/[^a-z0-9]+/).filter((word) => word.length > 0);
  return words.join(separator).slice(0, LONGEST);
}
"""
SLUG_CASES: list[Mapping[str, Any]] = [
    {"arguments": {"title": "Hello, World"}, "result": "hello-world"},
    {"arguments": {"title": "A  b", "separator": "_"}, "result": "a_b"},
    {"arguments": {"title": ""}, "raises": "RangeError"},
    {"arguments": {"title": "one two three four five six"}, "result": "one-two-three-four-f"},
    {"arguments": {"title": "!x"}, "result": "x"},
]
WORDS = """#!/usr/bin/env bash
# Lists the most frequent words of a text.
#
# @param {string} stdin - The text.
# @param {integer} count - How many words.
set -euo pipefail
if [ "$1" -lt 1 ]; then
  echo "count must be at least 1" >&2
  exit 2
fi
tr -cs '[:alpha:]' '\\n' | tr '[:upper:]' '[:lower:]' | sort | uniq -c | sort -k1,1nr -k2 | head -n "$1" | awk '{print $2}'
"""
WORDS_CASES: list[Mapping[str, Any]] = [
    {"arguments": {"stdin": "the cat the dog a The", "count": 2}, "result": "the\na"},
    {"arguments": {"stdin": "b a b", "count": 1}, "result": "b"},
    {"arguments": {"stdin": "x", "count": 0}, "raises": "ExitStatus2"},
    {"arguments": {"stdin": "c c b b a, d", "count": 3}, "result": "b\nc\na"},
]


def program(
    language: Language, name: str, code: str, cases: Sequence[Mapping[str, Any]] | str, **more: Any
) -> Proposal:
    tests = cases if isinstance(cases, str) else json.dumps(list(cases))
    return Proposal(name, f"Does what {name} says, for a test.", code, tests, language=language, **more)


def node(
    code: str = SLUG, cases: Sequence[Mapping[str, Any]] | str = SLUG_CASES, name: str = "make_slug", **more: Any
) -> Proposal:
    return program(Language.NODE, name, code, cases, **more)


def bash(
    code: str = WORDS, cases: Sequence[Mapping[str, Any]] | str = WORDS_CASES, name: str = "top_words", **more: Any
) -> Proposal:
    return program(Language.BASH, name, code, cases, **more)


async def refusal(box: NamespaceSandbox, home: Path, offered: Proposal) -> SkillRefused:
    async with opened_library(home, box, effort=Effort()) as library:
        with pytest.raises(SkillRefused) as refused:
            await library.create(offered)
        assert await library.find(offered.name) is None
    return refused.value
