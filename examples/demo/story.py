"""The scenes of the demo: learn, find, call, recover from failures, delete."""

import json

from .moves import Say, Scene, Use
from .skills import COLLATZ_CODE, COLLATZ_TESTS, GROUP_MEDIAN_CODE, PROVES_IT, PROVES_NOTHING

DATA_FILE = "penguins.csv"
_PROPOSAL = {
    "name": "group_median",
    "description": "Median of a numeric column of a CSV table for each group of rows, leaving out missing values.",
    "code": GROUP_MEDIAN_CODE,
    "examples": [
        "What is the median flipper length per island?",
        "How heavy is a typical animal of each kind?",
        "Summarize a column of a table by group, ignoring gaps",
    ],
}
_COLLATZ = {
    "name": "collatz_steps",
    "description": "Number of steps of the Collatz rule until 1 is reached.",
    "code": COLLATZ_CODE,
    "tests": COLLATZ_TESTS,
    "timeout_s": 1.0,
}


def _sentence(result: str) -> str:
    """Return a sentence about the result."""
    try:
        medians = json.loads(result)
        return "Typical (median) body mass: " + ", ".join(f"{k} {v / 1000:.2f} kg" for k, v in medians.items()) + "."
    except (ValueError, AttributeError, TypeError):
        return f"The tool answered: {result}"


SCENES = (
    Scene(
        "Learn: a skill is refused while its test proves nothing, and admitted with better tests",
        f"Our penguin measurements are in {DATA_FILE}. Learn to give the median of a column per group, without gaps.",
        (
            Use("create_skill", {**_PROPOSAL, "tests": PROVES_NOTHING}),
            Use("create_skill", {**_PROPOSAL, "tests": PROVES_IT}),
            Say("Learned: group_median, with tests that prove it."),
        ),
        (("a test that proves nothing: refused", False), ("better tests: admitted", True)),
    ),
    Scene(
        "Find: the right skill is found in another conversation, by other words",
        f"How heavy is a typical penguin of each species in {DATA_FILE}? Some rows have no weight.",
        (
            Use("group_median", {"path": DATA_FILE, "group": "species", "column": "body_mass_g"}),
            Say(_sentence),
        ),
        (("found again and used on the file", True),),
    ),
    Scene(
        "A wrong argument is explained and corrected",
        f"And what is the typical flipper length of penguins on each island in {DATA_FILE}, by group median?",
        (
            Use("group_median", {"path": DATA_FILE, "by": "island", "column": "flipper_length_mm"}),
            Use("group_median", {"path": DATA_FILE, "group": "island", "column": "flipper_length_mm"}),
            Say(lambda result: f"Median flipper length in mm: {result}"),
        ),
        (("a wrong argument: explained", False), ("corrected", True)),
    ),
    Scene(
        "A flaky tool is retried",
        "What is the weather on Torgersen?",
        (Use("station_weather", {"island": "Torgersen"}), Say(lambda result: f"On Torgersen: {result}")),
        (("503, then 200: retried", True),),
    ),
    Scene(
        "A tool whose service is down leads to its fallback",
        "What does the station archive say about Torgersen?",
        (
            Use("station_archive", {"island": "Torgersen"}),
            Use("station_notes", {"island": "Torgersen"}),
            Say(lambda result: f"The archive is down; the notes say: {result}"),
        ),
        (("nobody listens: a fallback is suggested", False), ("the fallback", True)),
    ),
    Scene(
        "A runaway skill is killed",
        "Learn to count Collatz steps, and tell me the counts for 27 and for 0.",
        (
            Use("create_skill", _COLLATZ),
            Use("collatz_steps", {"start": 27}),
            Use("collatz_steps", {"start": 0}),
            Say("27 takes 111 steps. From 0 the rule never reaches 1: the skill was stopped at its time limit."),
        ),
        (("admitted", True), ("an answer", True), ("an endless loop: killed", False)),
    ),
    Scene(
        "List and delete",
        "Show me your skills, then delete the one about Collatz.",
        (
            Use("manage_skills", {"action": "list"}),
            Use("manage_skills", {"action": "delete", "name": "collatz_steps"}),
            Use("manage_skills", {"action": "list"}),
            Say("Deleted collatz_steps; the others stay."),
        ),
        (("listed", True), ("deleted", True), ("gone from the list", True)),
    ),
)
