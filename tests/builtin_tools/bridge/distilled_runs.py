"""Ten requests with the programs that a model wrote for them, and later requests in other words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CLIENT = "from knackbox import ToolError, tools\n"
NOTE_DEADLINE = '''# /// script
# [tool.knackbox]
# tools = ["knowledge_base", "recall"]
# ///
from knackbox import tools


def note_deadline(project: str, date: str) -> int:
    """Remember the deadline of a project, unless it is known, and return how many entries there are already.

    Args:
        project: Such as 'Apollo'.
        date: Such as '2026-12-01'.
    """
    known = tools.recall(query=f"deadline of the project {project}", limit=3)["hits"]
    texts = [hit["text"] for hit in known if project in hit["text"]]
    if not texts:
        tools.knowledge_base(action="insert_fact", text=f"The deadline of the project {project} is {date}.")
    return len(texts)
'''
NOTE_DEADLINE_TESTS = """import pytest
from knackbox import ToolError

from note_deadline import note_deadline

ASKED = {"query": "deadline of the project Apollo", "limit": 3}
NOTED = {"action": "insert_fact", "text": "The deadline of the project Apollo is 2026-12-01."}
RECORDED = [
    {"tool": "recall", "arguments": ASKED, "value": {"hits": []}},
    {"tool": "knowledge_base", "arguments": NOTED, "value": {"known": False}},
]


def test_an_unknown_deadline_is_noted(tools):
    tools.answers(RECORDED)
    assert note_deadline("Apollo", "2026-12-01") == 0
    assert tools.calls == [("recall", ASKED), ("knowledge_base", NOTED)]


def test_the_deadline_of_another_project_is_not_enough(tools):
    tools.answers(RECORDED)
    tools.returns("recall", {"hits": [{"text": "Gemini is due."}]})
    tools.returns("knowledge_base", "noted")
    assert note_deadline("Apollo", "2026-12-01") == 0
    assert tools.calls[1:] == [("knowledge_base", NOTED)]


def test_known_deadlines_are_counted(tools):
    tools.answers(RECORDED)
    tools.returns("recall", {"hits": [{"text": "Apollo is due."}, {"text": "Gemini is."}, {"text": "Due: Apollo"}]})
    assert note_deadline("Apollo", "2026-12-01") == 2
    assert tools.calls == [("recall", ASKED)]


@pytest.mark.parametrize("tool", ["recall", "knowledge_base"])
def test_a_failure_is_passed_on(tools, tool):
    tools.answers(RECORDED)
    tools.fails(tool, "denied")
    with pytest.raises(ToolError) as caught:
        note_deadline("Apollo", "2026-12-01")
    assert caught.value.reason == "denied"
"""
FILES = {
    "orders.csv": "id,city,amount\n1,Oslo,120\n2,Bergen,80\n3,Oslo,45\n4,Narvik,300\n5,Bergen,15\n",
    "visits.csv": "id,city,amount\n1,Rome,7\n2,Rome,9\n3,Oslo,1\n",
    "server.log": "INFO start\nERROR disk full\nINFO write\nERROR disk full\nERROR no route\nINFO stop\n",
    "notes/a.md": "# Alpha\nTODO call Ada\ntext\n",
    "notes/b.md": "# Beta\nTODO send report\nTODO book room\n",
    "settings.ini": "[main]\nhost=example\nport=8080\n# comment\nretries=3\n",
}


@dataclass(frozen=True)
class DistilledRun:
    """One run.

    Attributes:
        request: What the user asked for.
        program: The program with which the model answered.
        later: A later request, in other words.
        arguments: The arguments with which the skill answers the later request, by the value that they had in the run.
        result: What it should return then.
        corrections: What the model sends after a refusal.
    """

    request: str
    program: str
    later: str
    arguments: Mapping[Any, Any]
    result: Any
    corrections: Mapping[str, Any] = field(default_factory=dict)


RUNS = [
    DistilledRun(
        "Sum the amounts of the orders from Oslo in orders.csv",
        """
text = tools.file_system(action="read", path="orders.csv")["content"]
total = 0
for line in text.splitlines()[1:]:
    number, city, amount = line.split(",")
    if city == "Oslo":
        total += int(amount)
total
""",
        "What is the total amount of all rows for Rome in the file visits.csv?",
        {"orders.csv": "visits.csv", "Oslo": "Rome"},
        16,
    ),
    DistilledRun(
        "Count how often each ERROR message occurs in server.log",
        """
counts = {}
found = tools.file_system(action="search", path="server.log", pattern="ERROR")
for match in found["matches"]:
    message = match["text"].split(" ", 1)[1]
    counts[message] = counts.get(message, 0) + 1
