"""`EgressPlan`: what to set up in a box so that its job reaches its destinations.

This is a listening socket for each destination, a file of host names, and environment variables for a proxy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.contract import Destination
from sandbox.egress.addresses import parse

PROXY_ADDRESS, PROXY_PORT = "127.0.2.1", 3128  # not 127.0.0.1, where a job's own servers listen
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_DIRECT_NAMES = ("NO_PROXY", "no_proxy")
_DIRECT = "localhost,127.0.0.1,::1"
_HOSTS = "127.0.0.1 localhost box\n::1 localhost\n"
_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True)
class Outlet:
    """One listening socket in the box. `destination` is None for the proxy, whose clients name the destination."""

    address: str
    port: int
    destination: Destination | None


@dataclass(frozen=True, slots=True)
class EgressPlan:
    """What to set up in the box for its egress.

    Attributes:
        outlets: The listening sockets.
        hosts: The text of /etc/hosts.
        variables: Environment variables for the destinations that have secrets.
        authority: The certificate of an authority that the box trusts in addition to the system's, as PEM; "" for none.
    """

    outlets: tuple[Outlet, ...]
    hosts: str
    variables: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""

    @property
    def listen(self) -> list[tuple[str, int]]:
        return [(outlet.address, outlet.port) for outlet in self.outlets]


def make(destinations: tuple[Destination, ...]) -> EgressPlan | None:
    """Return the plan for canonical destinations; None without destinations, when nothing is set up in the box.

    Every name gets its own loopback address. An IP address stays as it is; inside the box it is a local address.
    """
    if not destinations:
        return None
    addresses: dict[str, str] = {}
    lines: list[str] = []
    literal = {destination.host for destination in destinations}
    free = (address for n in range(1, 255) if (address := f"127.0.1.{n}") not in literal)
    for host in dict.fromkeys(destination.host for destination in destinations):
        if _is_address(host):
            addresses[host] = host
        elif host == _LOCALHOST:
            addresses[host] = "127.0.0.1"
        else:
            addresses[host] = next(free)
            lines.append(f"{addresses[host]} {host}\n")
    outlets = [Outlet(PROXY_ADDRESS, PROXY_PORT, None)]
    taken = {(PROXY_ADDRESS, PROXY_PORT)}
    for destination in destinations:
        place = (addresses[destination.host], destination.port)
        if place not in taken:  # `localhost` and `127.0.0.1` may both be listed
            taken.add(place)
            outlets.append(Outlet(*place, destination))
    return EgressPlan(tuple(outlets), _HOSTS + "".join(lines))


def environment() -> dict[str, str]:
    """Return the variables for programs that support proxies. Other programs find the outlets through /etc/hosts."""
    proxy = f"http://{PROXY_ADDRESS}:{PROXY_PORT}"
    return dict.fromkeys(_PROXY_NAMES, proxy) | dict.fromkeys(_DIRECT_NAMES, _DIRECT)


def _is_address(host: str) -> bool:
    try:
        parse(host)
    except ValueError:
        return False
    return True
