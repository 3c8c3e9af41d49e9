"""Extracts by rules what a short text states: the subject, the attribute and the value.

The rules (`statement_patterns`) cover possessives ("Ada's boss is Bob"), common relations ("lives in", "works at"),
changes ("moved from Rome to Paris", "no longer works at") and definite descriptions ("the deadline is Friday").
Different words for the same attribute are mapped to the same name. A text that matches no rule has no statement, which
is not an error.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from builtin_tools.memory.entries import Statement
from builtin_tools.memory.statement_patterns import (
    CHANGED_OWN,
    COUNT,
    DEFINITE,
    DOES,
    HAVE,
    IS,
    IS_SOMEBODYS,
    NEW_NOUN,
    OF,
    PLACED,
    POSSESSIVE,
    ROLE,
    RULES,
    SWITCHED,
    TIME_WORD,
    TOOK_OVER,
)
from builtin_tools.memory.statement_words import (
    FIRST_PERSON,
    MOST_CHARACTERS,
    MULTIPLE_NOUNS,
    NOUNS,
    PERSON_NOUNS,
    PRONOUNS,
    ROLES,
    expanded,
    looks_like_time,
    looks_like_value,
    number_words,
)

SPEAKER = "user"
SOME_ATTRIBUTE = "*"  # stands for whichever attribute has the value after "from"


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement that was extracted from a text.

    Attributes:
        instead_of: The old value that the text mentions, such as "Paris" in "moved from Paris to Rome"; "" if there is
            none.
    """

    statement: Statement
    instead_of: str = ""


def read_statement(text: str) -> Reading | None:
    """Extract the statement of a one-sentence text; None if no rule matches."""
    if len(text) > MOST_CHARACTERS:
        return None
    plain = TIME_WORD.sub("", number_words(expanded(" ".join(text.split())))).strip(" .!,;")
    if not plain or plain.endswith("?") or re.search(r"[.!?;] [A-Z]", plain):
        return None
    for read in _READERS:
        found = read(plain)
        if found is not None:
            return found
    return None


def _by_rules(text: str) -> Reading | None:
    for rule in RULES:
        found = rule.pattern.fullmatch(text)
        if found is None:
            continue
        groups = found.groupdict()
        subject = _subject(groups.get("s") or groups.get("s2") or "")
        value = (groups.get("v") or groups.get("v2") or "").strip()
        if not subject or not value:
            continue
        attribute = rule.attribute
        if groups.get("over"):
            attribute = "preference between " + " and ".join(sorted((_key(value), _key(groups["over"]))))
        if attribute == "age" and not value.isdigit():
            continue
        if attribute == "home" and not _is_person(groups.get("s") or ""):
            attribute = _value_attribute(value) if looks_like_time(value) else "place"
        said = Statement(subject, attribute, value, negated=rule.negated, multiple=rule.multiple)
        return Reading(said, (groups.get("from") or "").strip())
    return None


def _by_role(text: str) -> Reading | None:
    for pattern in (TOOK_OVER, ROLE):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        groups = found.groupdict()
        noun = _noun(found["n"])
        if noun in NOUNS.values() or noun in ROLES:
            negated = bool(groups.get("not"))
            said = _said(found["s"], noun, found["v"], negated=negated)
            return said and replace(said, instead_of=(groups.get("from") or groups.get("from2") or "").strip())
    return None


def _by_noun(text: str) -> Reading | None:
    for pattern in (OF, POSSESSIVE):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        groups = found.groupdict()
        owner = SPEAKER if groups.get("my") else found["s"]
        noun, value = _noun(found["n"]), found["v"]
        changed = groups.get("be") is None
        known = noun in NOUNS.values() or noun.startswith("favorite ") or noun in MULTIPLE_NOUNS or noun in ROLES
        if known or changed or looks_like_value(value):
            said = _said(owner, noun, value, negated=bool(groups.get("not")))
            return said and replace(said, instead_of=(groups.get("from") or "").strip())
        subject = _subject(owner)
        placed = PLACED.fullmatch(text)
        if placed is not None:
            return _by_place(text)
        return _said(
            f"{subject}'s {noun}" if subject else "", "is", value, negated=bool(groups.get("not")), multiple=True
        )
    found = CHANGED_OWN.fullmatch(text) or NEW_NOUN.fullmatch(text)
    if found is not None:
        said = _said(found["s"], _noun(found["n"]), found["v"])
        return said and replace(said, instead_of=(found.groupdict().get("from") or "").strip())
    found = IS_SOMEBODYS.fullmatch(text)
    if found is not None:
        return _said(SPEAKER if found["my"] else found["s"], _noun(found["n"]), found["v"], negated=bool(found["not"]))
    return None


