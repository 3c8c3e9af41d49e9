"""Reads from a short text, by rules, what it says about what: subject, attribute and value.

The rules know possessives ("Ada's boss is "
    "Bob"), common relations ("lives in", "works at", "is 40 years old"), changes
("moved from Rome to Paris", "no longer works at") and definite descriptions ("the deadline is Friday"). Different
words for the same attribute give the same name. A text that no rule understands has no statement; that is not an error.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from builtin_tools.memory.entries import Statement
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
SOME_ATTRIBUTE = "*"  # the attribute that has the value named by "from <value>"

_TIME_WORD = re.compile(
    r"\b(?:right now|now|currently|nowadays|these days|at the moment|at present|presently|recently|just|already|"
    r"still|"
    r"also|actually|finally|as of now|today|officially|since then|anymore|any more|again)\b,? ?",
    re.IGNORECASE,
)
_S = r"(?P<s>[\w'.&@/ -]{1,80}?)"
_V = r"(?P<v>.{1,200}?)"
_HAS = r"(?:(?:has|have|had) )?"
_BE = r"(?:is|are|am|was|were|has been|have been)"
_NOT = r"(?P<not> not| never| no longer)?"
_ART = r"(?:an? |the |my |his |her |their |our |its )?"


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement as it was read.

    Attributes:
        instead_of: The value that it says it replaces; "" for none.
    """

    statement: Statement
    instead_of: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    attribute: str
    negated: bool = False
    multiple: bool = False


def _rule(pattern: str, attribute: str, *, negated: bool = False, multiple: bool = False) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), attribute, negated, multiple)


