"""Detects that a claim says the opposite of a passage: by a negation, or by a word with the opposite meaning."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from builtin_tools.web.research.verification.irregular_verbs import base_form
from builtin_tools.web.research.verification.word_list import words
from engine.retrieval.terms import Terms

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019]t\b)?|[,;:.!?()\u2014]")
_CUES = words(
    "not never no none nobody nothing neither nor without cannot hardly scarcely rarely seldom lacks lack lacking "
    "lacked nowhere barely"
)
_BREAKS = words(", ; : . ! ? ( ) \u2014 but although though while whereas because which who unless except until and")
_REACH = 7  # words after a cue that it negates, at most
_SKIPPED = words("yet ever even just really actually been be being have has had do does did is are was were")
# These are bounds or emphasis, not negations.
_NOT_NEGATIONS = re.compile(
    r"\b(?:not only|no (?:more|less|fewer|later|earlier|sooner|longer than)(?: than)?|not least|no doubt|"
    r"whether or not|not (?:just|merely|simply)|no matter|nothing but|no one but|not until|not before|non-stop)\b",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"\b(?:(?:fail|refuse|decline)(?:s|d|ed|ing)?\s+to|(?:stop|cease|quit)(?:s|d|ped|ping)?\s+(?=\w+ing\b))\b",
    re.IGNORECASE,
)
_GONE = re.compile(r"\bno longer\b|\bnot any ?more\b", re.IGNORECASE)
# A passage with such a word may mean what a claim says with a negation: "free" and "costs nothing".
_HINTS = words(
    "free only instead optional away last until too prevent prevents prevented avoid avoids avoided stop stops ended "
    "ends gone missing former formerly old older lost loses exempt except off empty zero little few despite failed "
    "itself themselves automatic automatically break abandoned gave suspended suspends ceased separate separately "
    "alone different against replaced"
)
_DETERMINERS = frozenset({"no", "none", "nobody", "nothing"})
# Stems of verbs that say less than what follows them.
_LIGHT = words("get make take want intend plan expect believ think say know seem appear begin start need allow let tri")
_EXCEPTIONS = frozenset({"unless", "except", "until"})
_CONDITIONS = frozenset({"if", "with", "when", "only", "once", "after"})
_INSTEAD = re.compile(r"\b(?:instead of|rather than)\b", re.IGNORECASE)
_LONG = 4  # letters; shorter beginnings such as "un" in "until" are no prefixes
# Words whose meaning includes a negation, each with the word that they negate.
_NEGATIVE = {
    "forbidden": "allowed", "forbids": "allows", "forbid": "allow", "forbade": "allowed", "prohibited": "allowed",
    "prohibits": "allows", "prohibit": "allow", "banned": "allowed", "bans": "allows", "ban": "allow",
    "disallowed": "allowed", "disallows": "allows", "optional": "required", "impossible": "possible",
    "unable": "able", "refused": "accepted", "refuses": "accepts", "rejected": "accepted", "rejects": "accepts",
    "declined": "accepted", "denied": "confirmed", "denies": "confirms", "absent": "present", "false": "true",
    "wrong": "right", "incorrect": "correct", "disabled": "enabled", "disables": "enables", "disable": "enable",
    "inactive": "active", "invisible": "visible", "illegal": "legal", "invalid": "valid", "incomplete": "complete",
    "independent": "dependent", "dislikes": "likes", "disagreed": "agreed", "disagrees": "agrees",
    "disproved": "proved", "opposes": "supports", "opposed": "supported", "ignores": "reads", "excludes": "includes",
    "excluded": "included", "excluding": "including", "exempt": "subject", "closed": "open", "locked": "unlocked",
    "permitted": "allowed", "permits": "allows", "permit": "allow", "mandatory": "required", "obligatory": "required",
    "deprecated": "recommended", "discouraged": "recommended", "abolished": "kept", "removed": "kept",
    "banning": "allowing", "unnecessary": "required", "unneeded": "required", "voluntary": "required",
}  # fmt: skip
_POSITIVE = frozenset({"permitted", "permits", "permit", "mandatory", "obligatory"})  # synonyms, not negations
_OPPOSITES = tuple(
    (words(one), words(other))
    for one, other in (
        ("increase increased increases rose rises rise grew grows grown growing rising up gained",
         "decrease decreased decreases fell falls fall shrank shrinks declined declines dropped down lost fallen"),
        ("before", "after"), ("always", "never rarely seldom"), ("minimum least", "maximum most"),
        ("largest biggest highest longest tallest most fastest oldest",
         "smallest lowest shortest least slowest newest youngest"),
        ("earliest first", "latest last"),
        ("accepted accepts approved approves adopted", "rejected rejects refused vetoed"),
        ("won wins win", "lost loses lose"),
        ("succeeded succeeds successful success", "failed fails unsuccessful failure"),
        ("opened opens open", "closed closes close"), ("began begins started starts", "ended ends stopped finished"),
        ("northern north", "southern south"), ("eastern east", "western west"), ("above", "below beneath under"),
        ("faster", "slower"), ("cheaper", "dearer costlier"), ("warmer hotter", "colder cooler"),
        ("safe", "unsafe dangerous"), ("true", "false"), ("added adds", "removed removes deleted"),
        ("inside", "outside"), ("ascending", "descending"), ("public", "private"), ("import imports", "export exports"),
        ("all every", "none no neither few"), ("guilty", "innocent acquitted"), ("profit profits", "loss losses"),
        ("read-only", "writable"), ("sync synchronous", "async asynchronous"), ("male", "female"),
        ("more", "less fewer"), ("upper", "lower"), ("import", "export"), ("often frequently", "rarely seldom"),
    )
)  # fmt: skip


@dataclass(slots=True)
class _Clause:
    """A part of a sentence.

    Attributes:
        affirmed: The stems of its words that are not negated.
        scopes: For each negation, the stems that it negates, the nearest first. It is empty if nothing follows.
        explicit: Whether there is a word such as "not", as opposed to one whose meaning includes a negation.
        excepted: Whether it begins with a word such as "unless".
    """

    affirmed: set[str] = field(default_factory=set)
    scopes: list[list[str]] = field(default_factory=list)
    explicit: bool = False
    excepted: bool = False


@dataclass(frozen=True, slots=True)
class _Polarity:
    """The polarity of a text.

    Attributes:
        words: All words, in lower case.
    """

    clauses: list[_Clause]
    words: frozenset[str]

    @property
    def scopes(self) -> list[list[str]]:
        return [scope for clause in self.clauses for scope in clause.scopes]

    def affirms(self, stem: str) -> bool:
        """Return whether a stem is affirmed somewhere and negated nowhere."""
        negated = any(stem in scope for scope in self.scopes)
        return not negated and any(stem in clause.affirmed for clause in self.clauses)

    def affirms_plainly(self, stem: str) -> bool:
        """Return whether a stem is affirmed in a clause without any negation, and negated nowhere."""
        plain = any(stem in clause.affirmed and not clause.scopes and not clause.excepted for clause in self.clauses)
        return plain and self.affirms(stem)


def opposite(claim: str, passage: str, terms: Terms) -> str:
    """Return what makes a claim the opposite of a passage, in words for people; "" if nothing was found.

    Args:
        claim: The claim.
        passage: The quoted sentences.
        terms: Stems words.
    """
    said, shown = _read(claim, terms), _read(passage, terms)
    found = _opposite_words(said, shown, terms)
    if found:
        return found
    explicit = any(clause.explicit and clause.scopes for clause in said.clauses)
    if explicit and not shown.scopes and shown.words.isdisjoint(_HINTS):
        return "a negation that the quotation does not have"
    if not _same_condition(said, shown):
        for scope in filter(None, shown.scopes):
            # A claim with a negation of its own may have it in another place, as in "is not available".
            head = scope[0] if scope[0] not in _LIGHT or len(scope) == 1 else scope[1]
            if said.affirms_plainly(head) or (not said.scopes and said.affirms(head)):
                return "the negation of the quotation is missing"
    # "No keeper since 1978" and "the last keeper left in 1978" say the same.
    indirect = bool(said.words & _DETERMINERS and shown.words & _HINTS)
    if not indirect and any(scope and shown.affirms_plainly(scope[0]) for scope in said.scopes):
        return "a negation that the quotation does not have at this word"
    return ""


def _opposite_words(said: _Polarity, shown: _Polarity, terms: Terms) -> str:
    for one, other in _OPPOSITES:
        for here, there in ((one, other), (other, one)):
            mine, theirs = said.words & here, shown.words & there
            if not mine or not theirs or shown.words & here or said.words & there:
                continue
            if "than" in said.words and "than" in shown.words:
                continue  # "smaller than" with exchanged names says the same
            if not _denied(said, mine, terms) ^ _denied(shown, theirs, terms):
                return f"“{min(mine)}” instead of “{min(theirs)}”"
    return ""


def _same_condition(said: _Polarity, shown: _Polarity) -> bool:
    """Return whether a claim may say "if" where the passage says "not … unless"."""
    return bool(shown.words & _EXCEPTIONS and said.words & _CONDITIONS and said.words.isdisjoint(_EXCEPTIONS))


def _denied(reading: _Polarity, words: Iterable[str], terms: Terms) -> bool:
    stems = {stem for word in words for stem in terms.of(base_form(word))}
    return any(stem in scope for scope in reading.scopes for stem in stems)


def _read(text: str, terms: Terms) -> _Polarity:
    text = _NOT_DONE.sub(" not ", _INSTEAD.sub(" without ", text))
    text = _GONE.sub(" not ", _NOT_NEGATIONS.sub(" ", text.replace("\u2019", "'")))
    tokens = [match.group().casefold() for match in _TOKEN.finditer(text)]
    clauses = [_Clause()]
    scope: list[str] | None = None
    left = 0  # how many more words the last negation reaches
    for token in tokens:
        if token in _CUES or token.endswith("n't"):
            scope, left = [], _REACH
            clauses[-1].scopes.append(scope)
            clauses[-1].explicit = True
        elif token in _BREAKS:
            scope = None
            clauses.append(_Clause(excepted=token in _EXCEPTIONS))
        elif token not in _SKIPPED:
            word, negative = _resolved(token)
            negated = scope is not None and left > 0
            for stem in terms.of(base_form(word)):
                if negative and negated and scope in clauses[-1].scopes:
                    clauses[-1].scopes.remove(scope)  # "not optional" is no negation
                    clauses[-1].affirmed.add(stem)
                    scope = None
                elif negative:
                    clauses[-1].scopes.append([stem])
                elif negated and scope is not None:
                    scope.append(stem)
                else:
                    clauses[-1].affirmed.add(stem)
            left -= 1
    return _Polarity(clauses, frozenset(tokens))


def _resolved(token: str) -> tuple[str, bool]:
    """Return a word without the negation that its meaning includes, and whether there was one."""
    if token in _NEGATIVE:
        return _NEGATIVE[token], token not in _POSITIVE
    for prefix in ("un", "non", "dis"):
        rest = token.removeprefix(prefix)
        if rest != token and len(rest) >= _LONG and rest in _NEGATED_WITH_PREFIX:
            return rest, True
    return token, False


_NEGATED_WITH_PREFIX = words(
    "supported safe likely known able used available changed signed tested common usual successful limited expected "
    "empty zero free finished paid official related fair stable reliable affected damaged inhabited occupied sold "
    "approved connected continued covered ordered organized satisfied armed authorized defined documented modified "
    "named published restricted trusted verified printable fiction profit smoking native lethal toxic flammable "
    "perishable residents refundable renewable compliant blocking"
)
