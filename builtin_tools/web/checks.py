"""What `knackbox doctor` checks about the web pack. Entry point of the group ``knackbox.checks``."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from builtin_tools.web.route.routes import Route, Routes
from builtin_tools.web.settings import NAME, TorSettings, WebSettings
from engine.app.doctor import BROKEN, MISSING, OK, DoctorCheck
from engine.app.home import Home
from engine.app.pack_settings import pack_settings
from engine.app.settings import Settings
from engine.contract.failure import ConfigError

_GREETING, _ACCEPTED = b"\x05\x01\x02", b"\x05\x02"  # SOCKS 5 with a user name (RFC 1928, RFC 1929)
_PATIENCE_S = 3.0
_INSTALL = "Install it (on Debian: apt install tor), or set socks in [packs.web.tor], or another route in [packs.web]."


def checks(home: Home, settings: Settings) -> Iterator[DoctorCheck]:
    """Report the routes of web requests, and whether Tor is available."""
    try:
        web = pack_settings(NAME, settings.packs.get(NAME, {}), WebSettings)
    except ConfigError as error:
        yield DoctorCheck("configuration", "[packs.web]", BROKEN, detail=str(error), remedy="Correct it.")
        return
    others = [f"{host}: {Route(route).name}" for host, route in sorted(web.hosts.items())]
    yield _check("route", OK, "; ".join([Routes(web.route).of("").name, *others]))
    if Routes(web.route, web.hosts).uses_tor:
        yield _running(web.tor) if web.tor.socks else _installed(web.tor, home)


def _running(tor: TorSettings) -> DoctorCheck:
    host, _, port = tor.socks.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S) as line:
            line.sendall(_GREETING)
            answer = line.recv(len(_ACCEPTED))
    except OSError as error:
        return _check("Tor", BROKEN, f"{tor.socks} cannot be reached ({error})", "Start Tor, or correct socks.")
    if answer != _ACCEPTED:
        return _check("Tor", BROKEN, f"{tor.socks} is not a SOCKS 5 server that accepts user names", "Correct socks.")
    return _check("Tor", OK, f"running at {tor.socks}")


def _installed(tor: TorSettings, home: Home) -> DoctorCheck:
    program = shutil.which(tor.command)
    if program is None:
        return _check("Tor", MISSING, f"{tor.command} is not installed", _INSTALL)
    if tor.config and not Path(tor.config).expanduser().is_file():
        return _check("Tor", BROKEN, f"{tor.config} does not exist", "Correct config in [packs.web.tor].")
    try:
        ran = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return _check("Tor", BROKEN, f"{program} does not run ({error})", _INSTALL)
    version = ran.stdout.partition("\n")[0].strip().rstrip(".")
    return _check("Tor", OK, f"{version}, started at the first request; its data is in {home.tor}")


def _check(name: str, state: str, detail: str, remedy: str = "") -> DoctorCheck:
    return DoctorCheck("web", name, state, required=False, detail=detail, remedy=remedy)
