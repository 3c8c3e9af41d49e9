"""`TorNetwork`: a real, private Tor network with web servers behind it, for tests marked `services`.

The fixture `tor_network` (conftest.py) starts one network for the tests of a module with ``scripts/tor_network``. A
test uses it like this:

    def test_a_page_is_read_through_tor(tor_network: TorNetwork, tmp_path: Path) -> None:
        with tor_network.serve("docs.example.org", {"/robots.txt": ..., "/": ...}):  # https, by a test CA
            ran = tor_network.run_in_client([sys.executable, "my_script.py"], stdin=...)
        assert tor_network.packets()["outside"] == 0

- Web servers run in this process, but listen in the namespace `web`: `serve` for the handlers of `http_server.py`, or
  `listen` for a listening socket of any other server. Each host gets an address of its own, and the exits resolve its
  name. `register` adds names with any addresses, such as private ones; `certificate` and `tls` make certificates. Only
  ports 80 and 443 can be reached.
- Whatever is tested runs in the namespace `client`, so in a process of its own: `run_in_client` and `popen_in_client`.
  Their environment makes Python trust the test CA (SSL_CERT_FILE). Its settings for `[packs.web]` are `settings()` for
  the Tor that is already running, or `settings(own=True)` for one that Knackbox starts.
- `packets()` counts the packets that the client's namespace has sent: `socks` to the running Tor, `loopback` to a SOCKS
  server on loopback (TCP only), `relays` by a Tor in the namespace, and `outside` for everything else, such as DNS.
- `kill_tor`, `stop_tor` and `start_tor` affect the running Tor. `streams` records which circuits it used, and
  `exit_circuits` what the exits have seen of them.
"""

import contextlib
import ctypes
import datetime as dt
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.builtin_tools.http_server import Answer, Server, serving
from tests.builtin_tools.web.exit_log import circuits_log, hosts_by_circuit
from tests.eventually import eventually_sync

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = REPOSITORY / "scripts/tor_network"
_CLONE_NEWNET = 0x40000000
_STREAM = re.compile(
    r'650 STREAM \d+ (?P<state>\w+) (?P<circuit>\d+) (?P<target>\S+).*SOCKS_USERNAME="(?P<user>[^"]*)"'
)

_CONFLUX = re.compile(r"650 CIRC (?P<circuit>\d+) .*CONFLUX_ID=(?P<set>\w+)")


@dataclass
class Streams:
    """What the running Tor reported while it was watched.

    Attributes:
        lines: All events of streams and circuits.
    """

    lines: list[str] = field(default_factory=list)

    def users_by_circuit(self) -> dict[str, set[str]]:
        """Return the SOCKS user names of the streams that each circuit carried.

        The two circuits of a Conflux set have one exit, which knows that they belong together, so they count as one.
        """
        sets = {match["circuit"]: match["set"] for match in map(_CONFLUX.match, self.lines) if match is not None}
        found: dict[str, set[str]] = {}
        for match in map(_STREAM.match, self.lines):
            if match is not None and match["circuit"] != "0":
                circuit = sets.get(match["circuit"], match["circuit"])
                found.setdefault(circuit, set()).add(match["user"])
        return found


