"""The setting `encoder` in [packs.memory], the command that re-indexes, and what `doctor` says about them."""

from pathlib import Path

import pytest

from builtin_tools.memory.checks import checks
from builtin_tools.memory.encoder import EncoderLoader
from builtin_tools.memory.owner_index import MARKER
from builtin_tools.memory.service import FactToAdd, MemoryService
from engine.app.config import load_settings
from engine.app.home import Home
from engine.contract.turn import Turn
from engine.stores import sentence_embedder
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import SetClock, open_memory
from tests.builtin_tools.memory.test_commands import memory
from tests.interfaces.cli import here
from tests.retrieval.topic_encoder import loader_of, topic_encoder

pytestmark = pytest.mark.spec("MEM-12")

SENTENCES = '[packs.memory]\nencoder = "sentences"\n'


def home_with(folder: Path, config: str = "") -> Home:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)
    return Home(folder)


def add_facts(service: MemoryService, count: int) -> None:
    for number in range(count):
        service._add(Turn(user="ada"), FactToAdd(f"Parcel x{number} is on shelf y{number}."))


def state(home: Home) -> tuple[str, str, str]:
    (check,) = checks(home, load_settings(home, {}))
    return check.state, check.detail, check.remedy


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file where the tokenizer of the encoder should be."""
    monkeypatch.setattr(sentence_embedder, "TOKENIZER", ("wordllama", "__init__.py", "0" * 64))
    monkeypatch.setattr(sentence_embedder, "WEIGHTS", ("wordllama", "__init__.py", "0" * 64))


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_embedder, "TOKENIZER", ("no_such_package_here", "x", ""))


def test_an_unknown_encoder_is_refused_with_those_that_exist(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = home_with(tmp_path / "home", '[packs.memory]\nencoder = "gpt"\n')
    done = memory(capfd, home.root, "list")
    assert done.code == 3
    assert "encoder: Input should be 'words' or 'sentences', not 'gpt'" in done.err.replace('"', "'")
    found, detail, remedy = state(home)
    assert (found, remedy) == ("broken", "Correct it.")
    assert "'words' or 'sentences'" in detail


@pytest.mark.slow
@pytest.mark.usefixtures("missing")
def test_without_the_package_words_are_used_and_the_remedy_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = home_with(tmp_path / "home", SENTENCES)
    memory(capfd, home.root, "add", "Ada moved to Oslo in 2020.")
    found = memory(capfd, home.root, "search", "Where does Ada live?")
    assert "Oslo" in found.out
    assert "knackbox[sentences]" in found.err
    done = memory(capfd, home.root, "reindex")
    assert done.code == 3
    assert "cannot be re-indexed" in done.err
    assert state(home)[0] == "missing"
    row = next(
        each
        for each in here(capfd, "--home", str(home.root), "doctor", "--json").last["checks"]
        if each["name"] == "memory encoder"
    )
    assert "searches use words and WordLlama" in row["detail"]
    assert "pip install 'knackbox[sentences]'" in row["remedy"]


@pytest.mark.usefixtures("altered")
def test_files_with_another_digest_are_not_used_and_the_remedy_is_named(tmp_path: Path) -> None:
    found, detail, remedy = state(home_with(tmp_path / "home", SENTENCES))
    assert found == "broken"
    assert "not the expected sentence encoder" in detail
    assert "--force-reinstall" in remedy


def test_doctor_says_how_far_the_memory_is_re_indexed(
    tmp_path: Path, embedder: WordLlamaEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of(topic_encoder())
    opened = open_memory(tmp_path / "home", SetClock(), embedder, encoder=loader)
    home = home_with(tmp_path / "home", SENTENCES)

    def chosen(_name: str) -> EncoderLoader:
        return loader

    monkeypatch.setattr("builtin_tools.memory.checks.encoder_of", chosen)
    add_facts(opened.service, 40)
    one = opened.indexes.of("user:ada")
    one.catch_up()
    one._encode_batch(replace=False)
    one._encode_batch(replace=False)
    assert "32 of 40 entries are ready" in state(home)[1]
    assert "knackbox memory reindex" in state(home)[2]
    opened.service.reindexing.run()
    assert state(home) == ("ok", "topics, 40 entries, offline", "")
    opened.close()


@pytest.mark.slow
def test_the_command_completes_the_indexes_and_deletes_the_vectors_of_an_earlier_encoder(
    tmp_path: Path, embedder: WordLlamaEmbedder, capfd: pytest.CaptureFixture[str]
) -> None:
    home = home_with(tmp_path / "home")
    opened = open_memory(home.root, SetClock(), embedder, encoder=loader_of(topic_encoder()))
    add_facts(opened.service, 3)
    opened.service.reindexing.run()
    opened.close()
    assert "deleted at the next start" in state(home)[1]
    assert memory(capfd, home.root, "reindex", "--json").last == {"encoder": "", "owners": 1, "entries": 3}
    assert not (home.memory_indexes / MARKER).exists()
    assert state(home) == ("ok", "WordLlama", "")
