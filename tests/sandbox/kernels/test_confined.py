"""A kernel has no network and only its workspace. test_escapes.py runs the suite of escapes."""

import socket
from pathlib import Path

import psutil
import pytest

from sandbox.contract import End, Mount
from sandbox.kernels.spec import CellLimits
from tests.sandbox.kernels.starting import Start

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("KERN-1")
async def test_a_kernel_has_no_network_and_sees_no_device_of_the_host(start: Start) -> None:
    _, talk = await start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "def reach(host, port):\n"
            "    try: socket.create_connection((host, port), 2); return 'reached'\n"
            "    except OSError as problem: return 'refused'\n"
            f"print(reach('127.0.0.1', {port}), reach('1.1.1.1', 80))"
        )
        assert (await talk.run(code, CellLimits())).stdout == "refused refused\n"


@pytest.mark.spec("KERN-1")
async def test_none_of_a_kernels_sockets_belongs_to_the_hosts_network(start: Start) -> None:
    """List the devices of every socket with SIOCGIFCONF: a socket of the host's network would list the host's."""
    _, talk = await start()
    code = """
import array, fcntl, os, socket, stat, struct
def devices(fd):
    room = array.array('B', bytes(4096))
    size, _ = struct.unpack('iL', fcntl.ioctl(fd, 0x8912, struct.pack('iL', 4096, room.buffer_info()[0])))
    return {room.tobytes()[at:at + 16].split(b'\\0')[0].decode() for at in range(0, size, 40)}
seen = set()
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): seen |= devices(fd)
    except OSError: pass
print(sorted(seen))
"""
    assert (await talk.run(code, CellLimits())).stdout == "['lo']\n"


@pytest.mark.spec("KERN-1", "BOX-6")
async def test_a_kernel_can_write_to_its_workspace_but_not_use_a_socket_in_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("from the host")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "door"))
        server.listen()
        _, talk = await start(workspace=Mount(tmp_path))
        cell = await talk.run("print(open('note').read()); open('out', 'w').write('from the cell'); None", CellLimits())
        assert cell.stdout == "from the host\n"
        assert (tmp_path / "out").read_text() == "from the cell"
        cell = await talk.run("import socket; socket.socket(socket.AF_UNIX).connect('door')", CellLimits())
        assert cell.error is not None
        assert cell.error.type in ("PermissionError", "OSError")


@pytest.mark.spec("KERN-1")
async def test_a_message_over_the_limit_is_cut_off_and_takes_no_memory_of_the_engine(start: Start) -> None:
    _, talk = await start()
    code = "get_ipython().kernel.iopub_thread.socket.send_multipart([b'x' * (65 << 20)])\nimport time; time.sleep(30)"
    before = psutil.Process().memory_info().rss
    cell = await talk.run(code, CellLimits(wall_s=1.0, grace_s=1.0))
    assert cell.end in (End.TIMEOUT, End.ERROR)  # later messages may or may not arrive on the next connection
    assert psutil.Process().memory_info().rss - before < 32 << 20
