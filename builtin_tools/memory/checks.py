"""What `knackbox doctor` checks about the memory. Entry point of the group ``knackbox.checks``."""

from collections.abc import Iterator

from builtin_tools.memory.encoder import encoder_of
from builtin_tools.memory.owner_index import MARKER
from builtin_tools.memory.pack import NAME, MemorySettings
from engine.app.doctor import BROKEN, MISSING, OK, DoctorCheck
from engine.app.home import Home
from engine.app.pack_settings import pack_settings
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.retrieval.passage_encoding import added_up, state_of_file
from engine.stores.sentence_embedder import installed

_NAME = "memory encoder"
_INSTEAD = "Until then, searches use words and WordLlama."


def checks(home: Home, settings: Settings) -> Iterator[DoctorCheck]:
    """Report which encoder the memory uses, and how far its vectors are."""
    try:
        chosen = pack_settings(NAME, settings.packs.get(NAME, {}), MemorySettings)
    except ConfigError as error:
        yield DoctorCheck("configuration", "[packs.memory]", BROKEN, detail=str(error), remedy="Correct it.")
        return
    loader = encoder_of(chosen.encoder)
    if loader is None:
        left = (home.memory_indexes / MARKER).exists()
        detail = "; vectors of an earlier encoder are deleted at the next start" if left else ""
        yield _check(OK, f"WordLlama{detail}")
    elif loader.get() is None:
        state, reinstall = (BROKEN, "--force-reinstall ") if installed() else (MISSING, "")
        remedy = f"pip install {reinstall}'knackbox[sentences]', or remove encoder from [packs.memory]."
        yield _check(state, f"{loader.problem} {_INSTEAD}", remedy)
    else:
        yield _progress(home, loader.identity())


def _progress(home: Home, identity: str) -> DoctorCheck:
    total = added_up((identity, state_of_file(path)) for path in sorted(home.memory_indexes.glob("*.db")))
    name = identity.partition(":")[0]
    if total.encoded == total.passages:
        return _check(OK, f"{name}, {total.passages:,} entries, offline")
    return _check(
        OK,
        f"{name}, offline; re-indexing: {total.encoded:,} of {total.passages:,} entries are ready. {_INSTEAD}",
        "Running engines continue; to finish now: knackbox memory reindex.",
    )


def _check(state: str, detail: str, remedy: str = "") -> DoctorCheck:
    return DoctorCheck("retrieval", _NAME, state, required=False, detail=detail, remedy=remedy)