def _by_count(text: str) -> Reading | None:
    found = COUNT.fullmatch(text)
    return found and _said(found["s"], f"number of {_key(found['n'])}", found["v"])


def _by_switch(text: str) -> Reading | None:
    found = SWITCHED.fullmatch(text)
    said = found and _said(found["s"], SOME_ATTRIBUTE, found["v"])
    return said and found and replace(said, instead_of=found["from"].strip())


def _by_definite(text: str) -> Reading | None:
    found = DEFINITE.fullmatch(text)
    if found is None:
        return None
    negated, changed = bool(found["not"]), found["be"] is None
    placed = PLACED.fullmatch(text)
    if placed is not None and not looks_like_time(found["v"]):
        return _by_place(text)
    if changed or looks_like_value(found["v"]):
        said = _said(found["s"], _value_attribute(found["v"]), found["v"], negated=negated)
        return said and replace(said, instead_of=(found["from"] or "").strip())
    return None


def _by_place(text: str) -> Reading | None:
    found = PLACED.fullmatch(text)
    return found and _said(found["s"], "place", found["v"], negated=bool(found["not"]))


def _by_verb(text: str) -> Reading | None:
    found = HAVE.fullmatch(text)
    if found is not None:
        return _said(found["s"], "possession", found["v"], multiple=True)
    found = IS.fullmatch(text)
    if found is not None:
        return _said(found["s"], "is", found["v"], negated=bool(found["not"]), multiple=True)
    found = DOES.fullmatch(text)
    if found is not None:
        return _said(found["s"], found["verb"].removesuffix("s"), found["v"], negated=bool(found["not"]), multiple=True)
    return None


_READERS: tuple[Callable[[str], Reading | None], ...] = (
    _by_count,
    _by_rules,
    _by_noun,
    _by_role,
    _by_switch,
    _by_definite,
    _by_place,
    _by_verb,
)


def _said(subject: str, attribute: str, value: str, *, negated: bool = False, multiple: bool = False) -> Reading | None:
    about, value = _subject(subject), value.strip()
    if not about or not value:
        return None
    several = multiple or attribute in MULTIPLE_NOUNS
    return Reading(Statement(about, attribute, value, negated=negated, multiple=several))


def _subject(text: str) -> str:
    """Normalize a subject; "" if it is unclear, such as a pronoun."""
    words = text.lower().split()
    if words and words[0] == "my" and len(words) > 1:
        return f"{SPEAKER}'s {' '.join(words[1:])}"
    if words and words[0] in ("the", "a", "an", "our", "this"):
        words = words[1:]
    joined = " ".join(words)
    if joined in FIRST_PERSON:
        return SPEAKER
    return "" if not words or words[0] in PRONOUNS else joined


def _is_person(text: str) -> bool:
    """Return whether the subject is a person rather than a thing."""
    words = text.lower().split()
    if not words or words[0] not in ("the", "my", "our", "a", "an", "this"):
        return not re.search(r"'s? [a-z]", text) or words[-1] in PERSON_NOUNS
    return words[-1] in PERSON_NOUNS or text.lower() == "the user"


def _value_attribute(value: str) -> str:
    """Return the attribute of a thing to which a value belongs: "hour" for a time of day, "value" for any other value.

    The two differ so that the hour of an event does not replace its day.
    """
    return "hour" if re.fullmatch(r"(?:at )?(?:\d{1,2}(?::\d\d)? ?(?:[ap]\.?m\.?)?|noon|midnight)", value) else "value"


def _noun(text: str) -> str:
    """Return the name of an attribute, which is the same for all its synonyms."""
    plain = " ".join(text.lower().split()).replace("favourite", "favorite").replace("colour", "color")
    return NOUNS.get(plain, plain)


def _key(text: str) -> str:
    return re.sub(r"^(?:an?|the) ", "", " ".join(text.lower().split()).strip(" .,"))
