"""The profile keeps a value for each key with its history, and its prompt text changes only when it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.profile import Profile, ProfileError, ProfileItem, checked_key, shown
from builtin_tools.memory.profile_block import ProfileBlock
from builtin_tools.memory.store import MemoryStore
from engine.contract.turn import Turn
from tests.builtin_tools.memory.conftest import SetClock

ADA, BOB = "user:ada", "user:bob"
SOURCE = EntrySource(SourceKind.TOOL, user="ada", agent="main", call_id="c1")


@pytest.mark.spec("MEM-8")
def test_a_new_value_replaces_the_old_one_and_the_history_is_kept(store: MemoryStore, clock: SetClock) -> None:
    profile = Profile(store)
    first, before = profile.set(ADA, "Home city", "Bergen", SOURCE)
    assert before is None
    clock.later(days=1)
    second, before = profile.set(ADA, "home_city", "Oslo", SOURCE)
    assert before == first
    assert profile.set(ADA, "home-city", " Oslo ", SOURCE) == (second, second)
    assert [(item.key, item.value) for item in profile.items(ADA)] == [("home_city", "Oslo")]
    history = profile.history(ADA, "home_city")
    assert [(item.key, item.value) for item in history] == [("home_city", "Bergen"), ("home_city", "Oslo")]
    assert [item.until for item in history] == [clock.now().timestamp(), None]
    with store.reading() as memory:
        replaced = memory.one([ADA], first.id)
    assert replaced is not None
    assert replaced.successor == second.id
    removed = profile.remove(ADA, "home_city")
    assert removed == second
    assert profile.items(ADA) == []
    assert len(profile.history(ADA, "home_city")) == 2
    assert profile.remove(ADA, "home_city") is None


@pytest.mark.spec("MEM-8")
async def test_the_prompt_has_the_profile_of_the_turns_user_and_is_stable(store: MemoryStore) -> None:
    profile = Profile(store)
    block = ProfileBlock(profile)
    assert await block.text(Turn(user="ada"), "hello") == ""
    profile.set(ADA, "name", "Ada", SOURCE)
    profile.set(ADA, "city", "Oslo", SOURCE)
    profile.set(BOB, "name", "Bob", SOURCE)
    text = await block.text(Turn(user="ada"), "hello")
    assert text == "What is known about the user:\n- city: Oslo\n- name: Ada"
    assert await block.text(Turn(user="ada"), "another message") == text
    assert "Ada" not in await block.text(Turn(user="bob"), "hello")
    assert await block.text(Turn(user="ada", memory_spaces=("shared:*", "personal:work")), "hello") == ""


@pytest.mark.spec("MEM-8")
@pytest.mark.parametrize("key", ["", "1st", "a" * 61, "näme", "_x", "a:b"])
def test_keys_are_plain_words(store: MemoryStore, key: str) -> None:
    with pytest.raises(ProfileError, match="is not a key"):
        Profile(store).set(ADA, key, "x", SOURCE)


@pytest.mark.spec("MEM-8")
def test_long_values_and_too_many_keys_are_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtin_tools.memory.profile.MOST_KEYS", 2)
    profile = Profile(store)
    with pytest.raises(ProfileError, match="has 501"):
        profile.set(ADA, "bio", "x" * 501, SOURCE)
    profile.set(ADA, "a", "1", SOURCE)
    profile.set(ADA, "b", "1", SOURCE)
    profile.set(ADA, "b", "2", SOURCE)
    with pytest.raises(ProfileError, match="has 2 keys already"):
        profile.set(ADA, "c", "1", SOURCE)


@pytest.mark.spec("MEM-8")
@given(
    some.lists(some.tuples(some.from_regex(r"[a-z]{1,8}", fullmatch=True), some.text("xyz", max_size=40))),
    some.integers(0, 300),
)
def test_the_prompt_text_is_bounded_sorted_and_drops_what_was_stored_first(
    pairs: list[tuple[str, str]], most: int
) -> None:
    unique = dict(pairs)
    items = [ProfileItem(key, key, value, float(at)) for at, (key, value) in enumerate(unique.items())]
    text = shown(items, most)
    assert len(text) <= most
    keys = [line[2:].split(":")[0] for line in text.splitlines()]
    assert keys == sorted(keys)
    assert set(keys) == {item.key for item in items[len(items) - len(keys) :]}
    assert all(checked_key(key) == key for key in keys)
