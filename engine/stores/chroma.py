"""`ChromaClient`: opens Chroma's embedded database, protected against damaged files.

Chroma loads its index files (HNSW) without checks, and a damaged one crashes the whole process (segmentation fault,
seen with 1.5.9). Therefore the sizes and checksums of the index files are written to a manifest after every change, and
checked when the database is opened; a mismatch is reported as `ChromaDamaged`. The manifest does not cover the database
file, since SQLite itself detects damage to it.
"""

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.contract.failure import ConfigError
from engine.stores.atomic import write_atomic
from engine.stores.embedder import Vectors

DATABASE = "chroma.sqlite3"
MANIFEST = "knackbox-manifest.json"
BATCH = 1_000  # ids per call; Chroma's own limit is 5,461
CHUNK = 1 << 20  # bytes read at a time
# Parts of Chroma's error messages that mean damaged files. Other messages are about the disk or permissions.
# SQLite's codes: 11 means that the file is corrupt, 26 that it is not a database.
DAMAGE_SIGNS = ("code: 11)", "code: 26)", "malformed", "hnsw", "deserializ", "no such table", "panicked", "mismatch")

Stamp = tuple[int, int, int]  # size, modification time in ns, inode


class ChromaDamaged(Exception):
    """The files of a Chroma folder are damaged."""


@dataclass(frozen=True, slots=True)
class _ChromaModules:
    """The parts of chromadb that are used here. They are imported only when a database is opened."""

    system: Any
    api: Any
    collection_class: Any
    not_found: type[Exception]


class ChromaClient:
    """The Chroma collections in one folder, with cosine distance. Not thread-safe: `VectorStore` does the locking."""

    def __init__(self, path: Path, loaded: _ChromaModules) -> None:
        self._path = path
        self._loaded = loaded
        self._collections: dict[str, Any] = {}
        self._known: dict[str, tuple[Stamp, int]] = {}
        self._inode = _database_file(path)[0]

    @property
    def in_place(self) -> bool:
        """Whether the folder still contains the database that was opened, rather than a new one or none."""
        return _database_file(self._path)[0] == self._inode

    @classmethod
    def open(cls, path: Path) -> "ChromaClient":
        """Check and open the database in a folder, which is created if it is missing.

        Raises:
            ChromaDamaged: The files in the folder are damaged.
            ConfigError: The folder cannot be used for another reason.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be created ({error.strerror}). Check its parent folder.") from error
        checked = _check(path)
        try:
            _create_private(path / DATABASE)
        except OSError as error:
            raise ConfigError(
                f"{path}: Chroma cannot use this folder ({error.strerror}). Check its permissions."
            ) from error
        with _explained(path):
            client = cls(path, _load(path))
        client._known = checked
        return client

    def close(self) -> None:
        """Close the files."""
        self._collections.clear()
        self._loaded.system.stop()

    def prepare(self, name: str, dimensions: int) -> bool:
        """Open or create a collection, and make Chroma apply its log. The caller must hold the folder's lock.

        Returns:
            False if the collection had vectors of a different length, made by another embedder. They were deleted.
        """
        with _explained(self._path):
            collection = self._get_or_make(name)
            found = collection._model.dimension  # noqa: SLF001 - chromadb has no public way to ask
            same = found in {None, dimensions}
            if not same:
                self._loaded.api.delete_collection(name)
                collection = self._get_or_make(name)
            self._collections[name] = (collection, dimensions)
        self.flush(name)
        return same

    def flush(self, name: str) -> None:
        """Make Chroma flush its pending changes, and record the files' checksums."""
        collection, dimensions = self._collections[name]
        with _explained(self._path):
            probe = np.zeros((1, dimensions), dtype=np.float32)
            probe[0, 0] = 1.0
            collection.query(query_embeddings=probe, n_results=1, include=[])
        self._write_manifest()

    def has(self, name: str) -> bool:
        """Return whether the collection was prepared."""
        return name in self._collections

    def upsert(self, name: str, ids: Sequence[str], vectors: Vectors) -> None:
        with _explained(self._path):
            for start in range(0, len(ids), BATCH):
                batch = slice(start, start + BATCH)
                self._collections[name][0].upsert(ids=list(ids[batch]), embeddings=vectors[batch])

    def delete(self, name: str, ids: Sequence[str]) -> None:
        with _explained(self._path):
            for start in range(0, len(ids), BATCH):
                self._collections[name][0].delete(ids=list(ids[start : start + BATCH]))

    def query(self, name: str, vector: Vectors, k: int) -> list[tuple[str, float]]:
        with _explained(self._path):
            found = self._collections[name][0].query(
                query_embeddings=vector.reshape(1, -1), n_results=k, include=["distances"]
            )
        return [(id_, 1.0 - distance) for id_, distance in zip(found["ids"][0], found["distances"][0], strict=True)]

    def ids(self, name: str, among: Sequence[str] | None = None) -> set[str]:
        if among is not None and not among:
            return set()
        with _explained(self._path):
            return set(self._collections[name][0].get(ids=None if among is None else list(among), include=[])["ids"])

    def count(self, name: str) -> int:
        with _explained(self._path):
            return int(self._collections[name][0].count())

    def _get_or_make(self, name: str) -> Any:
        model = self._loaded.api.get_or_create_collection(name=name, configuration={"hnsw": {"space": "cosine"}})
        return self._loaded.collection_class(client=self._loaded.api, model=model, embedding_function=None)

    def _write_manifest(self) -> None:
        known = {name: self._known.get(name) for name in _index_files(self._path)}
        fresh: dict[str, tuple[Stamp, int]] = {}
        for name, before in known.items():
            stamp = _stamp(self._path / name)
            fresh[name] = before if before is not None and before[0] == stamp else (stamp, _checksum(self._path / name))
        if fresh == self._known and (self._path / MANIFEST).exists():
            return
        entries = {name: {"size": stamp[0], "crc32": checksum} for name, (stamp, checksum) in sorted(fresh.items())}
        write_atomic(self._path / MANIFEST, json.dumps(entries, indent=1).encode())
        self._known = fresh


