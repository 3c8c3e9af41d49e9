"""Research on the 40 scripted questions, and checks of facts, through a real Tor network and a form as DuckDuckGo's."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.web.research.report_check import check_report
from tests.builtin_tools.web.corpus.server import serving_on
from tests.builtin_tools.web.corpus.web import DUCKDUCKGO, CorpusWeb
from tests.builtin_tools.web.research.material_pages import PARTS, pages_of
from tests.builtin_tools.web.research.scripted_facts import planned_facts
from tests.builtin_tools.web.research.served_web import served
from tests.builtin_tools.web.research.test_forty_questions import (
    CHANGED,
    INVENTED,
    TRUE,
    WRONG_SOURCE,
    planned,
    state_of,
)
from tests.builtin_tools.web.tor_network import REPOSITORY, TorNetwork

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
SCRIPT = [sys.executable, str(REPOSITORY / "tests/builtin_tools/web/research/research_script.py")]
DEADLINE_S = 700.0
PAGES = {page.url: page for part in PARTS for page in pages_of(part)}
_SPACE = re.compile(r"\s+")


@contextmanager
def serving_behind_tor(network: TorNetwork, web: CorpusWeb) -> Iterator[list[str]]:
    """Serve a web to the exits: the form of DuckDuckGo over TLS, and the pages over HTTP. Yield the hosts."""
    hosts = sorted({host for host, _ in web.pages})
    certificate = str(network.certificate(DUCKDUCKGO))
    plain, secure = network.listen(*hosts, port=80), network.listen(DUCKDUCKGO, port=443)
    with serving_on(web, plain), serving_on(web, secure, {"ssl_certfile": certificate}):
        yield hosts


def called(
    network: TorNetwork, home: Path, hosts: list[str], calls: list[tuple[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Call tools in the client's namespace, three at a time."""
    config = f'[packs.web]\nallow = {hosts}\nrequests_per_s = 50.0\nburst = 100\n[packs.web.tor]\nsocks = "{network.socks}"\n'
    given = json.dumps({"home": str(home), "config": config, "together": 3, "calls": calls})
    found: list[dict[str, Any]] = json.loads(network.run_in_client(SCRIPT, stdin=given, timeout=DEADLINE_S))
    assert [each["text"] for each in found if not each["success"]] == []
    return found


def is_on_page(url: str, quote: str) -> bool:
    """Return whether the page as it was written contains a quotation, without the code that has read the page."""
    return _SPACE.sub(" ", quote).strip() in _SPACE.sub(" ", PAGES[url].text)


@pytest.mark.spec("WEB-1", "WEB-2", "WEB-4", "WEB-5")
def test_40_questions_and_20_facts_through_tor_have_only_quotations_that_are_on_their_pages(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    plans, facts = planned(), planned_facts()
    questions = list(dict.fromkeys(plan.question for plan in plans))
    assert (len(questions), len(plans), len(facts)) == (40, 200, 20)
    # The search also finds other pages: Knackbox's documentation, and pages that lie, copy and give instructions.
    web = CorpusWeb([*CorpusWeb.small().pages.values(), *map(served, PAGES.values())])
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("deep_research", {"question": question, "pages": 5}) for question in questions),
        *(("fact_check", {"claim": fact.claim, "pages": 5}) for fact in facts),
    ]
    home = tmp_path / "home"
    with (
        serving_behind_tor(tor_network, web) as hosts,
        tor_network.streams() as streams,
        tor_network.exit_circuits() as at_exits,
        tor_network.counted() as packets,
    ):
        results = called(tor_network, home, hosts, calls)
    answers = {question: each["output"] for question, each in zip(questions, results, strict=False)}

    # The aims: wrong sources and invented quotations removed, unsupported claims labelled, true claims kept.
    states = Counter((plan.kind, state_of(plan, answers[plan.question])) for plan in plans)
    assert states[INVENTED, "removed"] + states[WRONG_SOURCE, "removed"] == 70, states
    assert 30 - states[CHANGED, "confirmed"] >= 27, states
    assert states[TRUE, "confirmed"] >= 97, states

    # Every citation is on its page, by the report's own copies and by the pages as they were written.
    reports = [check_report(home / "workspace" / answer["report"]) for answer in answers.values()]
    assert [problem for report in reports for problem in report.problems] == []
    citations = [each for answer in answers.values() for each in cited(answer)]
    assert sum(report.confirmed for report in reports) == len(citations) >= 97
    assert [each for each in citations if not is_on_page(*each)] == []

    checks = [each["output"] for each in results[len(questions) :]]
    for fact, check in zip(facts, checks, strict=True):
        assert (check["verdict"] == "supported") == fact.holds, (fact, check)
        assert check["removed"] == 1, "the invented quotation"
        assert [each["quote"] for each in check["evidence"] if not is_on_page(each["url"], each["quote"])] == []

    # Nothing left the machine except through Tor. The scripted model is on loopback.
    assert packets["socks"] > 0
    assert (packets["outside"], packets["relays"]) == (0, 0)
    assert {route for answer in answers.values() for route in answer["routes"]} == {"Tor"}
    assert (DUCKDUCKGO, "/html/") in web.requests
    users = streams.users_by_circuit()
    assert {circuit: len(each) for circuit, each in users.items()} == dict.fromkeys(users, 1)
    asked = [host for circuit in at_exits.values() for host in circuit]
    assert len(asked) >= len(web.requests) >= len(calls)
    assert {*(page.host for page in map(served, PAGES.values())), DUCKDUCKGO} <= set(asked) <= {*hosts, DUCKDUCKGO}


def cited(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the URL and the words of each quotation of an answer."""
    urls = {source["number"]: source["url"] for source in answer["sources"]}
    return [(urls[each["source"]], each["quote"]) for claim in answer["claims"] for each in claim["citations"]]
