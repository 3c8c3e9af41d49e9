"""Where the server listens: loopback unless told otherwise, and the names by which it may be asked for there."""

import errno
import ipaddress
import os
import socket

from engine.contract.failure import ConfigError
from engine.interfaces.http.edge import Names

BACKLOG = 2048  # connections that wait to be accepted; past it a client's first attempt is lost for a second
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def listen(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """A socket that listens. port: 0 takes any that is free. Raises ConfigError, with the remedy.

    The name is looked up once, and what was looked at is what is bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: no address of that name ({error}). Give one of this machine.") from error
    family, kind, protocol, _, address = found[0]
    if not allow_remote and not ipaddress.ip_address(address[0]).is_loopback:
        raise ConfigError(
            f"--host {host} can be reached from other machines. Add --allow-remote if that is meant, behind something "
            "that speaks TLS; or take 127.0.0.1."
        )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of closed connections, not of servers
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        why = "another program listens there" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise ConfigError(f"{host} port {port} cannot be listened at: {why}. Choose another with --port.") from error
    return listening


def names_of(listening: socket.socket, host: str, more: tuple[str, ...]) -> Names:
    """What a Host header may say. more: names the operator added."""
    address = ipaddress.ip_address(listening.getsockname()[0])
    names = {host.lower(), str(address), *(each.strip().lower() for each in more)}
    if address.is_loopback or address.is_unspecified:
        names |= _LOOPBACK_NAMES
    return Names(frozenset(names - {""}), any_address=address.is_unspecified)


def url_of(listening: socket.socket) -> str:
    """As a client on this machine writes it."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004 -- of IP
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"  # noqa: PLR2004