class TorNetwork:
    """A running network. See the module."""

    def __init__(self, folder: Path, found: Mapping[str, Any]) -> None:
        self.socks: str = found["socks"]
        self.client_config: str = found["client_config"]
        self._folder = folder
        self._prefix: str = found["prefix"]
        self._names = Path(found["names"])
        self._gate = Path(found["gate"])
        self._exits = [Path(each) for each in found["exits"]]
        self._gate_process: int = found["processes"]["gate"]
        self._free: list[str] = list(reversed(found["web_addresses"]))
        self._addresses: dict[str, str] = {}  # exits keep what they have resolved, so a host keeps its address
        self._authority = Authority(folder)

    @property
    def ca_file(self) -> Path:
        """The certificate of the test CA, as PEM."""
        return self._authority.file

    def settings(self, *, own: bool = False) -> dict[str, Any]:
        """Return the settings of `[packs.web]` for the running Tor, or for one that Knackbox starts."""
        return {"tor": {"config": self.client_config} if own else {"socks": self.socks}}

    def register(self, host: str, *addresses: str) -> None:
        """Let the exits resolve a name to these addresses."""
        names = json.loads(self._names.read_text())
        names[host] = list(addresses)
        new = self._names.with_suffix(".new")
        new.write_text(json.dumps(names))
        new.replace(self._names)

    def listen(self, *hosts: str, port: int = 443) -> socket.socket:
        """Return a socket that listens behind the exits at an address of its own, to which the names are resolved."""
        address = self._addresses.get(hosts[0]) or self._free.pop()
        listener = in_namespace(self._namespace("web"), lambda: socket.create_server((address, port), backlog=128))
        for host in hosts:
            self._addresses[host] = address
            self.register(host, address)
        return listener

    @contextmanager
    def serve(self, host: str, answers: dict[str, Answer], *, tls: bool = True) -> Iterator[Server]:
        """Serve answers by path at ``https://host/`` (without TLS, at ``http://host/``) until the end of the block."""
        listener = self.listen(host, port=443 if tls else 80)
        with serving(answers, self.tls(host) if tls else None, listener) as server:
            yield server

    def certificate(self, *hosts: str) -> Path:
        """Return a PEM file with a certificate of the test CA for some hosts, and its key."""
        return self._authority.certificate(hosts)

    def tls(self, *hosts: str) -> ssl.SSLContext:
        """Return the context of a server with a certificate of the test CA for some hosts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(*hosts))
        return context

    def popen_in_client(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
        """Start a process in the client's namespace. Its standard streams are pipes of text unless given."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "SSL_CERT_FILE": str(self.ca_file), "PYTHONPATH": str(REPOSITORY)}
        inside = ["ip", "netns", "exec", self._namespace("client"), *command]
        return subprocess.Popen(inside, **{**pipes, "env": environment, "cwd": REPOSITORY, **options})

    def run_in_client(self, command: Sequence[str], *, stdin: str = "", timeout: float = 120.0) -> str:
        """Run a program in the client's namespace and return its output. It must succeed."""
        with self.popen_in_client(command) as process:
            try:
                output, errors = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
                raise AssertionError(f"{command} took longer than {timeout:g} s: {output}\n{errors}") from None
        assert process.returncode == 0, f"{command} exited with {process.returncode}: {output}\n{errors}"
        return output

    def packets(self) -> dict[str, int]:
        """Return how many packets the client's namespace has sent so far, by counter."""
        command = ["ip", "netns", "exec", self._namespace("client"), "nft", "--json", "list", "counters"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)
        found = [each["counter"] for each in listed["nftables"] if "counter" in each]
        return {each["name"]: each["packets"] for each in found}

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Count the packets of a block. The dictionary is filled when the block ends."""
        before, result = self.packets(), dict[str, int]()
        try:
            yield result
        finally:
            result.update({name: after - before[name] for name, after in self.packets().items()})

    def kill_tor(self) -> None:
        """Kill the running Tor (SIGKILL)."""
        self._end_gate(signal.SIGKILL)

    def stop_tor(self) -> None:
        """Stop the running Tor."""
        self._end_gate(signal.SIGTERM)

    def start_tor(self) -> None:
        """Start the running Tor again after it was killed or stopped, and wait until it can be used."""
        ran = subprocess.run(
            [sys.executable, SCRIPT, "restart", self._folder], capture_output=True, text=True, check=False, timeout=150
        )
        assert ran.returncode == 0, ran.stderr
        self._gate_process = json.loads(ran.stdout)["processes"]["gate"]

    @contextmanager
    def streams(self) -> Iterator[Streams]:
        """Record which circuits the streams of a block use."""
        seen = Streams()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self._gate / "control"))
            cookie = (self._gate / "cookie").read_bytes().hex()
            # The circuits that exist already are listed, because Tor prepares some before they are needed.
            control.sendall(f"AUTHENTICATE {cookie}\r\nGETINFO circuit-status\r\nSETEVENTS STREAM CIRC\r\n".encode())
            reader = threading.Thread(target=_read_events, args=(control, seen), daemon=True)
            reader.start()
            try:
                yield seen
            finally:
                control.shutdown(socket.SHUT_RDWR)
                reader.join(timeout=10)

    @contextmanager
    def exit_circuits(self) -> Iterator[dict[str, list[str]]]:
        """Record the hosts that each circuit asks an exit for. The dictionary is filled when the block ends."""
        before = {each: each.stat().st_size for each in map(circuits_log, self._exits)}
        result: dict[str, list[str]] = {}
        try:
            yield result
        finally:
            for log, start in before.items():
                result.update(hosts_by_circuit(log, start))

    def _end_gate(self, number: signal.Signals) -> None:
        # `ip netns exec` has replaced itself by tor, so this is its process.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._gate_process, number)
        eventually_sync(lambda: not _is_running(self._gate_process))

    def _namespace(self, of: str) -> str:
        return f"{self._prefix}-{of}"


class Authority:
    """A certificate authority for the hosts of one network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        self.file = folder / "ca.pem"
        basic = x509.BasicConstraints(ca=True, path_length=0)
        made = self._builder(self._name, self._key.public_key()).add_extension(basic, critical=True)
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, hosts: Sequence[str]) -> Path:
        """Write a certificate for some hosts with its key to one PEM file, and return the file."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        made = (
            self._builder(name, key.public_key()).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{hosts[0]}.pem"
        plain = serialization.NoEncryption()
        pkcs8 = serialization.PrivateFormat.PKCS8
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, pkcs8, plain) + made.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )


def in_namespace(name: str, make: Callable[[], socket.socket]) -> socket.socket:
    """Call a function in a thread that is in a network namespace. A socket stays in the namespace it was made in."""
    with ThreadPoolExecutor(1) as pool:  # the thread ends with the block, so nothing else runs in the namespace
        return pool.submit(_entered, name, make).result()


def _entered(name: str, make: Callable[[], socket.socket]) -> socket.socket:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}", "rb") as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {name}")
    return make()


@contextmanager
def running_network(folder: Path) -> Iterator[TorNetwork]:
    """Run a network until the end of the block."""
    start, stop = ([sys.executable, SCRIPT, command, folder] for command in ("start", "stop"))
    try:
        ran = subprocess.run(start, capture_output=True, text=True, check=False, timeout=180)
        assert ran.returncode == 0, ran.stderr
        yield TorNetwork(folder, json.loads(ran.stdout))
    finally:
        subprocess.run(stop, check=True, timeout=60)


def _read_events(control: socket.socket, seen: Streams) -> None:
    with contextlib.suppress(OSError), control.makefile("r", encoding="utf-8", errors="replace") as events:
        for line in events:
            listed = re.match(r"\d+ (BUILT|EXTENDED|LAUNCHED|GUARD_WAIT) ", line)
            if listed is not None or line.startswith("650 "):
                seen.lines.append(("650 CIRC " if listed is not None else "") + line.strip())


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