_NO = r"(?:no longer|does not|do not|did not|is not|are not|am not|not|never)"
_RULES = (
    # Where somebody lives.
    _rule(rf"{_S} (?:{_NO} )(?:live|lives|living|reside|resides|stay) (?:in|at) {_V}", "home", negated=True),
    _rule(rf"{_S} {_HAS}(?:moved out of|moved away from|left the city of) {_V}", "home", negated=True),
    _rule(
        rf"{_S} (?:lives?|{_HAS}lived|resides?|{_HAS}resided|{_HAS}been living|is living|am living|are living|is "
        rf"based|am based|settled) in {_V}",
        "home",
    ),
    _rule(rf"{_S} (?:lives?|resides?|is living|am living) at {_V}", "address"),
    _rule(
        rf"{_S} (?:(?:{_HAS}|{_BE} )(?:moved|relocated)|is moving|am moving|moves|relocates) (?:from (?P<from>.+?) "
        rf")?to {_V}",
        "home",
    ),
    # Work.
    _rule(rf"{_S} {_HAS}changed jobs(?: from (?P<from>.+?))? (?:to|and (?:now )?works (?:at|for)) {_V}", "employer"),
    _rule(rf"{_S} (?:{_HAS}left|quits?) (?P<from>.+?) (?:and joined|to join|for|and moved to) {_V}", "employer"),
    _rule(rf"{_S} (?:{_NO} )(?:work|works|working|employed) (?:at|for|with|by) {_V}", "employer", negated=True),
    _rule(
        rf"{_S} (?:{_HAS}(?:quit|left)|(?:{_HAS}resigned|was fired|was laid off|{_HAS}retired) from)"
        rf" (?:(?:his|her|their|my) job (?:at|with) )?{_V}",
        "employer",
        negated=True,
    ),
    _rule(
        rf"{_S} (?:works?|{_HAS}worked|{_HAS}been working|is working|am working|is employed|am employed|"
        rf"{_HAS}started(?: working| work)?|"
        rf"{_HAS}started a (?:new )?job|{_HAS}got a (?:new )?job|{_HAS}taken a job|took a (?:new )?job) (?:at|for|"
        rf"with|by) {_V}(?: as .+)?",
        "employer",
    ),
    _rule(rf"{_S} (?:{_HAS}joined|(?:was|has been|got) hired by|{_HAS}signed with) {_V}", "employer"),
    _rule(
        rf"{_S} (?:works?|is working|am working|is employed|am employed|{_HAS}started(?: working)?) as {_ART}{_V}",
        "job",
    ),
    _rule(rf"{_S} (?:{_BE} |got )promoted to {_ART}{_V}", "job"),
    _rule(rf"{_S} (?:reports?|answers?) to {_V}", "manager"),
    _rule(
        rf"{_S} (?:stud(?:y|ies|ied)|is studying|goes|went) (?:at|to) (?P<v>.*(?:university|school|college).*)",
        "school",
    ),
    # Personal data.
    _rule(rf"{_S} (?:{_BE}) (?P<v>\d+|[a-z]+(?:-[a-z]+)?) years?(?: old| of age)", "age"),
    _rule(rf"{_S} {_HAS}turned (?P<v>\d+|[a-z]+(?:-[a-z]+)?)", "age"),
    _rule(rf"{_S} (?:is|are|am|was|were|has been)(?: now)? (?:called|named|renamed(?: to)?|known as) {_V}", "name"),
    _rule(rf"{_S} goes by {_V}", "name"),
    _rule(rf"{_S} (?:is|am) married to {_V}|{_S.replace('<s>', '<s2>')} {_HAS}married (?P<v2>.+)", "spouse"),
    _rule(rf"{_S} {_HAS}(?:got )?divorced(?: from)? {_V}", "spouse", negated=True),
    _rule(rf"{_S} (?:is|am) (?:dating|in a relationship with|engaged to) {_V}", "partner"),
    _rule(rf"{_S} (?:is|am|are)(?: now)? (?P<v>single|married|divorced|widowed|engaged)", "marital status"),
    _rule(
        rf"{_S} (?:is|am|became|{_HAS}become|turned|went) {_ART}(?P<v>vegetarian|vegan|pescatarian|omnivore)", "diet"
    ),
    _rule(rf"{_S} (?:follows?|keeps?|is on) an? {_V} diet", "diet"),
    _rule(rf"{_S} (?:was|were|am|is) born (?:on|at) {_V}", "birthday"),
    _rule(rf"{_S} (?:was|were|am|is) born in (?P<v>\d{{4}})", "year of birth"),
    _rule(rf"{_S} (?:was|were|am|is) born in {_V}", "place of birth"),
    _rule(rf"{_S} can be (?:reached|called|phoned) (?:at|on|under) (?P<v>[+\d(][\d ()+./-]+)", "phone"),
    _rule(rf"{_S} can be (?:reached|contacted) (?:at|on|under|via) (?P<v>\S+@\S+)", "email"),
    # Amounts.
    _rule(rf"{_S} (?:costs?|is priced at|sells for|goes for) {_V}", "price"),
    _rule(rf"{_S} weighs? {_V}", "weight"),
    _rule(rf"{_S} (?:{_BE}) (?P<v>[\d.,]+ ?[\w%°]{{0,12}}) (?:tall|high)", "height"),
    _rule(rf"{_S} (?:{_BE}) (?P<v>[\d.,]+ ?[\w%°]{{0,12}}) long", "length"),
    _rule(rf"{_S} (?:earns?|makes) (?P<v>\D{{0,3}}\d.*)", "salary"),
    _rule(
        rf"{_S} (?:takes?|lasts?) (?P<v>\S+(?: and a half)? (?:seconds?|minutes?|mins?|hours?|days?|weeks?|months?|"
        rf"years?))",
        "duration",
    ),
    _rule(rf"{_S} (?:runs?|listens?|is listening|{_BE}) on port (?P<v>\d+)", "port"),
    _rule(rf"{_S} runs on (?:version )?{_V}", "platform"),
    # Likes and habits. Somebody can have several of them at once.
    _rule(rf"{_S} prefers? (?P<v>.+?) (?:to|over|rather than|instead of) (?P<over>.+)", "preference"),
    _rule(rf"{_S} (?:{_NO} )prefers? {_V}", "preference", negated=True, multiple=True),
    _rule(rf"{_S} (?:prefers?|would rather have) {_V}", "preference", multiple=True),
    _rule(
        rf"{_S} (?:(?:{_NO}|cannot|can not) (?:like|likes|love|loves|enjoy|enjoys|stand|care for)"
        rf"|dislikes?|hates?|detests?|{_HAS}stopped liking|(?:is|am) (?:not|no longer) (?:fond of|a fan of|into|"
        rf"keen on)) {_V}",
        "likes",
        negated=True,
        multiple=True,
    ),
    _rule(
        rf"{_S} (?:likes?|loves?|enjoys?|adores?|(?:is|am) (?:fond of|a fan of|into|keen on)) {_V}",
        "likes",
        multiple=True,
    ),
    _rule(rf"{_S} (?:is|am) (?:not|no longer) allergic to {_V}", "allergy", negated=True, multiple=True),
    _rule(rf"{_S} (?:is|am) allergic to {_V}", "allergy", multiple=True),
    _rule(rf"{_S} (?:{_NO} )(?:speak|speaks) {_V}", "language", negated=True, multiple=True),
    _rule(rf"{_S} speaks? {_V}", "language", multiple=True),
    _rule(rf"{_S} (?:drives?|is driving) {_ART}{_V}", "car"),
    _rule(
        rf"{_S} (?:no longer (?:has|have|owns?)|(?:does|do) not (?:have|own)(?: any)?|{_HAS}sold|{_HAS}gave away) "
        rf"{_ART}{_V}",
        "possession",
        negated=True,
        multiple=True,
    ),
)
_ROLE = re.compile(
    rf"(?P<v>[\w'.& -]{{1,80}}?) (?:{_BE}|became|{_HAS}become|was appointed|was elected)(?P<not> not| no "
    rf"longer)?(?: the)?(?: new)? (?P<n>[\w -]{{2,40}}?) (?:of|at|for) (?P<s>[\w'.& -]{{1,80}})",
    re.IGNORECASE,
)
_TOOK_OVER = re.compile(
    rf"(?P<v>[\w'.& -]{{1,80}}?) (?:{_HAS}(?:taken|took) over|{_HAS}replaced (?P<from>.+?)|succeeded "
    rf"(?P<from2>.+?)) as (?:the )?(?P<n>[\w -]{{2,40}}?) (?:of|at|for) (?P<s>[\w'.& -]{{1,80}})",
    re.IGNORECASE,
)
_IS_SOMEBODYS = re.compile(
    r"(?P<v>[\w'.& -]{1,80}?) (?:is|became)(?P<not> not| no longer)? (?:(?P<s>[\w.& -]{1,60}?)'s?|(?P<my>my|our)) "
    r"(?:new )?(?P<n>[\w -]{2,40})",
    re.IGNORECASE,
)
_CHANGE = (
    r"(?:(?:(?:was|were|has been|have been|has|have) )?(?:changed|switched|moved|raised|lowered|increased|decreased|"
    r"reduced|updated|set|reset|postponed|rescheduled|shifted|renamed|extended|pushed back|brought forward)|"
    r"rose|fell|dropped|went up|went down|grew|shrank)"
)
_OF = re.compile(
    rf"(?:the )?(?:new |current |latest )?(?P<n>[\w -]{{2,40}}?) of (?P<s>[\w'.& -]{{1,80}}?) (?:(?P<be>{_BE}|"
    rf"remains|became){_NOT}|{_CHANGE}(?: from (?P<from>.+?))? to) {_V}",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(
    rf"(?:(?P<s>[\w.& -]{{1,60}}?)'s?|(?P<my>my)) (?:new |current |latest |own )?(?P<n>[\w -]{{2,40}}?) "
    rf"(?:(?P<be>{_BE}|remains|became|equals){_NOT}|{_CHANGE}(?: from (?P<from>.+?))? to) {_V}",
    re.IGNORECASE,
)
_CHANGED_OWN = re.compile(
    rf"{_S} {_HAS}(?:changed|updated|switched|set|reset) (?:his|her|their|my|its|our|the) (?P<n>[\w -]{{2,40}}?)(?: "
    rf"from (?P<from>.+?))? to {_V}",
    re.IGNORECASE,
)
_NEW_NOUN = re.compile(
    rf"{_S} (?:has|have|had|got|{_HAS}bought) a new (?P<n>[\w -]{{2,40}}?)(?: called| named|:|,) {_V}", re.IGNORECASE
)
_COUNT = re.compile(rf"{_S} (?:has|have|owns?)(?P<not> no)? (?P<v>\d+) (?P<n>[a-z][\w -]{{1,40}})", re.IGNORECASE)
_SWITCHED = re.compile(
    rf"{_S} {_HAS}(?:switched|changed|migrated|went|converted|upgraded) from (?P<from>.+?) to {_V}", re.IGNORECASE
)
_DEFINITE = re.compile(
    rf"(?P<s>(?:the|our|this) [\w' -]{{2,60}}?) (?:(?P<be>is|are|was|remains|became|will be){_NOT}(?: (?:on|at|in|"
    rf"for|due|due on|due in|scheduled for))?|{_CHANGE}(?: from (?P<from>.+?))? to|(?:takes place|starts|begins|"
    rf"ends|happens|expires|opens|closes) (?:on|at|in)) {_V}",
    re.IGNORECASE,
)
_PLACED = re.compile(
    rf"{_S} (?:is|are|was|were)(?P<not> not| no longer)? (?:located |situated |stored |kept |parked |hosted |hidden "
    rf")?(?:in|at|on|under|behind|inside|near) {_V}",
    re.IGNORECASE,
)
_HAVE = re.compile(rf"{_S} (?:has|have|owns?|{_HAS}bought|got) {_ART}(?:new )?{_V}", re.IGNORECASE)
_IS = re.compile(rf"{_S} (?:is|are|am|was|were|remains|became){_NOT} {_V}", re.IGNORECASE)
_DOES = re.compile(rf"{_S} (?:(?P<not>does not|do not|did not|no longer|never) )?(?P<verb>[a-z]{{2,20}}s) {_V}")


def read_statement(text: str) -> Reading | None:
    """Return what a text of one sentence says; None if no rule understands it."""
    if len(text) > MOST_CHARACTERS:
        return None
    plain = _TIME_WORD.sub("", number_words(expanded(" ".join(text.split())))).strip(" .!,;")
    if not plain or plain.endswith("?") or re.search(r"[.!?;] [A-Z]", plain):
        return None
    for read in _READERS:
        found = read(plain)
        if found is not None:
            return found
    return None


def _by_rules(text: str) -> Reading | None:
    for rule in _RULES:
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
    for pattern in (_TOOK_OVER, _ROLE):
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
    for pattern in (_OF, _POSSESSIVE):
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
        placed = _PLACED.fullmatch(text)
        if placed is not None:
            return _by_place(text)
        return _said(
            f"{subject}'s {noun}" if subject else "", "is", value, negated=bool(groups.get("not")), multiple=True
        )
    found = _CHANGED_OWN.fullmatch(text) or _NEW_NOUN.fullmatch(text)
    if found is not None:
        said = _said(found["s"], _noun(found["n"]), found["v"])
        return said and replace(said, instead_of=(found.groupdict().get("from") or "").strip())
    found = _IS_SOMEBODYS.fullmatch(text)
    if found is not None:
        return _said(SPEAKER if found["my"] else found["s"], _noun(found["n"]), found["v"], negated=bool(found["not"]))
    return None


def _by_count(text: str) -> Reading | None:
    found = _COUNT.fullmatch(text)
    return found and _said(found["s"], f"number of {_key(found['n'])}", found["v"])


def _by_switch(text: str) -> Reading | None:
    found = _SWITCHED.fullmatch(text)
    said = found and _said(found["s"], SOME_ATTRIBUTE, found["v"])
    return said and found and replace(said, instead_of=found["from"].strip())


def _by_definite(text: str) -> Reading | None:
    found = _DEFINITE.fullmatch(text)
    if found is None:
        return None
    negated, changed = bool(found["not"]), found["be"] is None
    placed = _PLACED.fullmatch(text)
    if placed is not None and not looks_like_time(found["v"]):
        return _by_place(text)
    if changed or looks_like_value(found["v"]):
        said = _said(found["s"], _value_attribute(found["v"]), found["v"], negated=negated)
        return said and replace(said, instead_of=(found["from"] or "").strip())
    return None


def _by_place(text: str) -> Reading | None:
    found = _PLACED.fullmatch(text)
    return found and _said(found["s"], "place", found["v"], negated=bool(found["not"]))


def _by_verb(text: str) -> Reading | None:
    found = _HAVE.fullmatch(text)
    if found is not None:
        return _said(found["s"], "possession", found["v"], multiple=True)
    found = _IS.fullmatch(text)
    if found is not None:
        return _said(found["s"], "is", found["v"], negated=bool(found["not"]), multiple=True)
    found = _DOES.fullmatch(text)
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
    """Return the normal form of a subject; "" for one that is not known, such as a pronoun."""
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
    """Return whether the subject is somebody who can live somewhere rather than a thing that can be moved."""
    words = text.lower().split()
    if not words or words[0] not in ("the", "my", "our", "a", "an", "this"):
        return not re.search(r"'s? [a-z]", text) or words[-1] in PERSON_NOUNS
    return words[-1] in PERSON_NOUNS or text.lower() == "the user"


def _value_attribute(value: str) -> str:
    """Return the attribute of a thing that a value is for: an event has both a day and an hour."""
    return "hour" if re.fullmatch(r"(?:at )?(?:\d{1,2}(?::\d\d)? ?(?:[ap]\.?m\.?)?|noon|midnight)", value) else "value"


def _noun(text: str) -> str:
    """Return the name of an attribute: one for all words that mean the same."""
    plain = " ".join(text.lower().split()).replace("favourite", "favorite").replace("colour", "color")
    return NOUNS.get(plain, plain)


def _key(text: str) -> str:
    return re.sub(r"^(?:an?|the) ", "", " ".join(text.lower().split()).strip(" .,"))
