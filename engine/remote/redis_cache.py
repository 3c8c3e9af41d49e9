"""`RedisCache`: manifests in a Redis that several machines share (MOD-3)."""

import logging

import redis.asyncio as redis

from engine.contract.failure import ConfigError
from engine.remote.cache import MOST_BYTES, Cached

TIMEOUT_S = 2.0
_log = logging.getLogger("knackbox.modules")


class RedisCache:
    """`module_manifest:{name}` in a Redis, which forgets it when its time is over."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError for what is no URL of a Redis. Connects at first use."""
        try:
            self._redis = redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
        except ValueError as error:
            raise ConfigError(f"modules.redis_url: {error}. Give redis://host:port/0, or remove it.") from error

    async def load(self, name: str) -> Cached | None:
        try:
            # One byte more than is taken, so that what is too large is known without being read.
            data = await self._redis.getrange(_key(name), 0, MOST_BYTES)
            return Cached.decoded(data if isinstance(data, bytes) else data.encode()) if data else None
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("Redis gave no usable manifest of the module %s: %s.", name, error)
            return None

    async def save(self, name: str, cached: Cached, ttl_s: float) -> None:
        try:
            await self._redis.set(_key(name), cached.encoded(), px=max(int(ttl_s * 1000), 1))
        except Exception as error:  # noqa: BLE001 -- see ManifestCache
            _log.warning("Redis did not take the manifest of the module %s: %s.", name, error)

    async def aclose(self) -> None:
        await self._redis.aclose()


def _key(name: str) -> str:
    return f"module_manifest:{name}"
