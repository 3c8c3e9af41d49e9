"""`ManifestCache`: keeps the manifests of modules across restarts until they expire (MOD-3).

Manifests are stored as received. Cached manifests are validated like fetched ones, so an attacker gains nothing from
write access to the cache.
"""

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.contract.strict_json import read_json
from engine.stores.atomic import remove_leftovers, write_atomic

TTL_S = 3600.0
MOST_BYTES = 4 << 20
MOST_DEPTH = 72  # nesting of a whole manifest, which contains schemas of the maximum depth
_YEARS = range(2000, 2201)  # other years cannot be correct, and could make date arithmetic overflow
ANY_IDENTITY = ""  # the identity of a manifest that another program stored in a shared cache
_log = logging.getLogger("knackbox.modules")


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    identity: str
    fetched_at: str
    manifest: Any


@dataclass(frozen=True, slots=True)
class Cached:
    """A cached manifest.

    Attributes:
        identity: The identity of the module, or `ANY_IDENTITY` if it was not recorded.
        fetched_at: The time (UTC) at which the manifest was fetched.
    """

    identity: str
    fetched_at: datetime
    manifest: Any

    def encoded(self) -> bytes:
        """Encode the manifest.

        Raises:
            ValueError: The manifest is too large or nested too deeply for `decoded`.
        """
        stored = {"identity": self.identity, "fetched_at": self.fetched_at.isoformat(), "manifest": self.manifest}
        try:
            data = json.dumps(stored).encode()
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        self.decoded(data)
        return data

    @classmethod
    def decoded(cls, data: bytes) -> "Cached":
        """Decode a manifest.

        Raises:
            ValueError: The manifest is invalid.
        """
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        try:
            stored = _Stored.model_validate(read_json(data, MOST_DEPTH))
        except ValidationError as error:
            raise ValueError("it does not have the form of a cached manifest") from error
        fetched_at = datetime.fromisoformat(stored.fetched_at)
        if fetched_at.year not in _YEARS:
            raise ValueError(f"it says that it was fetched in the year {fetched_at.year}")
        return cls(stored.identity, fetched_at.astimezone(UTC), stored.manifest)


class ManifestCache(Protocol):
    """Stores manifests. Its methods never raise: if the cache fails, that is logged and the modules are asked."""

    async def load(self, name: str) -> Cached | None: ...

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None: ...

    async def aclose(self) -> None: ...


class FileCache:
    """Stores one file per module, in a folder of the home."""

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
            _log.warning("The cached manifest %s is ignored: %s. The next fetched manifest replaces it.", path, error)
            return None

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None:  # noqa: ARG002 -- the reader checks the age
        try:
            await asyncio.to_thread(self._save, self._path(name), cached)
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("The manifest of the module %s could not be cached: %s.", name, error)

    def _save(self, path: Path, cached: Cached) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(self._folder)
        write_atomic(path, cached.encoded())

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""

    def _path(self, name: str) -> Path:
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)  # noqa: S101 -- names come from validated settings
        return self._folder / f"{name}.json"
