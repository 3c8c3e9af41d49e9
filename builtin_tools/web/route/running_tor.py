"""`RunningTor`: a Tor that somebody else started, at a configured address."""

import asyncio

from builtin_tools.web.contract import Progress
from builtin_tools.web.route.tor_source import SocksAddress, tor_unavailable

_GREETING = b"\x05\x01\x02"  # SOCKS 5, one method: user name and password (RFC 1928, RFC 1929)
_ACCEPTED = b"\x05\x02"
_PATIENCE_S = 5.0


class RunningTor:
    """A Tor at a configured address. Before each request, a handshake checks that it is there."""

    def __init__(self, address: SocksAddress) -> None:
        self._address = address

    async def ready(self, progress: Progress) -> SocksAddress:  # noqa: ARG002 -- the signature of `TorSource`
        """Return the address after a handshake. See `TorSource.ready`."""
        problem = await handshake(self._address)
        if problem:
            raise tor_unavailable(
                f"Tor at {self._address} {problem}.",
                "Start it, or correct socks in [packs.web.tor] of the configuration. Without socks, Knackbox starts "
                "the installed tor itself.",
            )
        return self._address

    async def aclose(self) -> None:
        """Do nothing: Tor belongs to somebody else."""


async def handshake(address: SocksAddress, patience_s: float = _PATIENCE_S) -> str:
    """Check that a SOCKS 5 server with user names, which separate circuits, listens at an address.

    Returns:
        What is wrong, as the end of a sentence; "" if nothing is.
    """
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(_GREETING)
                await writer.drain()
                answer = await reader.readexactly(len(_ACCEPTED))
            finally:
                writer.close()
    except TimeoutError:
        return f"did not answer within {patience_s:g} s"
    except asyncio.IncompleteReadError:
        return "closed the connection, so it is not a SOCKS 5 server"
    except OSError as error:
        return f"cannot be reached ({error.strerror or error})"
    if answer != _ACCEPTED:
        return "is not a SOCKS 5 server that accepts user names, so circuits could not be separated"
    return ""
