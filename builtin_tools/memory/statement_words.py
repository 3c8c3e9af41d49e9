"""The word lists for the rules of `statements`, and functions that normalize words, numbers and values."""

import re


def words(text: str) -> tuple[str, ...]:
    """Split a string constant into words."""
    return tuple(text.split())


MOST_CHARACTERS = 300  # in longer texts, the rules would misread parts
FIRST_PERSON = frozenset({"i", "me", "we", "user", "the user", "myself"})
PRONOUNS = frozenset(words("he she it they this that these those there here who which what you his her their its"))
PERSON_NOUNS = frozenset(
    words(
        "sister brother mother mum mom father dad parents wife husband partner girlfriend boyfriend fiancee fiance "
        "friend boss manager colleague coworker son daughter child kid neighbour neighbor aunt uncle cousin niece "
        "nephew grandmother grandfather grandma grandpa grandson granddaughter ex roommate flatmate doctor dentist "
        "teacher student landlord accountant lawyer assistant family user team"
    )
)
ROLES = frozenset(
    words(
        "ceo cto cfo president chair chairman chairwoman director head leader lead captain capital mayor king queen "
        "owner author founder manager treasurer secretary coach editor minister chancellor"
    )
)
NOUNS = {  # words for an attribute -> normalized name of the attribute
    **dict.fromkeys(("home", "residence", "home city", "city of residence", "place of residence"), "home"),
    **dict.fromkeys(("address", "home address", "postal address", "street address"), "address"),
    **dict.fromkeys(("employer", "company", "workplace", "place of work"), "employer"),
    **dict.fromkeys(("job", "profession", "occupation", "job title", "title", "position", "role"), "job"),
    **dict.fromkeys(("boss", "manager", "supervisor", "line manager", "team lead"), "manager"),
    **dict.fromkeys(("wife", "husband", "spouse"), "spouse"),
    **dict.fromkeys(("girlfriend", "boyfriend", "partner", "fiance", "fiancee"), "partner"),
    **dict.fromkeys(
        ("phone number", "phone", "mobile number", "mobile", "cell phone number", "cell", "telephone number", "number"),
        "phone",
    ),
    **dict.fromkeys(("email", "e-mail", "email address", "e-mail address", "mail address"), "email"),
    **dict.fromkeys(("birthday", "date of birth", "birth date"), "birthday"),
    **dict.fromkeys(("birthplace", "place of birth"), "place of birth"),
    **dict.fromkeys(("price", "cost"), "price"),
    **dict.fromkeys(("salary", "pay", "wage", "income"), "salary"),
    **dict.fromkeys(("location", "place", "whereabouts"), "place"),
    **dict.fromkeys(("name", "full name"), "name"),
    **dict.fromkeys(("car", "vehicle"), "car"),
    **dict.fromkeys(("school", "university", "college"), "school"),
    **dict.fromkeys(("deadline", "due date"), "deadline"),
    **dict.fromkeys(("time zone", "timezone"), "time zone"),
    **{
        word: word
        for word in words(
            "age height weight length width duration version port password capital population status owner budget "
            "size language setting nickname username nationality religion major blood type shoe size diet schedule "
            "color"
        )
    },
}
NOUNS |= {"blood type": "blood type", "shoe size": "shoe size", "marital status": "marital status"}
MULTIPLE_NOUNS = frozenset(
    words(
        "brother sister friend child kid son daughter hobby language pet colleague coworker allergy cousin aunt "
        "uncle niece nephew neighbour neighbor roommate skill interest friend grandchild dog cat friends hobbies "
        "children pets siblings languages allergies skills interests colleagues"
    )
)
_CONTRACTIONS = (
    (r"\b(can)(?:'t|not)\b", r"\1 not"),
    (r"\bwon't\b", "will not"),
    (r"n't\b", " not"),
    (r"\b(I)'m\b", r"\1 am"),
    (r"\b(I|you|we|they)'ve\b", r"\1 have"),
    (r"\b(you|we|they)'re\b", r"\1 are"),
)
_NUMBER_WORDS = {
    word: str(at)
    for at, word in enumerate(
        words(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty"
        )
    )
    if at != 1  # "one" is omitted, because it is mostly a pronoun
}
_TENS = {word: 10 * at for at, word in enumerate(words("twenty thirty forty fifty sixty seventy eighty ninety"), 2)}
_NUMBER = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>one|two|three|four|five|six|seven|eight|nine))?"
    rf"|(?P<word>{'|'.join(_NUMBER_WORDS)}))\b",
    re.IGNORECASE,
)
_COLORS = frozenset(
    words(
        "red green blue yellow orange purple violet pink brown black white gray grey silver gold beige turquoise navy"
    )
)
_DAYS = (
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|"
    r"september|october|november|december|tomorrow|today|noon|midnight"
)
_VALUE = re.compile(rf".*\d.*|(?:.*\b)?(?:{_DAYS})\b.*|https?://.*|\S+@\S+|[\"'`].*", re.IGNORECASE)
_NEGATIONS = frozenset(words("not no never longer none neither nor"))
_FILLERS = frozenset(
    words(
        "a an the is are was were be been am do does did has have had will would of in at on to for and or that this "
        "it now currently still anymore very"
    )
)


