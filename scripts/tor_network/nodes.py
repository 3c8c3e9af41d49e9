"""The Tor nodes of the test network: three authorities, four relays, two exits, and the Tor that clients use."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from namespaces import GATE, OR_PORTS, SOCKS_PORT, TOR, Namespaces, run

OR_PORT, DIR_PORT = OR_PORTS
_AUTHORITIES, _RELAYS, _EXITS = 3, 4, 2
GATE_NODE = "gate"
CIRCUITS_LOG = "circuits.log"  # of an exit: which circuit asked for which host
# Tor must accept relays that were just started, and publish a consensus within seconds (tor(1), "Testing network
# options"). What protects clients is set as in the real network, although TestingTorNetwork would turn it off.
_COMMON = """
TestingTorNetwork 1
AssumeReachable 1
PathsNeededToBuildCircuits 0.67
TestingDirAuthVoteExit *
TestingDirAuthVoteGuard *
TestingDirAuthVoteHSDir *
TestingMinExitFlagThreshold 0
V3AuthNIntervalsValid 3
ClientRejectInternalAddresses 1
ClientDNSRejectInternalAddresses 1
ShutdownWaitLength 0
DisableDebuggerAttachment 0
"""
_AUTHORITY = """
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody
ExitPolicy reject *:*
TestingV3AuthInitialVotingInterval 5
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
V3AuthVotingInterval 20
V3AuthVoteDelay 4
V3AuthDistDelay 4
"""
_EXIT = """
ExitRelay 1
ExitPolicyRejectPrivate 1
ExitPolicy accept *:80
ExitPolicy accept *:443
ExitPolicy reject *:*
ServerDNSResolvConfFile {resolv}
ServerDNSDetectHijacking 0
ServerDNSAllowBrokenConfig 1
SafeLogging 0
Log [circ,edge]debug file {circuits}
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One relay or authority."""

    name: str
    address: str
    kind: str

    @property
    def is_authority(self) -> bool:
        return self.kind == "authority"


def nodes() -> tuple[Node, ...]:
    """Return all relays. Each is in a /16 network of its own, so that circuits may use any three of them."""
    kinds = ["authority"] * _AUTHORITIES + ["relay"] * _RELAYS + ["exit"] * _EXITS
    return tuple(Node(f"{kind}{index}", f"11.{index}.0.1", kind) for index, kind in enumerate(kinds, 1))


class TorNodes:
    """The nodes of a network in one folder."""

    def __init__(self, folder: Path, namespaces: Namespaces, resolv: Path) -> None:
        self._folder = folder
        self._namespaces = namespaces
        self._resolv = resolv

    def write(self) -> Path:
        """Create the keys and configurations of all nodes. Return the options that a further client needs."""
        directory = [self._authority_line(node) for node in nodes() if node.is_authority]
        common = _COMMON + "\n".join(directory) + "\n"
        for node in nodes():
            extra = _AUTHORITY + f"DirPort {node.address}:{DIR_PORT}\n" if node.is_authority else ""
            if node.kind == "exit":
                extra = _EXIT.format(resolv=self._resolv, circuits=self._folder / node.name / CIRCUITS_LOG)
            elif node.kind == "relay":
                extra = "ExitPolicy reject *:*\n"
            listening = f"Address {node.address}\nORPort {node.address}:{OR_PORT}\nNickname {node.name}\nSocksPort 0\n"
            self._write(node.name, common + listening + extra)
        self._write(GATE_NODE, common + f"ClientOnly 1\nSocksPort {GATE}:{SOCKS_PORT} IsolateSOCKSAuth\n")
        client = self._folder / "client.torrc"
        client.write_text(common)
        return client

    def start(self, *names: str) -> dict[str, int]:
        """Start nodes, all of them without names. Return their process ids."""
        started = {}
        for name in names or (*(node.name for node in nodes()), GATE_NODE):
            command = self._namespaces.inside(TOR, "tor", "--defaults-torrc", self._empty(), "-f", self._torrc(name))
            with (self._folder / name / "tor.log").open("ab") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            started[name] = process.pid
        return started

    def _authority_line(self, node: Node) -> str:
        """Create the keys of an authority, and return the line by which others know it."""
        keys = self._folder / node.name / "keys"
        keys.mkdir(mode=0o700, parents=True)
        (self._folder / node.name).chmod(0o700)
        place = f"{node.address}:{DIR_PORT}"
        files = {"-i": "authority_identity_key", "-s": "authority_signing_key", "-c": "authority_certificate"}
        options = [each for option, name in files.items() for each in (option, str(keys / name))]
        create = ("tor-gencert", "--create-identity-key", "--passphrase-fd", "0", "-m", "12", "-a", place)
        run(*create, *options, stdin="password\n")
        nowhere = f"x 127.0.0.1:1 {'f' * 40}"
        listed = run(
            *("tor", "--quiet", "--defaults-torrc", self._empty(), "-f", self._empty(), "--list-fingerprint"),
            *("--DataDirectory", str(keys.parent), "--ORPort", "1", "--Nickname", node.name),
            *("--Address", node.address, "--DirAuthority", nowhere),
        )
        fingerprint = re.search(r"((?:[0-9A-F]{4} ?){10})", listed)
        certificate = (keys / "authority_certificate").read_text()
        identity = re.search(r"^fingerprint ([0-9A-F]{40})$", certificate, re.MULTILINE)
        if fingerprint is None or identity is None:
            raise RuntimeError(f"{node.name}: tor and tor-gencert printed no fingerprint: {listed[:200]!r}")
        return f"DirAuthority {node.name} orport={OR_PORT} v3ident={identity[1]} {place} " + fingerprint[1].replace(
            " ", ""
        )

    def _empty(self) -> str:
        """Return an empty file, so that Tor does not read the machine's configuration."""
        path = self._folder / "empty"
        path.touch()
        return str(path)

    def _write(self, name: str, options: str) -> None:
        folder = self._folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        control = f"ControlSocket {folder}/control\nCookieAuthentication 1\nCookieAuthFile {folder}/cookie\n"
        Path(self._torrc(name)).write_text(f"{options}DataDirectory {folder}\nLog notice stdout\n{control}")

    def _torrc(self, name: str) -> str:
        return str(self._folder / name / "torrc")
