"""Manifests kept between starts (MOD-3): as they were sent, with when and whence, for as long as they count.

What comes out of a cache is read like what comes off the wire: whoever can write there gains nothing by it.
"""

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.contract.strict_json import read_json
from engine.stores.atomic import remove_leftovers, write_atomic

TTL_S = 3600.0
MOST_BYTES = 4 << 20
MOST_DEPTH = 72  # a schema as deep as one may be, within a listing
_SKEW = timedelta(seconds=60)  # clocks of two machines differ; a manifest from further ahead is not believed
_YEARS = range(2000, 2201)  # others are no time a manifest was fetched, and overflow when they are reckoned with
ANY_IDENTITY = ""  # of a manifest that somebody else put into a shared cache, under the module's name
_log = logging.getLogger("knackbox.modules")


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    identity: str
    fetched_at: str
    manifest: Any


@dataclass(frozen=True, slots=True)
class Cached:
    """identity: of the module it was fetched from, or ANY_IDENTITY where that is not recorded. fetched_at: UTC."""

    identity: str
    fetched_at: datetime
    manifest: Any

    def fresh(self, now: datetime, ttl_s: float) -> bool:
        """Whether it still counts."""
        return -_SKEW.total_seconds() <= (now - self.fetched_at).total_seconds() < ttl_s

    def encoded(self) -> bytes:
        """Raises ValueError for what `decoded` would refuse."""
        stored = {"identity": self.identity, "fetched_at": self.fetched_at.isoformat(), "manifest": self.manifest}
        try:
            data = json.dumps(stored).encode()
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        self.decoded(data)
        return data

    @classmethod
    def decoded(cls, data: bytes) -> "Cached":
        """Raises ValueError."""
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        try:
            stored = _Stored.model_validate(read_json(data, MOST_DEPTH))
        except ValidationError as error:
            raise ValueError("it has not the form of a cached manifest") from error
        fetched_at = datetime.fromisoformat(stored.fetched_at)
        if fetched_at.year not in _YEARS:
            raise ValueError(f"it says that it was fetched in the year {fetched_at.year}")
        return cls(stored.identity, fetched_at.astimezone(UTC), stored.manifest)


class ManifestCache(Protocol):
    """Neither method raises: a cache that fails is logged, and modules are asked more often."""

    async def load(self, name: str) -> Cached | None: ...

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None: ...

    async def aclose(self) -> None: ...


class FileCache:
    """One file for each module, in a folder under the home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def load(self, name: str) -> Cached | None:
        return await asyncio.to_thread(self._load, self._path(name))

    def _load(self, path: Path) -> Cached | None:
        try:
            with path.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            return Cached.decoded(data)
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("The cached manifest %s is not used: %s. It is replaced by the next one.", path, error)
            return None

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None:  # noqa: ARG002 -- age is judged by the reader
        try:
            await asyncio.to_thread(self._save, self._path(name), cached)
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("The manifest of the module %s could not be cached: %s.", name, error)

    def _save(self, path: Path, cached: Cached) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(self._folder)
        write_atomic(path, cached.encoded())

    async def aclose(self) -> None:
        """Nothing is held."""

    def _path(self, name: str) -> Path:
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)  # noqa: S101 -- names come out of checked settings
        return self._folder / f"{name}.json"
