"""Through a real Tor network: nothing leaves by another way, and no two tasks share a circuit."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.builtin_tools.http_server import Answer, Seen, reply
from tests.builtin_tools.web.tor_network import REPOSITORY, TorNetwork
from tests.eventually import eventually_sync

pytestmark = [pytest.mark.spec("WEB-1"), pytest.mark.services, pytest.mark.timeout(300)]
SCRIPT = [sys.executable, str(REPOSITORY / "tests/builtin_tools/web/route_script.py")]
LOOKUP = [sys.executable, "-c", "import socket; socket.getaddrinfo('docs.example.org', 443)"]


def body(data: bytes, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: reply(handler, status, data, named)


def job(home: Path, settings: dict[str, Any], *requests: tuple[str, str], **options: Any) -> str:
    return json.dumps({"home": str(home), "settings": settings, "requests": requests, **options}) + "\n"


def fetched(network: TorNetwork, text: str) -> list[dict[str, Any]]:
    lines = network.run_in_client(SCRIPT, stdin=text).splitlines()
    return [json.loads(line) for line in lines if "ready" not in json.loads(line)]


def test_a_lookup_or_connection_past_tor_would_be_counted(tor_network: TorNetwork) -> None:
    with tor_network.counted() as packets, tor_network.popen_in_client(LOOKUP) as process:
        process.communicate(timeout=60)
    assert packets["outside"] > 0


def test_a_page_is_fetched_through_the_running_tor_and_nothing_leaves_by_another_way(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"through Tor")}) as server, tor_network.counted() as packets:
        (got,) = fetched(tor_network, job(tmp_path, tor_network.settings(), ("https://docs.example.org/", "task")))
        assert [seen.headers["host"] for seen in server.seen] == ["docs.example.org"]
    assert (got["data"], got["route"]) == ("through Tor", "Tor")
    assert packets["socks"] > 0
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)


def test_no_two_tasks_share_a_circuit(tor_network: TorNetwork, tmp_path: Path) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"page")}), tor_network.streams() as streams:
        requests = [("https://docs.example.org/", f"task {number % 6}") for number in range(18)]
        results = fetched(tor_network, job(tmp_path, tor_network.settings(), *requests, together=True))
    assert [each.get("data", each) for each in results] == ["page"] * 18
    users = streams.users_by_circuit()
    assert len(set().union(*users.values())) == 6
    assert {circuit: len(each) for circuit, each in users.items()} == dict.fromkeys(users, 1)


def test_without_user_names_tasks_would_share_a_circuit(tor_network: TorNetwork, tmp_path: Path) -> None:
    """The check above would notice: with one name for all tasks, they are on one circuit."""
    with tor_network.serve("docs.example.org", {"/": body(b"page")}), tor_network.streams() as streams:
        requests = [("https://docs.example.org/", "one name") for _ in range(3)]
        fetched(tor_network, job(tmp_path, tor_network.settings(), *requests))
    assert len(streams.users_by_circuit()) == 1


TASKS = [f"task{number}.example.org" for number in range(6)]


def asked_by_circuit(network: TorNetwork, home: Path, circuits: list[str], **options: Any) -> list[list[str]]:
    """Request three pages for each task, which has a host of its own. Return the hosts that each circuit asked for."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(network.serve(host, {f"/{n}": body(b"page") for n in range(3)})) for host in TASKS
        ]
        with network.exit_circuits() as seen:
            pages = [
                (f"https://{host}/{n}", circuit)
                for n in range(3)
                for host, circuit in zip(TASKS, circuits, strict=True)
            ]
            results = fetched(network, job(home, network.settings(), *pages, **options))
    assert [each.get("data", each) for each in results] == ["page"] * len(pages)
    asked = [host for hosts in seen.values() for host in hosts]
    assert len(asked) >= sum(len(server.seen) for server in servers) >= len(pages), "every request passed an exit"
    return list(seen.values())


def test_an_exit_never_sees_two_tasks_on_one_circuit(tor_network: TorNetwork, tmp_path: Path) -> None:
    circuits = asked_by_circuit(tor_network, tmp_path, TASKS, together=True)
    assert {host for hosts in circuits for host in hosts} == set(TASKS)
    assert [sorted(set(hosts)) for hosts in circuits if len(set(hosts)) != 1] == []


