"""`RedisCache`: keeps manifests in a Redis server that several machines share (MOD-3).

The value of `module_manifest:{name}` is the manifest as JSON and nothing else, so that other programs can use the cache
as well. For its own entries, Knackbox stores the source and the time under a second key, which is valid only as long as
the first value is unchanged.
"""

import hashlib
import json
import logging
from datetime import timedelta
from typing import Any

import redis.asyncio as redis

from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.contract.strict_json import read_json
from engine.remote.cache import ANY_IDENTITY, MOST_BYTES, MOST_DEPTH, Cached

TIMEOUT_S = 2.0
_log = logging.getLogger("knackbox.modules")


class RedisCache:
    """Stores manifests in Redis, which deletes them when they expire."""

    def __init__(self, url: str, clock: Clock, ttl_s: float) -> None:
        """Create the cache, which connects on first use.

        Args:
            url: The URL of the Redis server.
            clock: The source of time.
            ttl_s: The lifetime of a manifest, in seconds.

        Raises:
            ConfigError: The URL is not a Redis URL.
        """
        self._clock = clock
        self._ttl_s = ttl_s
        try:
            self._redis = redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
        except ValueError as error:
            raise ConfigError(f"modules.redis_url: {error}. Set it to redis://host:port/0, or remove it.") from error

    async def load(self, name: str) -> Cached | None:
        try:
            # One byte more than the limit, so that oversized values are detected without reading all of them.
            data = _bytes(await self._redis.getrange(_key(name), 0, MOST_BYTES))
            if not data:
                return None
            if len(data) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")  # noqa: TRY301 -- reported like the others
            source = _bytes(await self._redis.getrange(_source_key(name), 0, MOST_BYTES))
            ours = _from_us(data, source)
            return ours if ours is not None else await self._from_others(name, data)
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("Redis returned no valid manifest of the module %s: %s.", name, error)
            return None

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None:
        try:
            cached.encoded()  # raises if the manifest could not be read back, so that it is not stored
            data = json.dumps(cached.manifest).encode()
            source = {
                "identity": cached.identity,
                "fetched_at": cached.fetched_at.isoformat(),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            milliseconds = max(int(ttl_s * 1000), 1)
            async with self._redis.pipeline(transaction=True) as both:
                both.set(_key(name), data, px=milliseconds)
                both.set(_source_key(name), json.dumps(source), px=milliseconds)
                await both.execute()
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("The manifest of the module %s could not be stored in Redis: %s.", name, error)

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _from_others(self, name: str, data: bytes) -> Cached:
        """Read an entry that another program stored.

        Its age is derived from its remaining time to live. An entry that does not expire counts as new.

        Raises:
            ValueError: The entry is invalid.
        """
        left_ms = await self._redis.pttl(_key(name))
        age_s = max(self._ttl_s - left_ms / 1000, 0.0) if left_ms >= 0 else 0.0
        manifest = read_json(data, MOST_DEPTH)
        return Cached(ANY_IDENTITY, self._clock.now() - timedelta(seconds=age_s), manifest)


def _from_us(data: bytes, source: bytes) -> Cached | None:
    """Decode an entry that Knackbox stored as two values.

    Returns:
        None if the second value is missing, or belongs to another manifest.
    """
    try:
        said = read_json(source)
        if said["sha256"] != hashlib.sha256(data).hexdigest():
            return None
        stored = {
            "identity": said["identity"],
            "fetched_at": said["fetched_at"],
            "manifest": read_json(data, MOST_DEPTH),
        }
        return Cached.decoded(json.dumps(stored).encode())
    except (ValueError, KeyError, TypeError):
        return None


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _key(name: str) -> str:
    return f"module_manifest:{name}"


def _source_key(name: str) -> str:
    return f"module_manifest_source:{name}"
