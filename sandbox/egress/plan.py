"""A job's destinations as seen from its box: who listens where, what names resolve to, which variables say so."""

from dataclasses import dataclass

from sandbox.contract import Destination
from sandbox.egress.addresses import parse

PROXY_ADDRESS, PROXY_PORT = "127.0.2.1", 3128  # not 127.0.0.1, where a job's own servers are
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_DIRECT_NAMES = ("NO_PROXY", "no_proxy")
_DIRECT = "localhost,127.0.0.1,::1"
_HOSTS = "127.0.0.1 localhost box\n::1 localhost\n"
_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True)
class Outlet:
    """One listening socket in the box. destination: where it leads; None for the proxy, which is told by its client."""

    address: str
    port: int
    destination: Destination | None


@dataclass(frozen=True, slots=True)
class EgressPlan:
    """hosts: the box's /etc/hosts."""

    outlets: tuple[Outlet, ...]
    hosts: str

    @property
    def listen(self) -> list[tuple[str, int]]:
        return [(outlet.address, outlet.port) for outlet in self.outlets]


def make(destinations: tuple[Destination, ...]) -> EgressPlan | None:
    """For destinations in canonical form; None without any: then nothing is set up in the box at all.

    Every name gets a loopback address of its own. An address keeps itself: inside the box it is made a local one.
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


def environment(plan: EgressPlan | None) -> dict[str, str]:
    """Variables for programs that honour proxies; the others find the outlets by name."""
    if plan is None:
        return {}
    proxy = f"http://{PROXY_ADDRESS}:{PROXY_PORT}"
    return dict.fromkeys(_PROXY_NAMES, proxy) | dict.fromkeys(_DIRECT_NAMES, _DIRECT)


def _is_address(host: str) -> bool:
    try:
        parse(host)
    except ValueError:
        return False
    return True
