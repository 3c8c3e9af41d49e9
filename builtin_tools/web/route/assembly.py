"""Creates the web client from the configuration."""

from urllib.parse import urlsplit

from builtin_tools.web.route.client import RoutedClient
from builtin_tools.web.route.own_tor import OwnTor
from builtin_tools.web.route.running_tor import RunningTor
from builtin_tools.web.route.tor_source import SocksAddress, TorSource
from builtin_tools.web.settings import TorSettings, WebSettings
from engine.app.home import Home
from engine.contract.context import Clock
from sandbox.contract import Sandbox


def routed_client(settings: WebSettings, home: Home, sandbox: Sandbox, clock: Clock) -> RoutedClient:
    """Return the web client. Nothing is started or sent."""
    return RoutedClient(settings, tor_source(settings.tor, home, clock), sandbox, clock)


def tor_source(settings: TorSettings, home: Home, clock: Clock) -> TorSource:
    """Return the configured Tor. Nothing is started."""
    if settings.socks:
        return RunningTor(socks_address(settings.socks))
    return OwnTor(settings, home.tor, clock)


def socks_address(setting: str) -> SocksAddress:
    """Return the address and port of a setting that has been validated."""
    parts = urlsplit(f"//{setting}")
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"{setting!r} is not an address with a port.")
    return SocksAddress(parts.hostname, parts.port)
