"""Facts that say the same are recognized, and facts that differ in anything that matters are not."""

import itertools
import random

import pytest

from builtin_tools.memory.dream.near_duplicates import NearDuplicates
from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, SourceKind
from engine.stores.embedder import WordLlamaEmbedder

SAME = [
    ("Ada plays tennis on Friday evenings.", "On Friday evenings Ada plays tennis"),
    ("The movie begins at 8 pm.", "The film starts at 8 pm"),
    ("Ada purchased a large car in March.", "Ada bought a big automobile in March."),
    ("The kids need their vaccination cards.", "The children need their vaccination cards!"),
    ("My phone is usually on the kitchen table.", "My telephone is on the kitchen table"),
    ("The parcel for Bob is in the hallway.", "The parcel for Bob is currently in the hallway."),
    ("We don't eat meat.", "We do not eat meat"),
    ("Two chairs in the office are broken.", "2 chairs in the office are broken."),
]
DIFFERENT = [
    ("Ada plays tennis on Friday.", "Ada plays tennis on Monday."),
    ("The meeting starts at 8.", "The meeting starts at 9."),
    ("The meeting starts at 8.", "The meeting ends at 8."),
    ("The dog bit the postman.", "The postman bit the dog."),
    ("Ada lent Bob her bike.", "Bob lent Ada her bike."),
    ("Ada likes tea.", "Ada likes coffee."),
    ("Ada likes tea.", "Ada does not like tea."),
    ("The box is upstairs in the study.", "The box is downstairs in the study."),
    ("The key to the garage is blue.", "The key to the garage is red."),
    ("Ada drinks tea.", "Ada drinks tea with milk and sugar."),
    ("The server in Oslo is down.", "The server in Bergen is down."),
    ("Bob sold his car.", "Bob bought his car."),
    ("Version 1.2 fixes the login.", "Version 1.3 fixes the login."),
    ("My mother is called Eva.", "My sister is called Eva."),
]


def fact(text: str, at: int = 0) -> Entry:
    source = EntrySource(SourceKind.USER, user="ada")
    return Entry(
        f"{at:032d}", "user:ada", "personal:general", EntryKind.FACT, text, source,
        title="", document="", position=0, learned=float(at), holds_from=None, holds_to=None, successor="",
        statement=None, skeleton="", data={}, generation=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compare() -> NearDuplicates:
    return NearDuplicates(WordLlamaEmbedder())


@pytest.mark.spec("MEM-9")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_fact_in_other_words_is_recognised(compare: NearDuplicates, one: str, other: str) -> None:
    assert compare.same(fact(one), fact(other))
    assert compare.same(fact(other), fact(one))


@pytest.mark.spec("MEM-9")
@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_facts_that_differ_in_what_matters_stay_apart(compare: NearDuplicates, one: str, other: str) -> None:
    assert not compare.same(fact(one), fact(other))
    assert not compare.same(fact(other), fact(one))


PEOPLE = ["Ada", "Bob", "Carla", "David", "Eva", "Farid", "Greta", "Hugo", "Iris", "Jonas"]
THINGS = ["bicycle", "laptop", "guitar", "camera", "garden", "boat", "tent", "kettle", "drill", "piano"]
PLACES = ["garage", "attic", "kitchen", "office", "cellar", "library", "shed", "hallway", "bathroom", "studio"]


@pytest.mark.spec("MEM-9")
def test_ninety_five_percent_of_200_near_duplicates_are_found_and_none_of_2000_facts_is_taken_for_another(
    compare: NearDuplicates,
) -> None:
    chance = random.Random(5)
    every = [
        (f"{person} keeps the {thing} in the {place}.", f"{person} keeps her {thing} in the {place} now")
        for person, thing, place in itertools.product(PEOPLE, THINGS, PLACES)
    ]
    every += [
        (
            f"The repair of the {thing} cost {price} euros in the {place}.",
            f"In the {place} the repair of the {thing} cost {price} euros",
        )
        for thing, place, price in itertools.product(THINGS, PLACES, range(20, 30))
    ]
    chosen = chance.sample(range(2000), 200)
    found = sum(compare.same(fact(every[at][0]), fact(every[at][1])) for at in chosen)
    assert found >= 190
    facts = [fact(text) for text, _ in every]
    wrong = [
        (facts[one].text, facts[other].text)
        for one in chance.sample(range(2000), 300)
        for other in {one ^ 1, (one + 10) % 2000, (one + 100) % 2000, chance.randrange(2000)} - {one}
        if compare.same(facts[one], facts[other])
    ]
    assert wrong == []
