"""Opens the listening socket of the server, and determines which host names and how many connections it accepts."""

import errno
import ipaddress
import logging
import os
import resource
import socket

from engine.contract.failure import ConfigError
from engine.interfaces.http.edge import HostNames

BACKLOG = 2048  # connections waiting to be accepted; beyond this, a client's first try fails and is retried after 1 s
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OTHER_DESCRIPTORS = 512  # file descriptors that the engine itself uses for databases, boxes and kernels

_log = logging.getLogger("knackbox.http")


def listen(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """Return a listening socket.

    The name is resolved once, so the address that is checked is the address that is bound.

    Args:
        host: A name or an address of this machine.
        port: The port, or 0 for any free one.
        allow_remote: Whether the address may be reachable from other machines.

    Raises:
        ConfigError: The address is unknown, in use, or not loopback although `allow_remote` is off.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        text = f"--host {host}: this name has no address ({error}). Use a name or address of this machine."
        raise ConfigError(text) from error
    family, kind, protocol, _, address = found[0]
    if not allow_remote and not ipaddress.ip_address(address[0]).is_loopback:
        raise ConfigError(
            f"--host {host} can be reached from other machines. Use 127.0.0.1, or add --allow-remote and put a TLS "
            "proxy in front of the server."
        )
    listening = socket.socket(family, kind, protocol)
    try:
        # This allows binding a port while old connections to it are still closing.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        why = "another program uses it" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise ConfigError(f"Cannot listen on {host} port {port}: {why}. Choose another port with --port.") from error
    return listening


def names_of(listening: socket.socket, host: str, more: tuple[str, ...]) -> HostNames:
    """Return the accepted values of the Host header. `more` are names that the operator added."""
    address = ipaddress.ip_address(listening.getsockname()[0])
    names = {host.lower(), str(address), *(each.strip().lower() for each in more)}
    if address.is_loopback or address.is_unspecified:
        names |= _LOOPBACK_NAMES
    return HostNames(frozenset(names - {""}), any_address=address.is_unspecified)


def url_of(listening: socket.socket) -> str:
    """Return the URL of the server for a client on this machine."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004 -- a version of IP
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"  # noqa: PLR2004


def connections_within(wanted: int) -> int:
    """Return how many connections the server may have, after raising the soft limit on descriptors if necessary.

    The result is `wanted` unless the hard limit of the process is too low for it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(2, soft - _OTHER_DESCRIPTORS, soft // 4)
    _log.warning(
        "%d connections need %d file descriptors, but only %d are allowed: at most %d connections are accepted. "
        "Raise the hard limit (ulimit -Hn).",
        wanted,
        needed,
        soft,
        allowed,
    )
    return allowed