def expanded(text: str) -> str:
    """Return a text without contractions: "doesn't" becomes "does not"."""
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for pattern, replacement in _CONTRACTIONS:
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    return text


def number_words(text: str) -> str:
    """Return a text with small numbers as digits: "two" becomes "2"."""

    def digits(found: re.Match[str]) -> str:
        if found["word"]:
            return _NUMBER_WORDS[found["word"].lower()]
        ones = words("one two three four five six seven eight nine")
        return str(_TENS[found["tens"].lower()] + (ones.index(found["ones"].lower()) + 1 if found["ones"] else 0))

    return _NUMBER.sub(digits, text)


def looks_like_value(text: str) -> bool:
    """Return whether a text names one value of a property: a number, a date, a color, a name, an address."""
    clean = text.strip()
    if _VALUE.fullmatch(clean) or clean.lower() in _COLORS:
        return True
    rest = re.sub(r"^(?:the|an?) ", "", clean)
    return bool(rest) and rest[0].isupper()


def looks_like_time(text: str) -> bool:
    """Return whether a text names a day or a time of day."""
    return bool(re.search(rf"\b(?:{_DAYS})\b|\d{{1,2}}:\d\d|\d ?[ap]m\b|\d{{4}}-\d\d", text, re.IGNORECASE))


def same_value(one: str, other: str) -> bool:
    """Return whether two values are equal or one extends the other, such as "Paris" and "Paris, France"."""
    first, second = value_words(one), value_words(other)
    shorter = min(len(first), len(second))
    return bool(shorter) and first[:shorter] == second[:shorter]


def value_words(text: str) -> list[str]:
    """Return the words of a value in lower case, without articles, with numbers as digits."""
    found = re.findall(r"[\w@+.:/%°€$£'-]+", number_words(text.lower()))
    return [word.strip(".'-:") for word in found if word not in ("a", "an", "the", "my", "his", "her", "their", "our")]


def skeleton_of(text: str) -> str:
    """Return a key that is equal for texts that differ only in numbers or negation; "" if the text is too long."""
    return " ".join(sorted(skeleton_words(text))) if len(text) <= MOST_CHARACTERS else ""


def skeleton_words(text: str) -> set[str]:
    """Return the stems of the content words of a text, without numbers and negations."""
    found = re.findall(r"[^\W\d_]{2,}", number_words(expanded(text.lower())))
    return {_stem(word) for word in found if word not in _FILLERS and word not in _NEGATIONS}


def differences(one: str, other: str) -> str:
    """Return how two texts with the same skeleton differ: ``"negation"``, ``"numbers"`` or ``""``."""
    if _negated(one) != _negated(other):
        return "negation"
    return "numbers" if _numbers(one) != _numbers(other) else ""


def _negated(text: str) -> bool:
    found = re.findall(r"[a-z]+", expanded(text.lower()))
    return bool(sum(word in _NEGATIONS and word != "longer" for word in found) % 2)


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d[\d.,:]*\d|\d", number_words(text.lower())))


def _stem(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word  # noqa: PLR2004 -- "is", "was"
