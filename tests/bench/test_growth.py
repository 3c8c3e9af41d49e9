"""The homes of `bench growth` are equal to those that the engine makes."""

from pathlib import Path

from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import reconcile
from acquired_skills.store.skill_store import SkillStore
from bench.growth.homes import make_home
from engine.app.home import Home
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import WordLlamaEmbedder
from tests.skills.parts import opened_records


def test_skills_of_a_home_are_verified_and_found_and_its_calls_are_counted(tmp_path: Path) -> None:
    written: list[int] = []
    make_home(tmp_path, 3, 20, written.append)
    assert sum(written) == 23
    home = Home(tmp_path)
    with opened_records(tmp_path) as records:
        report = reconcile(SkillStore(home.skills), Ledger(records), thorough=True)
        assert (report.known, report.read, report.aside, report.foreign) == (3, (), (), ())
        stats = Ledger(records).stats()
        assert [one.calls for one in stats] == [7, 7, 6]
        assert sum(one.failures for one in stats) == 2
        with records.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM call_log").scalar() == 20
        names = [row.name for row in Ledger(records).page()]
    index = StoredIndex(home.skill_index, WordLlamaEmbedder())
    assert {one.id for one in index.search(names[0], 3)} >= {names[0]}
    assert len(index) == 3
    index.close()
