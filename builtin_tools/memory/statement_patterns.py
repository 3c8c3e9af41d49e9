"""The patterns that `statements` uses to parse a text.

Each pattern matches a whole sentence without its final punctuation.

The groups have the same meaning in all patterns: `s` is the subject, `v` the value, `n` the attribute, `from` the value
that is replaced, `not` a negation, and `be` a form of "to be" in contrast to a verb of change.
"""

import re
from dataclasses import dataclass

TIME_WORD = re.compile(
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
class StatementRule:
    """A pattern, and the attribute that a text states if it matches the pattern.

    Attributes:
        negated, multiple: As in `Statement`.
    """

    pattern: re.Pattern[str]
    attribute: str
    negated: bool = False
    multiple: bool = False


def _rule(pattern: str, attribute: str, *, negated: bool = False, multiple: bool = False) -> StatementRule:
    return StatementRule(re.compile(pattern, re.IGNORECASE), attribute, negated, multiple)


_NO = r"(?:no longer|does not|do not|did not|is not|are not|am not|not|never)"
RULES = (
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
ROLE = re.compile(
    rf"(?P<v>[\w'.& -]{{1,80}}?) (?:{_BE}|became|{_HAS}become|was appointed|was elected)(?P<not> not| no "
    rf"longer)?(?: the)?(?: new)? (?P<n>[\w -]{{2,40}}?) (?:of|at|for) (?P<s>[\w'.& -]{{1,80}})",
    re.IGNORECASE,
)
TOOK_OVER = re.compile(
    rf"(?P<v>[\w'.& -]{{1,80}}?) (?:{_HAS}(?:taken|took) over|{_HAS}replaced (?P<from>.+?)|succeeded "
    rf"(?P<from2>.+?)) as (?:the )?(?P<n>[\w -]{{2,40}}?) (?:of|at|for) (?P<s>[\w'.& -]{{1,80}})",
    re.IGNORECASE,
)
IS_SOMEBODYS = re.compile(
    r"(?P<v>[\w'.& -]{1,80}?) (?:is|became)(?P<not> not| no longer)? (?:(?P<s>[\w.& -]{1,60}?)'s?|(?P<my>my|our)) "
    r"(?:new )?(?P<n>[\w -]{2,40})",
    re.IGNORECASE,
)
_CHANGE = (
    r"(?:(?:(?:was|were|has been|have been|has|have) )?(?:changed|switched|moved|raised|lowered|increased|decreased|"
    r"reduced|updated|set|reset|postponed|rescheduled|shifted|renamed|extended|pushed back|brought forward)|"
    r"rose|fell|dropped|went up|went down|grew|shrank)"
)
OF = re.compile(
    rf"(?:the )?(?:new |current |latest )?(?P<n>[\w -]{{2,40}}?) of (?P<s>[\w'.& -]{{1,80}}?) (?:(?P<be>{_BE}|"
    rf"remains|became){_NOT}|{_CHANGE}(?: from (?P<from>.+?))? to) {_V}",
    re.IGNORECASE,
)
POSSESSIVE = re.compile(
    rf"(?:(?P<s>[\w.& -]{{1,60}}?)'s?|(?P<my>my)) (?:new |current |latest |own )?(?P<n>[\w -]{{2,40}}?) "
    rf"(?:(?P<be>{_BE}|remains|became|equals){_NOT}|{_CHANGE}(?: from (?P<from>.+?))? to) {_V}",
    re.IGNORECASE,
)
CHANGED_OWN = re.compile(
    rf"{_S} {_HAS}(?:changed|updated|switched|set|reset) (?:his|her|their|my|its|our|the) (?P<n>[\w -]{{2,40}}?)(?: "
    rf"from (?P<from>.+?))? to {_V}",
    re.IGNORECASE,
)
NEW_NOUN = re.compile(
    rf"{_S} (?:has|have|had|got|{_HAS}bought) a new (?P<n>[\w -]{{2,40}}?)(?: called| named|:|,) {_V}", re.IGNORECASE
)
COUNT = re.compile(rf"{_S} (?:has|have|owns?)(?P<not> no)? (?P<v>\d+) (?P<n>[a-z][\w -]{{1,40}})", re.IGNORECASE)
SWITCHED = re.compile(
    rf"{_S} {_HAS}(?:switched|changed|migrated|went|converted|upgraded) from (?P<from>.+?) to {_V}", re.IGNORECASE
)
DEFINITE = re.compile(
    rf"(?P<s>(?:the|our|this) [\w' -]{{2,60}}?) (?:(?P<be>is|are|was|remains|became|will be){_NOT}(?: (?:on|at|in|"
    rf"for|due|due on|due in|scheduled for))?|{_CHANGE}(?: from (?P<from>.+?))? to|(?:takes place|starts|begins|"
    rf"ends|happens|expires|opens|closes) (?:on|at|in)) {_V}",
    re.IGNORECASE,
)
PLACED = re.compile(
    rf"{_S} (?:is|are|was|were)(?P<not> not| no longer)? (?:located |situated |stored |kept |parked |hosted |hidden "
    rf")?(?:in|at|on|under|behind|inside|near) {_V}",
    re.IGNORECASE,
)
HAVE = re.compile(rf"{_S} (?:has|have|owns?|{_HAS}bought|got) {_ART}(?:new )?{_V}", re.IGNORECASE)
IS = re.compile(rf"{_S} (?:is|are|am|was|were|remains|became){_NOT} {_V}", re.IGNORECASE)
DOES = re.compile(rf"{_S} (?:(?P<not>does not|do not|did not|no longer|never) )?(?P<verb>[a-z]{{2,20}}s) {_V}")