def test_an_exit_would_see_tasks_that_share_a_circuit(tor_network: TorNetwork, tmp_path: Path) -> None:
    """The check above would notice: with one name for all tasks, the exit sees all of them on one circuit."""
    circuits = asked_by_circuit(tor_network, tmp_path, ["one name"] * len(TASKS))
    assert [set(hosts) for hosts in circuits] == [set(TASKS)]


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("10.0.0.1",), ("11.200.0.53", "192.168.0.1")])
def test_a_name_that_the_exit_resolves_to_a_private_address_is_not_reached(
    addresses: tuple[str, ...], tor_network: TorNetwork, tmp_path: Path
) -> None:
    tor_network.register("rebind.example.org", *reversed(addresses))
    with tor_network.counted() as packets:
        (got,) = fetched(tor_network, job(tmp_path, tor_network.settings(), ("http://rebind.example.org/", "task")))
    assert "data" not in got
    assert packets["outside"] == 0


def test_redirects_to_private_addresses_are_refused(tor_network: TorNetwork, tmp_path: Path) -> None:
    targets = ["http://127.0.0.1/", "http://localhost/", "http://metadata.internal/", "http://[::1]/", "http://0x7f.1/"]
    answers = {f"/{number}": body(b"", 302, Location=target) for number, target in enumerate(targets)}
    with tor_network.serve("evil.example.org", answers, tls=False), tor_network.counted() as packets:
        requests = [(f"http://evil.example.org/{number}", "task") for number in range(len(targets))]
        results = fetched(tor_network, job(tmp_path, tor_network.settings(), *requests))
    assert [each.get("failed") for each in results] == ["address_refused"] * 4 + ["address_refused"]
    assert (packets["outside"], packets["loopback"]) == (0, 0)


def test_a_certificate_of_another_host_is_refused(tor_network: TorNetwork, tmp_path: Path) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"page")}) as server:
        address = server.address
        tor_network.register("other.example.org", address)
        (got,) = fetched(tor_network, job(tmp_path, tor_network.settings(), ("https://other.example.org/", "task")))
    assert got["failed"] == "bad_certificate"


def test_with_tor_stopped_nothing_is_sent_and_the_failure_says_what_to_do(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    text = job(tmp_path, tor_network.settings(), ("https://docs.example.org/", "task"))
    with tor_network.serve("docs.example.org", {"/": body(b"page")}) as server:
        tor_network.stop_tor()
        try:
            with tor_network.counted() as packets:
                (got,) = fetched(tor_network, text)
        finally:
            tor_network.start_tor()
        assert server.seen == []
        assert (got["failed"], "Start it" in got["message"]) == ("tor_unavailable", True)
        assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)
        (got,) = fetched(tor_network, text)
    assert got["data"] == "page"


