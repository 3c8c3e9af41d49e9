"""Makes homes with many skills and calls. Files and records are written directly, since an admission takes a second."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from sqlalchemy import text

from acquired_skills.find.indexing import SkillIndexing
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.past_requests import PastRequests
from acquired_skills.store.skill_file import render
from acquired_skills.store.skill_store import SkillStore
from engine.app.home import Home
from engine.retrieval.stored_index import StoredIndex
from engine.stores.call_journal import CallJournal
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.records import Records

Advance = Callable[[int], None]

_VERBS = ("convert", "compute", "parse", "format", "merge", "split", "filter", "sort", "count", "render", "validate")
_THINGS = (
    *(
        "invoice",
        "photo",
        "train",
        "ticket",
        "recipe",
        "address",
        "matrix",
        "polygon",
        "calendar",
        "password",
        "sensor",
    ),
    *("order", "route", "budget", "contract", "headline", "molecule", "orbit", "chord", "fabric", "harvest", "auction"),
    *("warehouse", "patient", "lecture", "circuit", "voyage", "glacier", "novel", "paragraph"),
)
_OF = ("total", "median", "weekly", "nested", "colored", "archived", "remote", "signed", "partial", "rounded", "legal")
_AT_ONCE = 1_000
_CODE_HASH, _TESTS_HASH = "c0de" * 16, "7e57" * 16


def make_home(root: Path, skills: int, calls: int, advance: Advance) -> None:
    """Make a home with skills and recorded calls.

    Args:
        advance: Called with the number of skills or calls just written.
    """
    home = Home(root)
    home.create()
    records = Records.open(home.records_url)
    try:
        ledger, past = Ledger(records), PastRequests(records)
        CallJournal(records)
        store = SkillStore(home.skills)
        batch: dict[str, tuple[Skill, str]] = {}
        for skill, code, tests in _skills(skills):
            _write(store, skill, code, tests)
            batch[skill.name] = (skill, store.stamp(skill.name))
            if len(batch) == _AT_ONCE:
                ledger.put(batch)
                ledger.mark_published(batch)
                advance(len(batch))
                batch = {}
        if batch:
            ledger.put(batch)
            ledger.mark_published(batch)
            advance(len(batch))
        if skills:
            _calls(records, skills, calls)
        advance(calls)
        index = StoredIndex(home.skill_index, WordLlamaEmbedder())
        SkillIndexing(index, ledger, past, use_past=True).catch_up(progress=lambda *_: advance(0))
        index.close()
    finally:
        records.close()


def _skills(count: int) -> Iterator[tuple[Skill, bytes, bytes]]:
    choose = random.Random(1)
    for number in range(count):
        verb, of, thing = choose.choice(_VERBS), choose.choice(_OF), choose.choice(_THINGS)
        other = choose.choice(_THINGS)
        name = f"{verb}_{of}_{thing}_{number}"
        code = f'def {name}(value: int) -> int:\n    """{verb} it."""\n    return value + {number}\n'.encode()
        tests = f"from {name} import {name}\n\n\ndef test_it():\n    assert {name}(1) == {number + 1}\n".encode()
        skill = Skill(
            name=name,
            version=1,
            state=SkillState.ACTIVE,
            description=f"{verb.capitalize()} the {of} {thing} of every {other}, number {number}.",
            parameters={
                "type": "object",
                "properties": {"value": {"type": "integer", "description": f"Which {thing} to {verb}."}},
                "required": ["value"],
            },
            plain=True,
            imports=(),
            created="2026-01-02T03:04:05+00:00",
            code_sha256=hashlib.sha256(code).hexdigest(),
            tests_sha256=hashlib.sha256(tests).hexdigest(),
            tests=1,
            examples=(f"{verb} my {of} {thing} and the {other}",),
        )
        yield skill, code, tests


def _write(store: SkillStore, skill: Skill, code: bytes, tests: bytes) -> None:
    folder = store.folder(skill.name)
    program, proof = skill.files
    for path, data in (("SKILL.md", _rendered(skill)), (program, code), (proof, tests)):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _rendered(skill: Skill) -> bytes:
    """Return what `render` would, by filling in a template, because `render` takes milliseconds."""
    value = skill.parameters["properties"]["value"]["description"]
    filled = _template()
    for placeholder, text_ in (
        ("zz-name", skill.folder),
        ("zz_name", skill.name),
        ("zzdescription", skill.description),
        ("zzexample", skill.examples[0]),
        ("zzvalue", value),
        (_CODE_HASH, skill.code_sha256),
        (_TESTS_HASH, skill.tests_sha256),
    ):
        filled = filled.replace(placeholder.encode(), text_.encode())
    return filled


@cache
def _template() -> bytes:
    (skill, _, _) = next(_skills(1))
    value = {"type": "integer", "description": "zzvalue"}
    return render(
        replace(
            skill,
            name="zz_name",
            description="zzdescription",
            parameters={**skill.parameters, "properties": {"value": value}},
            examples=("zzexample",),
            code_sha256=_CODE_HASH,
            tests_sha256=_TESTS_HASH,
        )
    )


def _calls(records: Records, skills: int, calls: int) -> None:
    """Write calls of all skills in turn to the journal and to the totals. Every tenth call failed."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :calls)"
    names = "SELECT row_number() OVER (ORDER BY name) - 1 AS place, name FROM skills"
    joined = "FROM n JOIN temp.named ON temp.named.place = n.i % :skills"
    ts = "strftime('%Y-%m-%dT%H:%M:%S', 1760000000 + n.i * 10, 'unixepoch')"
    given = {"calls": calls, "skills": skills}
    with records.begin() as connection:
        connection.execute(text(f"CREATE TEMP TABLE named AS {names}"))
        connection.execute(text("CREATE INDEX temp.named_by_place ON named (place)"))
        connection.execute(
            text(
                "INSERT INTO call_log (call_id, ts, tool, user, agent, risk, arguments, end, success, attempts, "
                f"duration_ms, side_effects) {numbers} SELECT 'c' || n.i, {ts}, name, 'local', '', 'LOW', "
                f"'{{\"value\": 1}}', 'ok', n.i % 10 > 0, 1, 2.0, '[]' {joined}"
            ),
            given,
        )
        connection.execute(
            text(
                "INSERT INTO skill_totals (name, version, calls, successes, failures, total_ms, timed, last, lately) "
                "SELECT tool, 1, count(*), sum(success), sum(1 - success), 2.0 * sum(success), sum(success), max(ts), "
                "'1' FROM call_log GROUP BY tool"
            )
        )
