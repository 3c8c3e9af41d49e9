"""Makes the name, the description and the examples of a distilled skill from the requests of its runs."""

import re
from collections.abc import Iterable, Sequence

from acquired_skills.distil.parameters import ChosenParameter
from acquired_skills.model.names import name_problems
from acquired_skills.proof.static_checks import MAX_EXAMPLE

_MOST_WORDS = 5  # of a name
_WORD = re.compile(r"[a-z][a-z0-9]*")
_FILLERS = frozenset(
    (
        *(
            "a",
            "all",
            "an",
            "and",
            "are",
            "as",
            "at",
            "be",
            "by",
            "each",
            "every",
            "for",
            "from",
            "give",
            "have",
            "how",
        ),
        *("i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "to", "up", "us", "was", "what", "when", "where", "which"),
        *("who", "will", "with", "you", "your"),
    )
)


def skill_name_for(request: str, parameters: Sequence[ChosenParameter]) -> str:
    """Return a name made of the words of a request, without the values of parameters."""
    values = {word for each in parameters for word in _WORD.findall(str(each.value).lower())}
    words = [word for word in _WORD.findall(request.lower()) if word not in _FILLERS | values]
    name = "_".join(words[:_MOST_WORDS])[:60].strip("_")
    return name if name and not name_problems(name, frozenset()) else f"distilled_{name or 'program'}"[:60].strip("_")


def description_for(request: str, parameters: Sequence[ChosenParameter], tools: Sequence[str]) -> str:
    """Return a description: the request, the parameters and the tools."""
    names = ", ".join(each.name for each in parameters)
    ways = f", for any {names}" if names else ""
    asked = " ".join(request.split()) or "the request of its run"
    return f"{asked.rstrip('.')}{ways}. It calls {', '.join(tools)}."


def examples_for(requests: Iterable[str]) -> tuple[str, ...]:
    """Return the requests that can be examples of the skill, each once."""
    whole = dict.fromkeys(" ".join(each.split()) for each in requests)
    return tuple(each for each in whole if 0 < len(each) <= MAX_EXAMPLE)