def test_with_tor_killed_midway_the_request_fails_and_nothing_else_is_sent(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    begun = threading.Event()

    def endless(handler: BaseHTTPRequestHandler, _: Seen) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000000")
        handler.end_headers()
        handler.wfile.write(b"first part")
        begun.set()
        while True:  # until the connection is closed
            handler.wfile.write(b"x" * 1000)

    answers = {"/endless": endless, "/": body(b"page")}
    with tor_network.serve("docs.example.org", answers) as server, tor_network.counted() as packets:
        requests = [("https://docs.example.org/endless", "task"), ("https://docs.example.org/", "task")]
        settings = {**tor_network.settings(), "max_bytes": 1 << 30}
        with tor_network.popen_in_client(SCRIPT) as process:
            assert process.stdin is not None
            process.stdin.write(job(tmp_path, settings, *requests))
            process.stdin.flush()
            try:
                assert begun.wait(60)
                tor_network.kill_tor()
                output, _ = process.communicate(timeout=120)
            finally:
                tor_network.start_tor()
        assert [seen.path for seen in server.seen] == ["/endless"]
    first, second = [json.loads(line) for line in output.splitlines()[1:]]
    assert first["failed"] == "download_failed"
    assert second["failed"] == "tor_unavailable"
    assert packets["socks"] > 0
    assert (packets["outside"], packets["relays"], packets["loopback"]) == (0, 0, 0)


def tors_of(home: Path) -> list[int]:
    """Return the processes of the Tor of a home."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[0].endswith(b"tor") and f"{home}/tor/data".encode() in command:
                found.append(int(folder.name))
    return found


def test_knackbox_starts_tor_itself_shows_the_bootstrap_and_stops_it(tor_network: TorNetwork, tmp_path: Path) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"page")}), tor_network.counted() as packets:
        (got,) = fetched(
            tor_network, job(tmp_path, tor_network.settings(own=True), ("https://docs.example.org/", "task"))
        )
    assert (got.get("data"), got.get("route")) == ("page", "Tor"), got
    assert any(message.startswith("Tor: ") for message in got["progress"])
    assert tors_of(tmp_path) == []
    assert packets["outside"] == 0
    assert packets["relays"] > 0


def test_a_tor_that_knackbox_started_ends_when_the_engine_is_killed(tor_network: TorNetwork, tmp_path: Path) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"page")}), tor_network.counted() as packets:
        text = job(tmp_path, tor_network.settings(own=True), ("https://docs.example.org/", "task"), hold=True)
        with tor_network.popen_in_client(SCRIPT) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(text)
            process.stdin.flush()
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]
            assert lines[1].get("data") == "page", lines
            assert len(tors_of(tmp_path)) == 1
            os.kill(process.pid, signal.SIGKILL)
        eventually_sync(lambda: tors_of(tmp_path) == [])
    assert packets["outside"] == 0


def test_engines_on_one_home_share_one_tor_which_outlives_the_engine_that_started_it(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    url = ("https://docs.example.org/", "task")
    text = job(tmp_path, tor_network.settings(own=True), url, hold=True)
    with tor_network.serve("docs.example.org", {"/": body(b"page")}):
        with tor_network.popen_in_client(SCRIPT) as first, tor_network.popen_in_client(SCRIPT) as second:
            for process in (first, second):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(text)
                process.stdin.flush()
                assert json.loads(process.stdout.readline()) == {"ready": True}
                assert json.loads(process.stdout.readline())["data"] == "page"
            (started,) = tors_of(tmp_path)
            first.communicate("\n", timeout=60)
            assert tors_of(tmp_path) == [started]
            (got,) = fetched(tor_network, job(tmp_path, tor_network.settings(own=True), url))
            assert got["data"] == "page"
            assert tors_of(tmp_path) == [started]
            second.communicate("\n", timeout=60)
        assert tors_of(tmp_path) == []


def test_a_request_that_is_cancelled_neither_stops_tor_nor_leaves_one_behind(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    with tor_network.serve("docs.example.org", {"/": body(b"page")}), tor_network.counted() as packets:
        requests = [("https://docs.example.org/", f"task {number}") for number in range(60)]
        text = job(tmp_path, tor_network.settings(own=True), *requests, cancel_after=0.4)
        results = fetched(tor_network, text)
        assert len(results) == 60
        assert results[0] == {"cancelled": True}  # while Tor was starting
        assert any(each.get("data") == "page" for each in results)  # the same Tor, since it was not stopped
    assert tors_of(tmp_path) == []
    assert packets["outside"] == 0


def test_a_tor_of_knackbox_that_was_killed_is_started_again_by_the_next_request(
    tor_network: TorNetwork, tmp_path: Path
) -> None:
    # The path is too long for a Unix socket, so the control socket is elsewhere.
    home = tmp_path / ("long" * 25)
    settings = tor_network.settings(own=True)
    serving = tor_network.serve("docs.example.org", {"/": body(b"page")})
    with serving, tor_network.counted() as packets, tor_network.popen_in_client(SCRIPT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests = [("https://docs.example.org/", "one")] * 30
        process.stdin.write(job(home, settings, *requests, hold=True))
        process.stdin.flush()
        assert [json.loads(process.stdout.readline()).get("data") for _ in range(2)] == [None, "page"]
        (killed,) = tors_of(home)
        os.kill(killed, signal.SIGKILL)
        results = [json.loads(process.stdout.readline()) for _ in range(29)]
        (restarted,) = tors_of(home)
        process.communicate("\n", timeout=60)
    assert restarted != killed
    assert results[-1].get("data") == "page", results[-1]
    assert tors_of(home) == []
    assert packets["outside"] == 0


def test_a_server_that_breaks_off_the_tls_handshake_is_reported(tor_network: TorNetwork, tmp_path: Path) -> None:
    with tor_network.listen("broken.example.org") as listener:

        def close_each() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=close_each, daemon=True).start()
        (got,) = fetched(tor_network, job(tmp_path, tor_network.settings(), ("https://broken.example.org/", "task")))
        listener.shutdown(socket.SHUT_RDWR)
    assert got["failed"] == "download_failed"


def test_a_tor_that_refuses_its_options_is_reported_with_its_own_words(tor_network: TorNetwork, tmp_path: Path) -> None:
    config = tmp_path / "wrong.torrc"
    config.write_text("NoSuchOption 1\n")
    settings = {"tor": {"config": str(config)}}
    with tor_network.counted() as packets:
        (got,) = fetched(tor_network, job(tmp_path, settings, ("https://docs.example.org/", "task")))
    assert got["failed"] == "tor_unavailable"
    assert "NoSuchOption" in got["message"]
    assert sum(packets.values()) == 0
