"""Resolves destinations outside the box, checks every address, and pins those that may be connected to."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from sandbox.contract import Destination
from sandbox.egress.addresses import Address, AddressKind, kind_of, parse
from sandbox.egress.rules import EgressRules

_THREADS = 8  # separate threads, so that slow lookups of a job do not block other work
_MAX_ANSWERS = 16


class Refused(Exception):
    """Policy forbids the connection; the message says why."""


class NameNotResolved(Exception):
    """The name has no address, or the lookup timed out."""


class Resolver(Protocol):
    """Looks up the addresses of a host name.

    Raises:
        OSError: The name has no address.
    """

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of the host as text, in order of preference."""
        ...


class SystemResolver:
    """The machine's own resolver (getaddrinfo). Close it when no job uses it any more."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="egress-resolver")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._look_up, host, port)

    @staticmethod
    def _look_up(host: str, port: int) -> list[str]:
        return [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def pin(destination: Destination, rules: EgressRules, resolver: Resolver) -> tuple[Address, ...]:
    """Look up a destination once, and return its addresses, best first. Later DNS changes have no effect.

    If one address is forbidden, the name is refused: a public name that also has a private address is either an attack
    or a mistake, and it is unknown which address a client would use. `destination` is canonical.

    Raises:
        Refused: An address is forbidden or invalid, or the name has too many addresses.
        NameNotResolved: The name has no address, or the lookup failed or timed out.
    """
    answers = _literal(destination) or await _look_up(destination, rules, resolver)
    for address in answers:
        objection = rules.objection(destination.host, address)
        if not objection and kind_of(address) is AddressKind.PUBLIC and _is_this_machine(address):
            listed = {destination.host, address.compressed} & rules.allow_private
            objection = "" if listed else "it is this machine's own address"
        if objection:
            raise Refused(f"{destination.host} is at {address}, and {objection}")
    return answers


def _literal(destination: Destination) -> tuple[Address, ...]:
    try:
        return (parse(destination.host),)
    except ValueError:
        return ()


async def _look_up(destination: Destination, rules: EgressRules, resolver: Resolver) -> tuple[Address, ...]:
    try:
        async with asyncio.timeout(rules.resolve_s):
            answers = await resolver(destination.host, destination.port)
    except TimeoutError:
        raise NameNotResolved(f"{destination.host} was not resolved within {rules.resolve_s:g} s") from None
    except (OSError, UnicodeError) as problem:
        raise NameNotResolved(f"{destination.host} does not resolve: {problem}") from None
    try:
        parsed = tuple(dict.fromkeys(parse(answer) for answer in answers))
    except ValueError as problem:
        raise Refused(f"{destination.host} resolves to something that is not an IP address: {problem}") from None
    if not parsed:
        raise NameNotResolved(f"{destination.host} has no address")
    if len(parsed) > _MAX_ANSWERS:
        raise Refused(f"{destination.host} has {len(parsed)} addresses, more than {_MAX_ANSWERS}")
    return parsed


def _is_this_machine(address: Address) -> bool:
    """Return whether the address belongs to this machine, without sending anything.

    When a machine connects to an address of its own, the source address is the same address.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004  (IP's version)
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return parse(str(probe.getsockname()[0])) == address
    except OSError:  # no route: connecting will report it
        return False
