"""`Interception`: which destinations have secrets, and what a job needs to reach them.

A connection to such a destination is intercepted: the proxy terminates its TLS and handles its HTTP
(`sandbox.egress.http_exchange`). All other connections stay end to end.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.contract import Destination
from sandbox.egress.authority import HTTP_1, Authority
from sandbox.egress.substitution import Substitution
from sandbox.secrets.secret import Secret, variables


@dataclass(frozen=True, slots=True)
class InterceptedDestination:
    """A destination that has secrets.

    Attributes:
        contexts: Creates the TLS contexts of connections.
    """

    destination: Destination
    tls: bool
    secrets: tuple[Secret, ...]
    substitution: Substitution
    contexts: "Interception"


class Interception:
    """The secrets of a sandbox, by destination."""

    def __init__(
        self, secrets: Sequence[Secret], trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        """Compile the secrets.

        Args:
            secrets: The secrets. Those without hosts are ignored.
            trust: Creates the TLS context that verifies the real servers. Called once, in a thread.

        Raises:
            ValueError: One destination is listed with TLS and without it.
        """
        found: dict[Destination, list[Secret]] = {}
        tls: dict[Destination, bool] = {}
        for secret in secrets:
            for host in secret.hosts:
                place = Destination(host.host, host.port)
                if tls.setdefault(place, host.tls) != host.tls:
                    raise ValueError(f"{place} is listed with TLS and without it. List it in one way only")
                found.setdefault(place, []).append(secret)
        self._at: Mapping[Destination, InterceptedDestination] = {
            place: InterceptedDestination(place, tls[place], tuple(there), Substitution(there), self)
            for place, there in found.items()
        }
        self._make_trust = trust
        self._made: tuple[Authority, ssl.SSLContext] | None = None
        self._making = asyncio.Lock()

    def at(self, destination: Destination) -> InterceptedDestination | None:
        """Return what is known of a destination (canonical), or None if it has no secret."""
        return self._at.get(destination)

    async def environment(self, destinations: Iterable[Destination]) -> tuple[dict[str, str], str]:
        """Return the variables with placeholders and the authority's certificate for a job with these destinations.

        Both are empty if no destination has a secret. The certificate is empty if none of them uses TLS.
        """
        there = [found for destination in destinations if (found := self._at.get(destination)) is not None]
        named = variables(secret for found in there for secret in found.secrets)
        if not any(found.tls for found in there):
            return named, ""
        authority, _ = await self._authority()
        return named, authority.pem

    async def server_context(self, host: str) -> ssl.SSLContext:
        """Return the TLS context for the box's side of connections to a host."""
        authority, _ = await self._authority()
        return await authority.context(host)

    async def client_context(self) -> ssl.SSLContext:
        """Return the TLS context for the destination's side, which verifies the real server."""
        _, trust = await self._authority()
        return trust

    async def _authority(self) -> tuple[Authority, ssl.SSLContext]:
        async with self._making:
            if self._made is None:
                trust = await asyncio.to_thread(self._make_trust)
                trust.set_alpn_protocols([HTTP_1])
                self._made = await Authority.create(), trust
            return self._made
