"""`Routes`: which route the requests to a host take."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from builtin_tools.web.settings import DIRECT, TOR


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        setting: ``"tor"``, ``"direct"``, or the URL of a proxy, which may contain a password.
        named: Whether a person chose it for this very host, not for a domain or for all hosts.
    """

    setting: str
    named: bool = False

    @property
    def is_tor(self) -> bool:
        return self.setting == TOR

    @property
    def is_direct(self) -> bool:
        return self.setting == DIRECT

    @property
    def name(self) -> str:
        """The route in words, for people. It contains no password."""
        if self.is_tor:
            return "Tor"
        if self.is_direct:
            return "direct"
        proxy = urlsplit(self.setting)
        return f"proxy {proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"


@dataclass(frozen=True, slots=True)
class Routes:
    """The configured routes.

    Attributes:
        default: The route of all hosts that are not named.
        hosts: Routes by host name. A name that begins with a dot stands for a domain and all hosts in it.
    """

    default: str = TOR
    hosts: Mapping[str, str] | None = None

    def of(self, host: str) -> Route:
        """Return the route to a host. Its own entry decides, else that of the smallest domain, else the default."""
        hosts = self.hosts or {}
        host = host.lower().rstrip(".")
        if host in hosts:
            return Route(hosts[host], named=True)
        domain = f".{host}"
        while domain:
            if domain in hosts:
                return Route(hosts[domain])
            domain = domain[1:]
            domain = domain[domain.index(".") :] if "." in domain else ""
        return Route(self.default)

    @property
    def uses_tor(self) -> bool:
        """Whether any request may go through Tor."""
        return TOR in {self.default, *(self.hosts or {}).values()}
