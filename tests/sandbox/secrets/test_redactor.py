"""Redaction: no common encoding of a value passes, wherever a stream is split, and other text stays as it is."""

import base64
import html
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sandbox.secrets.redactor import Redactor
from sandbox.secrets.replacing import Needles, StreamReplacer
from sandbox.secrets.secret import MIN_VALUE, PLACEHOLDER, Secret, SecretHost, placeholder_of, variables

pytestmark = pytest.mark.spec("CODE-7")
KEY = bytes(range(32))
VALUE = 'tok/"en+é=&7Qz'
values = some.text(some.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=MIN_VALUE, max_size=40)


def secret(value: str = VALUE, name: str = "TOKEN") -> Secret:
    return Secret(name, placeholder_of(name, KEY), value)


@pytest.mark.parametrize(
    "encoded",
    [
        VALUE,
        VALUE.upper(),
        json.dumps({"a": VALUE}),
        json.dumps([VALUE], ensure_ascii=False),
        json.dumps(json.dumps({"a": json.dumps({"b": VALUE})})),
        json.dumps(json.dumps({"a": VALUE}, ensure_ascii=False), ensure_ascii=False),
        repr(VALUE),
        repr(VALUE.encode())[2:-1] if VALUE.isascii() else VALUE,
        html.escape(VALUE),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE).lower(),
        VALUE.encode().hex().upper(),
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"u:{VALUE}".encode()).decode(),
        base64.urlsafe_b64encode(f"user:{VALUE}:x".encode()).decode(),
    ],
)
def test_common_encodings_are_redacted(encoded: str) -> None:
    shown = Redactor([secret()]).text(f"before {encoded} after")
    assert secret().placeholder in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for leaked in (VALUE, VALUE.encode().hex(), quote(VALUE, safe="")):
        assert leaked.lower() not in shown.lower()


@given(values, some.text(max_size=20), some.text(max_size=20))
def test_no_text_contains_the_value_afterwards(value: str, before: str, after: str) -> None:
    redactor = Redactor([secret(value)])
    for form in (value, json.dumps(value), base64.b64encode(value.encode()).decode(), value.encode().hex()):
        shown = redactor.text(before + form + after)
        assert secret(value).placeholder in shown
        assert form not in shown.replace(secret(value).placeholder, "|")


@given(values, some.binary(max_size=5), some.binary(max_size=5))
def test_base64_of_a_longer_text_reveals_at_most_four_bits_at_each_end(value: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + value.encode() + after)
    shown = Redactor([secret(value)]).raw(encoded)
    rest = shown.replace(secret(value).placeholder.encode(), b"").rstrip(b"=")
    of_value = 8 * len(value.encode()) // 6  # characters that have only bits of the value, or one more than that
    assert len(rest) <= len(encoded.rstrip(b"=")) - of_value + 1


@given(some.binary(max_size=60), some.binary(max_size=60), some.lists(some.integers(0, 200), max_size=6))
def test_a_split_stream_is_redacted_like_a_whole_one(before: bytes, after: bytes, cuts: list[int]) -> None:
    redactor = Redactor([secret(), secret("abcabcabcab", "OTHER"), secret("abcabcabcabcab", "LONGER")])
    data = before + VALUE.encode() + b"abcabcabcabcabcab" + after + VALUE.encode()[:-1]
    bounds = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    stream = redactor.stream()
    passed = b"".join(stream.feed(data[a:b]) for a, b in itertools.pairwise(bounds)) + stream.end()
    assert passed == redactor.raw(data)


@given(some.lists(some.sampled_from([b"ab", b"aba", b"abab", b"b", b"ba", b"xabx"]), max_size=12))
def test_every_split_of_overlapping_strings_gives_the_same_result(chunks: list[bytes]) -> None:
    needles = Needles([[b"abab", b"aba"], [b"bab"]])

    def shown(number: int, found: bytes) -> bytes:
        return b"#%d" % number

    stream = StreamReplacer(needles, shown)
    passed = b"".join(map(stream.feed, chunks)) + stream.end()
    assert passed == needles.replace(b"".join(chunks), shown)


def test_a_chunk_without_the_beginning_of_a_value_is_passed_on_at_once() -> None:
    stream = Redactor([secret("zzzzzzzz9")]).stream()
    assert stream.feed(b"data: event 1\n\n") == b"data: event 1\n\n"
    assert stream.feed(b"data: zzzz") == b"data: "
    assert stream.end() == b"zzzz"


def test_values_in_nested_data_are_redacted_and_the_rest_is_kept() -> None:
    redactor = Redactor([secret()])
    clean = {"a": [1, 2.5, None, True], "b": ("x", "y")}
    assert redactor.data(clean) is clean
    shown = redactor.data({VALUE: [{"deep": (VALUE, 1)}]})
    assert VALUE not in repr(shown)
    assert shown[secret().placeholder][0]["deep"] == (secret().placeholder, 1)


def test_a_masked_text_keeps_its_length() -> None:
    text = f"before {VALUE} {VALUE.encode().hex()} after"
    shown = Redactor([secret()]).masked({"text": text, "clean": "as it was"})
    assert VALUE not in shown["text"]
    assert VALUE.encode().hex() not in shown["text"]
    assert len(shown["text"]) == len(text)
    assert shown["text"].endswith(" after")


@pytest.mark.parametrize("value", ["tiny", "1234567", "two\nlines of text", "nul\0 in the value", "x" * 9000])
def test_a_value_that_redaction_or_a_header_cannot_carry_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(ValueError, match="TOKEN") as caught:
        secret(value)
    assert value not in str(caught.value)
    assert "Use " in str(caught.value)


def test_a_placeholder_is_stable_for_one_key_and_unknown_without_it() -> None:
    first, again, other = placeholder_of("A", KEY), placeholder_of("A", KEY), placeholder_of("A", KEY[::-1])
    assert first == again != other
    assert PLACEHOLDER.fullmatch(first)
    assert PLACEHOLDER.fullmatch(placeholder_of("B", KEY))
    assert first.rpartition("-")[2] not in placeholder_of("B", KEY)


def test_a_secret_does_not_show_its_value() -> None:
    made = Secret("A", "p", "the value itself", (SecretHost("a.test", 443), SecretHost("::1", 80, tls=False)))
    assert "the value itself" not in f"{made!r} {made}"
    assert list(map(str, made.hosts)) == ["a.test:443", "http://[::1]:80"]
    assert variables([made]) == {"KNACKBOX_SECRET_A": "p"}
