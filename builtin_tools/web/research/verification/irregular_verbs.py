"""The irregular verbs of English, so that "broke" and "break" count as one word, which a stemmer does not see."""

_FORMS = (
    "be been is are was were", "become became", "begin began begun", "bend bent", "bite bit bitten", "blow blew blown",
    "break broke broken", "bring brought", "build built", "burn burnt", "buy bought", "catch caught",
    "choose chose chosen", "come came", "creep crept", "deal dealt", "dig dug", "do did done does",
    "draw drew drawn", "drink drank drunk", "drive drove driven", "eat ate eaten", "fall fell fallen", "feed fed",
    "feel felt", "fight fought", "find found", "flee fled", "fly flew flown", "forget forgot forgotten",
    "forgive forgave forgiven", "freeze froze frozen", "get got gotten", "give gave given", "go went gone goes",
    "grow grew grown", "hang hung", "have has had", "hear heard", "hide hid hidden", "hold held", "keep kept",
    "know knew known", "lay laid", "lead led", "learn learnt", "leave left", "lend lent", "lie lay lain",
    "light lit", "lose lost", "make made", "mean meant", "meet met", "pay paid", "ride rode ridden",
    "ring rang rung", "rise rose risen", "run ran", "say said", "see saw seen", "seek sought", "sell sold",
    "send sent", "shake shook shaken", "shine shone", "shoot shot", "show shown", "shrink shrank shrunk",
    "sing sang sung", "sink sank sunk", "sit sat", "sleep slept", "speak spoke spoken", "spend spent",
    "spring sprang sprung", "stand stood", "steal stole stolen", "stick stuck", "strike struck",
    "swear swore sworn", "swim swam swum", "take took taken", "teach taught", "tear tore torn", "tell told",
    "think thought", "throw threw thrown", "understand understood", "wake woke woken", "wear wore worn",
    "win won", "withdraw withdrew withdrawn", "write wrote written",
)  # fmt: skip
_BASE = {form: forms.split()[0] for forms in _FORMS for form in forms.split()[1:]}


def base_form(word: str) -> str:
    """Return the base form of an irregular verb in lower case; any other word unchanged."""
    return _BASE.get(word, word)
