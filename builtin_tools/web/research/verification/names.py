"""Finds names in a claim, and decides whether a passage contains them.

Names are words with a capital inside a sentence, acronyms, identifiers such as ``os.path`` and ``--force``, and
versions. Whether the first word of a sentence is a name cannot be seen from its capital, so its surroundings decide.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from builtin_tools.web.research.verification.dates import dates_of, without
from builtin_tools.web.research.verification.measures import measure_of
from builtin_tools.web.research.verification.number_words import number_words
from builtin_tools.web.research.verification.word_list import words

_TOKEN = re.compile(r"--?[A-Za-z][\w-]*|[^\W_][\w.'\u2019/+#&-]*[\w+#]|[^\W_]")
_VERSION = re.compile(r"v?\d+(?:\.\d+){2,}\w*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|[\"\u201c(]\s*)$")
_VERB = re.compile(
    r"(?:is|was|are|were|has|had|have|will|can|does|did|became|began|opened|won|led|made|wrote|built|found(?:ed)?|sold|took|"
    r"runs?|ran|holds?|held|uses?|\w+ed|\w{3,}[^su]s)\b"
)
_NOT_NAMES = words(
    "a an the this that these those it its he she they we you i his her their our your my who what which where when "
    "why how if in on at by for from to of with without as and or but nor so yet not no none nobody nothing never "
    "each every all both some any most many much few several other another such one two three four five six seven "
    "eight nine ten there here then than while although though because since until unless after before during under "
    "over between among about around nearly almost only even also still just more less fewer at according despite "
    "today yesterday tomorrow anyone everyone someone people nowadays rather instead however therefore thus within "
    "across through per once again unlike like given neither either whether whoever whatever its half is are was "
    "were do does did has have had can could may might must shall should will would"
)
# A word after one of these is a name, even without a capital: "the module zlib".
_NAMED_THINGS = re.compile(
    r"\b(?:module|function|option|command|package|class|method|program|library|variable|field|argument|parameter|error|"
    r"exception|attribute|service|daemon|utility|setting|keyword)\s+(?P<name>[a-z]\w{2,})"
)
_NO_SUCH_NAME = re.compile(
    r"(?:\w+(?:s|ed|ing|ly)|may|can|must|will|did|has|had|for|and|that|which|with|from|was|one|called|itself)$"
)
_COMMON_NOUNS = words(
    "data water people information money children women men software traffic music food oil energy light air paper "
    "time work research evidence support access power health weather snow rain ice code text memory space news "
    "everything something anything everybody somebody police staff crime trade school fire heat sleep sugar salt milk "
    "bread wood"
)
_ENDINGS = ("'s", "\u2019s", "s'", "s\u2019", "'", "\u2019")
_COMMON_END = re.compile(r"(?:s|ing|ly|tion|ment|ness|ity|ance|ence|ers?|age|ism|ware|ship)$")
# Adjectives of places that do not begin like the name of the place.
_ADJECTIVES = {
    "french": "france", "dutch": "netherlands", "spanish": "spain", "swiss": "switzerland", "welsh": "wales",
    "greek": "greece", "polish": "poland", "british": "britain", "danish": "denmark", "finnish": "finland",
    "turkish": "turkey", "swedish": "sweden", "scottish": "scotland", "irish": "ireland", "english": "england",
    "german": "germany", "belgian": "belgium", "norwegian": "norway", "peruvian": "peru",
}  # fmt: skip
_LEAST_COMMON = 4  # first letters that "Italy" and "Italian" have in common


@dataclass(frozen=True, slots=True)
class NameWord:
    """One word of a name in a claim.

    Attributes:
        text: The word as it is written, without a possessive ending.
        group: The number of the name that the word belongs to. Adjacent capitalized words are one name.
    """

    text: str
    group: int


def names_of(claim: str) -> list[NameWord]:
    """Return the words of the names in a claim."""
    claim = without(claim, dates_of(claim))
    found: list[NameWord] = []
    group, last_end = 0, -10
    for match in _TOKEN.finditer(claim):
        word = _bare(match.group())
        if not word or not _is_name(word, claim, match):
            continue
        if not re.fullmatch(r"[\s-]*", claim[last_end : match.start()]) or last_end < 0:
            group += 1
        last_end = match.end()
        found.append(NameWord(word, group))
    for match in _NAMED_THINGS.finditer(claim):
        if not _NO_SUCH_NAME.match(match["name"]):
            group += 1
            found.append(NameWord(match["name"], group))
    return found


def missing_names(claim: str, passage: str, context: str = "") -> list[str]:
    """Return the names of a claim that neither a passage nor its context contains, in order.

    Args:
        claim: The claim.
        passage: The quoted sentences.
        context: Other text that says what the passage is about, such as the title of the page.
    """
    words = _NameText.of(f"{passage}\n{context}")
    missing = [each for each in names_of(claim) if not words.contain(each.text)]
    return list(dict.fromkeys(each.text for each in missing))


@dataclass(frozen=True, slots=True)
class _NameText:
    """The words of a text, folded, with the acronyms that their initials form."""

    words: frozenset[str]
    acronyms: frozenset[str]
    text: str

    @classmethod
    def of(cls, text: str) -> "_NameText":
        tokens = [_bare(match.group()) for match in _TOKEN.finditer(text)]
        parts = [part for token in tokens for part in (token, *re.split(r"[-/.'\u2019]", token)) if part]
        return cls(frozenset(map(_folded, parts)), frozenset(_acronyms(tokens)), _folded(text))

    def contain(self, name: str) -> bool:
        folded = _folded(name)
        if folded in self.words or self._is_form(folded):
            return True
        letters = folded.replace(".", "")
        if name.isupper() and letters in self.acronyms:
            return True
        parts = [part for part in re.split(r"[-/]", folded) if part]
        if len(parts) > 1 and all(part in self.words or self._is_form(part) for part in parts):
            return True
        # An identifier may be a part of a longer expression, such as `os.path` in `os.path.join(a)`.
        return (
            any(each in name for each in "._-/")
            and re.search(rf"(?<!\w){re.escape(folded)}(?!\w)", self.text) is not None
        )

    def _is_form(self, folded: str) -> bool:
        """Return whether the text has another form of a word: a plural, or the adjective of a place."""
        if folded.isdigit() or len(folded) < _LEAST_COMMON:
            return folded.removesuffix("s") in self.words or folded + "s" in self.words
        place = _ADJECTIVES.get(folded, folded)
        return any(
            _forms(place, _ADJECTIVES.get(each, each))
            for each in self.words
            if each[:1] == folded[0] or each in _ADJECTIVES
        )


def _forms(one: str, other: str) -> bool:
    if one == other:
        return True
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    longest = max(len(one), len(other))
    ends = (one[common:], other[common:])
    known = {
        "",
        "s",
        "es",
        "n",
        "an",
        "ian",
        "y",
        "a",
        "ese",
        "ish",
        "i",
        "ns",
        "ans",
        "ians",
        "ed",
        "ing",
        "d",
        "ies",
        "e",
        "al",
    }
    return common >= _LEAST_COMMON and longest - common <= _LEAST_COMMON and all(end in known for end in ends)


def _acronyms(tokens: list[str]) -> Iterator[str]:
    """Yield the initials of runs of words, such as "eu" for "European Union". Small words may be left out."""
    for start in range(len(tokens)):
        if not tokens[start][:1].isupper():
            continue
        letters = short = tokens[start][0].casefold()
        for token in tokens[start + 1 : start + 8]:
            letters += token[:1].casefold()
            if token.casefold() not in _NOT_NAMES:
                short += token[:1].casefold()
            yield letters
            yield short


def _is_name(word: str, claim: str, match: re.Match[str]) -> bool:
    folded = word.casefold()
    if _VERSION.fullmatch(word) or word.startswith("-"):
        return True
    if not any(each.isalpha() for each in word) or folded in _NOT_NAMES or _is_unit(word, claim, match):
        return False
    if any(each.isupper() for each in word[1:]) or "_" in word or re.search(r"\w\.\w|\d", word):
        return folded not in {"e.g", "i.e", "a.m", "p.m", "u.s"}
    if not word[0].isupper():
        return False
    return not _SENTENCE_START.search(claim[: match.start()]) or _begins_with_name(word, claim, match)


def _is_unit(word: str, claim: str, match: re.Match[str]) -> bool:
    """Return whether a word is a number with a unit, or a unit after a number."""
    if re.fullmatch(r"\d[\d.,]*(?:st|nd|rd|th|[a-z%]+)", word.casefold()):
        return True
    return measure_of(word) is not None and re.search(r"\d\s*$", claim[: match.start()]) is not None


def _begins_with_name(word: str, claim: str, match: re.Match[str]) -> bool:
    """Return whether the first word of a sentence is a name. A capital follows it, or it is no common noun."""
    following = claim[match.end() :].lstrip("'\u2019s").lstrip()
    if following[:1].isupper() and following[:1].isalpha():
        return True
    if number_words(word):
        return False
    folded = word.casefold()
    if match.group() != word:  # a possessive
        return folded not in _COMMON_NOUNS
    common = folded in _COMMON_NOUNS or _COMMON_END.search(folded) is not None
    return not common and _VERB.match(following) is not None


def _bare(token: str) -> str:
    for ending in _ENDINGS:
        if token.endswith(ending) and len(token) > len(ending) + 1:
            return token.removesuffix(ending) + ("s" if ending.startswith("s") else "")
    return token.rstrip(".'\u2019-")


def _folded(text: str) -> str:
    """Return a text in lower case without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(each for each in plain if not unicodedata.combining(each))