counts
""",
        "Tell me the frequency of all INFO messages of the log server.log",
        {"ERROR": "INFO", "server.log": "server.log"},
        {"start": 1, "write": 1, "stop": 1},
    ),
    DistilledRun(
        "Collect the lines with TODO from all files in the folder notes",
        """
lines = []
for entry in tools.file_system(action="find", path="notes", pattern="*.md")["entries"]:
    content = tools.file_system(action="read", path=entry["path"])["content"]
    for line in content.splitlines():
        if line.startswith("TODO"):
            lines.append(entry["path"].split("/")[-1] + ": " + line.replace("TODO", "").strip())
sorted(lines)
""",
        "Which open TODO items are there in the markdown files of notes?",
        {"TODO": "TODO", "notes": "notes"},
        ["a.md: call Ada", "b.md: book room", "b.md: send report"],
    ),
    DistilledRun(
        "How warm is it in Oslo compared with Rome? Give the difference in degrees",
        """
first = tools["weather.now"](city="Oslo")["degrees"]
second = tools["weather.now"](city="Rome")["degrees"]
difference = second - first
f"{'warmer' if difference < 0 else 'colder'} by {abs(difference)} degrees"
""",
        "Compare the temperatures of Narvik and Bergen",
        {"Oslo": "Narvik", "Rome": "Bergen"},
        "colder by 12 degrees",
    ),
    DistilledRun(
        "Which of the cities Oslo,Rome,Bergen is the warmest now?",
        """
cities = "Oslo,Rome,Bergen"
best, most = None, None
for city in cities.split(","):
    degrees = tools["weather.now"](city=city)["degrees"]
    if most is None or degrees > most:
        best, most = city, degrees
{"city": best, "degrees": most}
""",
        "Find the hottest city among Narvik,Oslo",
        {"Oslo,Rome,Bergen": "Narvik,Oslo"},
        {"city": "Oslo", "degrees": 4},
    ),
    DistilledRun(
        "Write a report report.txt with the total amount per city in orders.csv",
        """
totals = {}
for line in tools.file_system(action="read", path="orders.csv")["content"].splitlines()[1:]:
    _, city, amount = line.split(",")
    totals[city] = totals.get(city, 0) + int(amount)
report = "\\n".join(f"{city}: {totals[city]}" for city in sorted(totals))
tools.file_system(action="write", path="report.txt", content=report)
report
""",
        "Save the sums by city of visits.csv in a file totals.txt",
        {"orders.csv": "visits.csv", "report.txt": "totals.txt"},
        "Oslo: 1\nRome: 16",
    ),
    DistilledRun(
        "Look up the price of the product lamp and compute the price of 7 pieces with 10 percent discount",
        """
price = tools.price_of(product="lamp")
total = price * 7
discount = total * 10 / 100
print(f"{total - discount:.2f}")
""",
        "What do 2 chairs cost at a discount of 50 percent?",
        {"lamp": "chair", 7: 2, 10: 50},
        "40.00",
    ),
    DistilledRun(
        "Remember in the memory that the deadline of the project Apollo is 2026-12-01, unless it is known",
        """
known = tools.recall(query="deadline of the project Apollo", limit=3)["hits"]
texts = [hit["text"] for hit in known if "Apollo" in hit["text"]]
if not texts:
    tools.knowledge_base(action="insert_fact", text="The deadline of the project Apollo is 2026-12-01.")
len(texts)
""",
        "Note in memory the deadline 2027-01-15 of project Gemini if we do not have it yet",
        {"Apollo": "Gemini", "2026-12-01": "2027-01-15"},
        0,
        {"name": "note_deadline", "code": NOTE_DEADLINE, "tests": NOTE_DEADLINE_TESTS},
    ),
    DistilledRun(
        "Read the settings in settings.ini and return them as a mapping",
        """
settings = {}
for line in tools.file_system(action="read", path="settings.ini")["content"].splitlines():
    if "=" in line and not line.startswith("#"):
        name, value = line.split("=", 1)
        settings[name] = int(value) if value.isdigit() else value
settings
""",
        "Parse the configuration of settings.ini",
        {"settings.ini": "settings.ini"},
        {"host": "example", "port": 8080, "retries": 3},
    ),
    DistilledRun(
        "List the products that cost at least 30, or say that a price is unknown",
        """
result = []
for product in ["lamp", "chair", "sofa", "rug"]:
    try:
        if tools.price_of(product=product) >= 30:
            result.append(product)
    except ToolError as failed:
        result.append(f"{product}: {failed.reason}")
result
""",
        "Which articles have a price of 100 or more?",
        {30: 100},
        ["sofa", "rug: no_price"],
    ),
]
