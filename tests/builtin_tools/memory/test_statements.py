"""Rules read what a short text says about what; other words for the same attribute give the same name."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from builtin_tools.memory.entries import Statement
from builtin_tools.memory.reading import read_fact
from builtin_tools.memory.statement_words import differences, same_value, skeleton_of
from builtin_tools.memory.statements import read_statement

pytestmark = pytest.mark.spec("MEM-5")
UTC = ZoneInfo("UTC")
NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)


def said(text: str) -> tuple[str, str, str] | None:
    read = read_statement(text)
    return None if read is None else (read.statement.subject, read.statement.attribute, read.statement.value)


@pytest.mark.parametrize(
    ("texts", "subject", "attribute", "value"),
    [
        (
            "Ada lives in Rome.|Ada moved to Rome|Ada has relocated from Oslo to Rome.|Ada's home is Rome|Ada is based in Rome",
            "ada",
            "home",
            "Rome",
        ),
        ("I live in Rome|I'm living in Rome now.|I moved to Rome|My home is Rome", "user", "home", "Rome"),
        ("My sister moved to Rome.|My sister lives in Rome", "user's sister", "home", "Rome"),
        (
            "Bob works at Acme|Bob joined Acme|Bob's employer is Acme|Bob left Initech for Acme|Bob was hired by Acme|"
            "Bob now works for Acme as a welder|Bob has worked for Acme|Bob changed jobs and now works at Acme",
            "bob",
            "employer",
            "Acme",
        ),
        ("Bob is 41 years old|Bob turned forty-one.|Bob's age is 41", "bob", "age", "41"),
        ("Ada's boss is Eve|Ada reports to Eve|Eve is Ada's new manager", "ada", "manager", "Eve"),
        (
            "Ada's phone number is 555-99|Ada changed her phone number to 555-99|Ada can be reached at 555-99",
            "ada",
            "phone",
            "555-99",
        ),
        (
            "The capital of Examplia is Foo|Foo is the capital of Examplia|Examplia's capital is now Foo",
            "examplia",
            "capital",
            "Foo",
        ),
        (
            "Eve is the head of Sales|Eve replaced Bob as head of Sales|Eve took over as head of Sales",
            "sales",
            "head",
            "Eve",
        ),
        (
            "The deadline is Friday|The deadline was moved to Friday.|The deadline has been moved from Monday to Friday",
            "deadline",
            "value",
            "Friday",
        ),
        (
            "Our office is in Lyon|The office moved to Lyon|The office has moved from Nice to Lyon.",
            "office",
            "place",
            "Lyon",
        ),
        ("Ada's favourite colour is blue|Ada's favorite color is now blue", "ada", "favorite color", "blue"),
        ("Ada married Bob|Ada is married to Bob|Ada's husband is Bob", "ada", "spouse", "Bob"),
    ],
)
def test_other_words_give_the_same_statement(texts: str, subject: str, attribute: str, value: str) -> None:
    for text in texts.split("|"):
        assert (text, said(text)) == (text, (subject, attribute, value))


@pytest.mark.parametrize(
    "text", ["Ada no longer lives in Rome.", "Ada doesn't live in Rome anymore", "Ada moved out of Rome"]
)
def test_a_denial_negates_the_statement(text: str) -> None:
    read = read_statement(text)
    assert read is not None
    assert read.statement == Statement("ada", "home", "Rome", negated=True)


@pytest.mark.parametrize(
    "text", ["Ada likes tea", "Ada speaks French", "Ada is allergic to nuts", "Ada's brother is Max"]
)
def test_some_attributes_have_several_values(text: str) -> None:
    read = read_statement(text)
    assert read is not None
    assert read.statement.multiple


@pytest.mark.parametrize("text", ["", "He lives in Rome", "Where does Ada live?", "Hello there", "x " * 400])
def test_a_text_that_names_no_subject_has_no_statement(text: str) -> None:
    assert said(text) is None


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Ada moved to Berlin in 2021", "2021-01-01", ""),
        ("Since 2019 Ada works at Acme.", "2019-01-01", ""),
        ("As of June 2023, Ada's boss is Eve.", "2023-06-01", ""),
        ("Ada lived in Paris from 2015 to 2020", "2015-01-01", "2021-01-01"),
        ("Ada was born on 5 May 1990", "", ""),
        ("The meeting is on Friday at 3pm", "", ""),
        ("The meeting was moved to Monday", "", ""),
    ],
)
def test_the_time_in_which_a_fact_holds_is_read(text: str, since: str, until: str) -> None:
    read = read_fact(text, NOW, UTC)
    days = [
        "" if each is None else datetime.fromtimestamp(each, UTC).date().isoformat()
        for each in (read.holds_from, read.holds_to)
    ]
    assert read.statement is not None
    assert days == [since, until]


def test_values_are_the_same_if_one_has_more_detail() -> None:
    assert same_value("Paris", "paris, France")
    assert same_value("the Volvo", "a Volvo")
    assert same_value("two", "2")
    assert not same_value("York", "New York")
    assert not same_value("4", "5")


def test_texts_that_differ_in_numbers_or_negation_have_one_skeleton() -> None:
    one, two, three = (
        "The train takes 20 minutes",
        "The train takes thirty minutes",
        "The train doesn't take 20 minutes",
    )
    assert skeleton_of(one) == skeleton_of(two) == skeleton_of(three)
    assert (differences(one, two), differences(one, three), differences(one, one)) == ("numbers", "negation", "")
    assert skeleton_of(one) != skeleton_of("The bus takes 20 minutes")
