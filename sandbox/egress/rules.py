"""The rules of egress: the limits of every job, and which lists of destinations are valid."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.contract import Destination, SandboxError
from sandbox.egress.addresses import Address, AddressKind, kind_of, may_be_a_listed_host, parse, plain

MAX_DESTINATIONS = 32
_MAX_NAME = 253  # RFC 1035, without the final dot
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a last label like this makes the name an IPv4 address in legacy notation


@dataclass(frozen=True, slots=True)
class EgressRules:
    """The operator's rules for every job with egress, in addition to the job's own list.

    Attributes:
        allow_private: Hosts and addresses that may be reached although they are not public. A host's name allows
            private, loopback and carrier-NAT addresses for it. Other kinds (such as link-local and multicast) must be
            listed by address.
        connect_s: Seconds that connecting may take.
        idle_s: Seconds without a byte in either direction after which a connection is ended.
        total_s: Seconds after which a connection is ended, even if it is active.
        kept: Connections listed in an outcome; the rest are only counted.
    """

    allow_private: frozenset[str] = frozenset()
    connections_at_once: int = 64
    connections_in_all: int = 10_000
    head_s: float = 10.0
    resolve_s: float = 10.0
    connect_s: float = 10.0
    idle_s: float = 60.0
    total_s: float = 600.0
    kept: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow_private", frozenset(canonical_host(host) for host in self.allow_private))

    def objection(self, host: str, address: Address) -> str:
        """Return why `host` (canonical) may not be reached at `address`; "" if it may be reached."""
        kind = kind_of(address)
        if kind is AddressKind.PUBLIC or plain(address).compressed in self.allow_private:
            return ""
        if host in self.allow_private and may_be_a_listed_host(kind):
            return ""
        return f"it is {kind}"


def canonical_host(host: str) -> str:
    """Return the canonical spelling of a host: a lower-case name without its final dot, or an address in short form.

    Raises:
        ValueError: The text is neither a name nor an address, or it has a wildcard, or it is a number that old
            resolvers read as an IPv4 address (`127.1`).
    """
    text = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        pass
    else:
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            raise ValueError(f"{host!r} has a zone, which has no meaning in a box")
        return plain(address).compressed
    if "*" in text:
        raise ValueError(f"{host!r} has a wildcard; list each host by its name")
    labels = text.split(".")
    if len(text) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{host!r} is neither a host name (ASCII letters, digits, hyphens) nor an IP address")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{host!r} is a number; write the address as a.b.c.d")
    return text


def _can_be_connected_to(host: str) -> bool:
    """Return whether a single host can have this address. True for a name, which is checked once it is resolved."""
    try:
        address = parse(host)
    except ValueError:
        return True
    kind = kind_of(address)
    needs_zone = kind is AddressKind.LINK_LOCAL and isinstance(address, ipaddress.IPv6Address)
    return kind not in (AddressKind.UNSPECIFIED, AddressKind.MULTICAST, AddressKind.RESERVED) and not needs_zone


def canonical_destination(destination: Destination) -> Destination:
    """Return the canonical spelling of a destination.

    Raises:
        ValueError: No host can have such a destination.
    """
    host = canonical_host(destination.host)
    if not 0 < destination.port <= 65_535:  # noqa: PLR2004  (the largest port)
        raise ValueError(f"{destination.port} is not a port")
    if not _can_be_connected_to(host):
        raise ValueError("no host has such an address")
    return Destination(host, destination.port)


def checked(destinations: Iterable[Destination]) -> tuple[Destination, ...]:
    """Return the list in canonical form, without duplicates.

    Raises:
        SandboxError: An entry is not valid, or there are too many.
    """
    found: dict[Destination, None] = {}
    for destination in destinations:
        try:
            found[canonical_destination(destination)] = None
        except ValueError as problem:
            raise SandboxError(f"The destination {destination} cannot be allowed: {problem}.") from None
    if len(found) > MAX_DESTINATIONS:
        raise SandboxError(
            f"The job lists {len(found)} destinations; the maximum is {MAX_DESTINATIONS}.",
            remedy="Split the job, or list only the destinations that it connects to.",
        )
    return tuple(found)
