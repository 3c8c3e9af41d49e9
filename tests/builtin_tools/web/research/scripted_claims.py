"""A scripted model that answers the prompts of research with claims that a test has chosen."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.agent.scripted_model import Reply, says

_SOURCE = re.compile(r'^\{"source": .*\}$', re.MULTILINE)


@dataclass(frozen=True)
class ScriptedClaim:
    """A claim of the model.

    Attributes:
        url: The page that the quotation is from.
        cited: The page that the model cites instead; "" for the right one, "another" for any other source.
    """

    text: str
    quote: str
    url: str
    cited: str = ""


def prompt_of(body: Mapping[str, Any]) -> str:
    """Return the text of a request's user messages."""
    texts = []
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "user":
            texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return "\n".join(texts)


def question_of(body: Mapping[str, Any]) -> str:
    return prompt_of(body).split("\n", 1)[0].removeprefix("Question: ")


def is_planning(body: Mapping[str, Any]) -> bool:
    """Return whether a request asks for sub-questions."""
    return "sub-questions" in json.dumps([m for m in body["messages"] if m["role"] in {"system", "developer"}])


def sources_of(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of each source in a prompt, by its URL."""
    heads = [json.loads(line) for line in _SOURCE.findall(prompt_of(body))]
    return {head["url"]: head["source"] for head in heads}


def answering(claims: Callable[[str], Sequence[ScriptedClaim]]) -> Callable[[dict[str, Any]], Reply]:
    """Return a script that plans no sub-questions and then makes the claims for the question."""

    def reply(body: dict[str, Any]) -> Reply:
        if is_planning(body):
            return says(json.dumps({"questions": []}))
        numbers = sources_of(body)
        return says(
            "```json\n"
            + json.dumps({"claims": [_claim(each, numbers) for each in claims(question_of(body))]})
            + "\n```"
        )

    return reply


def _claim(claim: ScriptedClaim, numbers: Mapping[str, int]) -> dict[str, Any]:
    right = numbers.get(claim.url, 99)
    cited = right
    if claim.cited == "another":
        cited = next(number for number in numbers.values() if number != right)
    elif claim.cited:
        cited = numbers[claim.cited]
    return {"sentence": claim.text, "quotes": [{"source": cited, "quote": claim.quote}] if claim.quote else []}
