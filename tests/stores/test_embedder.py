"""The embedder: the same vectors as those of its library, without network access and side effects."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.contract.failure import ConfigError
from engine.stores import embedder as module
from engine.stores.embedder import MAX_CHARACTERS, WordLlamaEmbedder

TEXTS = ["Find the area of a triangle.", "x", "naïve café 😀", "one\ntwo\tthree", "snake_case and CamelCase 42"]
LIBRARY = """
import json, pathlib, sys, wordllama
from wordllama import WordLlama
model = WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
print(json.dumps(model.embed(json.loads(sys.argv[1]), norm=True).tolist()))
"""
OURS = """
import logging, socket, sys
def refuse(*_):
    raise AssertionError("the network was asked")
socket.socket.connect = refuse
from engine.stores.embedder import WordLlamaEmbedder
WordLlamaEmbedder().embed(["hello"])
print(logging.getLogger().handlers, "wordllama" in sys.modules)
"""


EMBEDDER = WordLlamaEmbedder()


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout.strip().splitlines()[-1]


def test_vectors_are_equal_to_those_of_the_library() -> None:
    assert np.allclose(EMBEDDER.embed(TEXTS), json.loads(run(LIBRARY, json.dumps(TEXTS))), atol=1e-6)


def test_it_loads_without_network_and_does_not_configure_logging() -> None:
    assert run(OURS) == "[] False"


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text(max_size=200), max_size=5))
def test_rows_are_unit_vectors_in_order(texts: list[str]) -> None:
    vectors = EMBEDDER.embed(texts)
    assert vectors.shape == (len(texts), EMBEDDER.dimensions)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert all(abs(length - 1) < 1e-5 or length == 0 for length in lengths)
    for row, text in zip(vectors, texts, strict=True):
        assert np.array_equal(row, EMBEDDER.embed([text])[0])


def test_texts_of_similar_meaning_have_similar_vectors() -> None:
    query, near, far = EMBEDDER.embed(["send an email", "mail a message to somebody", "area of a triangle"])
    assert query @ near > query @ far


def test_a_text_without_words_is_zero_and_a_long_one_is_truncated() -> None:
    assert not EMBEDDER.embed([""]).any()
    long = "word " * MAX_CHARACTERS
    assert np.array_equal(EMBEDDER.embed([long]), EMBEDDER.embed([long[:MAX_CHARACTERS]]))


def test_missing_files_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEIGHTS", "TOKENIZER"):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, "no/such/file")
            with pytest.raises(ConfigError, match=r"no/such/file.*force-reinstall"):
                WordLlamaEmbedder()
