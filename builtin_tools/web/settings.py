"""`WebSettings`: the table `[packs.web]` of the configuration."""

import ipaddress
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from builtin_tools.web.pages.settings import PageSettings
from builtin_tools.web.search.settings import SearchSettings

NAME = "web"  # the name of the entry point and therefore of the configuration table
TOR, DIRECT = "tor", "direct"
_PROXIES = frozenset({"http", "https", "socks5h"})
_PORTS = range(1, 65536)


def _route(value: str) -> str:
    if value in {TOR, DIRECT}:
        return value
    parts = _split(value)
    if parts is None or parts.scheme not in _PROXIES or not parts.hostname or parts.port is None or parts.path:
        raise ValueError('a route is "tor", "direct", or the URL of a proxy with its port, such as "http://proxy:3128"')
    return value


def _host(value: str) -> str:
    host = value.strip().lower().rstrip(".")
    if not host.isascii() or not host or any(each in host for each in "/@ *") or host.startswith(".."):
        raise ValueError('name a host, such as "example.org", or a domain with all its hosts, such as ".example.org"')
    return host


def _socks(value: str) -> str:
    if not value:
        return value
    parts = _split(f"//{value}")
    if parts is None or parts.hostname is None or parts.port is None or not _is_address(parts.hostname):
        raise ValueError('give the address and port of a running Tor, such as "127.0.0.1:9050"; names are not resolved')
    return value


def _split(value: str) -> SplitResult | None:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:  # a port that is not a number, or brackets that do not match
        return None
    return parts if port is None or port in _PORTS else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


RouteSetting = Annotated[str, AfterValidator(_route)]
HostSetting = Annotated[str, AfterValidator(_host)]


class TorSettings(BaseModel):
    """The table `[packs.web.tor]` of the configuration.

    Attributes:
        socks: The address and port of a running Tor, such as ``"127.0.0.1:9050"``. Without it, Knackbox starts its own.
        command: The program that is started.
        config: A file with further options for it, such as bridges; "" for none.
        bootstrap_s: How many seconds Tor may take to connect to its network.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    socks: Annotated[str, AfterValidator(_socks)] = ""
    command: str = "tor"
    config: str = ""
    bootstrap_s: float = Field(default=120.0, gt=0, le=600)


class WebSettings(BaseModel):
    """The table `[packs.web]` of the configuration.

    Attributes:
        route: How requests leave the machine: ``"tor"``, ``"direct"``, or the URL of a proxy.
        hosts: The routes of named hosts. A name that begins with a dot also stands for all hosts of that domain. The
            most specific name decides.
        tor: How Tor is reached.
        allow: Host names, addresses or networks that may be requested although they are not public.
        robots: Whether robots.txt is obeyed.
        user_agent: The header `User-Agent`. In robots.txt, Knackbox looks for the name "Knackbox".
        requests_per_s: How many requests per second are sent to one host, after a burst.
        burst: How many requests to one host are sent without a pause.
        longest_wait_s: The longest wait for the rate limit of a host, in seconds.
        max_bytes: Size limit of a response.
        timeout_s: Time limit of a request with its redirects, in seconds. The start of Tor and waits for rate limits
            are not included.
        pages: How long pages are kept.
        search: Which search engine is used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    route: RouteSetting = TOR
    hosts: dict[HostSetting, RouteSetting] = Field(default_factory=dict)
    tor: TorSettings = TorSettings()
    allow: tuple[str, ...] = ()
    robots: bool = True
    user_agent: str = Field("Mozilla/5.0 (compatible; Knackbox)", min_length=1, max_length=200, pattern=r"^[ -~]+$")
    requests_per_s: float = Field(1.0, gt=0, le=100)
    burst: int = Field(3, ge=1, le=100)
    longest_wait_s: float = Field(30.0, ge=0, le=300)
    max_bytes: int = Field(16 << 20, ge=1, le=1 << 30)
    timeout_s: float = Field(90.0, gt=0, le=600)
    pages: PageSettings = PageSettings()
    search: SearchSettings = SearchSettings()
