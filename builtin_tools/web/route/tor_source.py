"""`TorSource`: a Tor that requests can use, either a running one or one that Knackbox starts."""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Protocol

from builtin_tools.web.contract import Progress
from engine.contract.failure import FailureClass, ToolFailure

TOR_UNAVAILABLE = "tor_unavailable"


@dataclass(frozen=True, slots=True)
class SocksAddress:
    """Where the SOCKS server of Tor listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TorSource(Protocol):
    """A Tor that requests can use."""

    async def ready(self, progress: Progress) -> SocksAddress:
        """Return the SOCKS server of a Tor that is connected to its network. Wait for it if it is starting.

        Args:
            progress: Receives the state of the bootstrap.

        Raises:
            ToolFailure: Tor is not available. The message says what a person can do.
        """
        ...

    async def aclose(self) -> None:
        """Stop what was started."""
        ...


@dataclass(frozen=True, slots=True)
class CircuitNames:
    """Turns names of circuits into SOCKS credentials.

    Tor never uses one circuit for streams with different credentials (`IsolateSOCKSAuth`, which is on by default). The
    secret keeps other programs that use the same Tor, and other engines, off the circuits of this one.
    """

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def credentials(self, circuit: str) -> tuple[str, str]:
        """Return the user name and password for a circuit."""
        digest = hmac.digest(self.secret, circuit.encode(), "sha256").hex()
        return digest[:32], digest[32:]


def tor_unavailable(problem: str, remedy: str) -> ToolFailure:
    """Return the failure of a request that was not sent because Tor is not available."""
    return ToolFailure(
        f"{problem} Nothing was sent, because requests leave this machine through Tor only. {remedy}",
        failure_class=FailureClass.FATAL,
        reason=TOR_UNAVAILABLE,
        may_have_started=False,
    )
