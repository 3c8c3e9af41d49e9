"""Counts tokens with the tokenizer of Llama 2, which the embedder's package contains, so nothing is downloaded."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from tokenizers import Tokenizer

from engine.stores.embedder import TOKENIZER


class TokenCounter:
    """Counts the tokens of requests and responses.

    A request is counted as its JSON text. Providers write it in other ways, but need every part of it.
    """

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(files("wordllama") / TOKENIZER))
        self._known = lru_cache(maxsize=4096)(self._count)  # a conversation repeats its messages

    def of(self, value: Any) -> int:
        """Return the number of tokens of a JSON value."""
        return self._known(json.dumps(value, ensure_ascii=False))

    def of_request(self, body: dict[str, Any]) -> int:
        """Return the number of tokens of the messages and the tools of a request."""
        return sum(self.of(each) for each in (*body["messages"], *body.get("tools", ())))

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