def _create_private(file: Path) -> None:
    """Create the file if it is missing, readable only by its owner. Chroma would make it readable by others."""
    os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _load(path: Path) -> _ChromaModules:
    from chromadb.api import ServerAPI  # noqa: PLC0415 - chromadb takes over 2 s to import
    from chromadb.api.models.Collection import Collection  # noqa: PLC0415 -- for the same reason
    from chromadb.config import Settings, System  # noqa: PLC0415 -- for the same reason
    from chromadb.errors import NotFoundError  # noqa: PLC0415 -- for the same reason

    # chromadb.PersistentClient would share one System per path and never close it. `_env_file=None`: a .env file in the
    # current folder must not configure this database.
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg] # added by pydantic-settings
        chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
        anonymized_telemetry=False,
        is_persistent=True,
        persist_directory=str(path),
        migrations="apply",
        allow_reset=False,
    )
    system = System(settings)
    api = system.instance(ServerAPI)  # type: ignore[type-abstract] # chromadb itself passes the abstract class
    system.start()
    return _ChromaModules(system, api, Collection, NotFoundError)


def _check(path: Path) -> dict[str, tuple[Stamp, int]]:
    """Check the files against the manifest.

    Raises:
        ChromaDamaged: A file is missing or has changed.
    """
    files = _index_files(path)
    manifest = path / MANIFEST
    try:
        entries = json.loads(manifest.read_bytes()) if manifest.exists() else {}
        expected = {str(name): (int(entry["size"]), int(entry["crc32"])) for name, entry in entries.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ChromaDamaged(f"{MANIFEST} cannot be read") from error
    if set(files) != set(expected):
        odd = min(set(files) ^ set(expected))
        raise ChromaDamaged(f"{odd} is {'unknown' if odd in files else 'missing'}")
    if manifest.exists() and _database_file(path)[1] == 0:
        raise ChromaDamaged(f"{DATABASE} is missing or empty")
    checked = {}
    for name, (size, checksum) in expected.items():
        stamp = _stamp(path / name)
        if stamp[0] != size or _checksum(path / name) != checksum:
            raise ChromaDamaged(f"{name} has changed since its checksum was recorded")
        checked[name] = (stamp, checksum)
    return checked


def _database_file(path: Path) -> tuple[int, int]:
    """Return the database's inode and size in bytes; zeros if it is missing."""
    try:
        status = (path / DATABASE).stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_size


def _index_files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.glob("*/*") if file.is_file())


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            value = zlib.crc32(chunk, value)
    return value


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert chromadb's errors: to `ChromaDamaged` if files are damaged, otherwise to `ConfigError`."""
    try:
        yield
    except BaseException as error:
        kind = type(error).__name__
        if kind not in {"InternalError", "PanicException", "NotFoundError"}:  # a panic in Rust is a BaseException
            raise
        detail = " ".join(str(error).split())[:200]
        if kind != "InternalError" or any(sign in detail.lower() for sign in DAMAGE_SIGNS):
            raise ChromaDamaged(detail) from error
        raise ConfigError(
            f"{path}: Chroma cannot use this folder ({detail}). Check free space and permissions."
        ) from error
