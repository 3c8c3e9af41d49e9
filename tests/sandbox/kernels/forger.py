"""A kernel that forges its own messages, and checks that hold for every result."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.spec import Cell, CellLimits
from tests.sandbox.kernels.starting import Start

BRIEF = CellLimits(wall_s=1.0, grace_s=1.0)
# Run as a cell before the attack. `signed` makes a message of four given parts; `publish` and `reply` send parts as the
# kernel would for the running cell.
FORGER = """
import json, os, socket, sys, time
kernel = get_ipython().kernel
session = kernel.session
stream = kernel.shell_channel_thread.manager.get_subshell_to_shell_channel_socket(None)
def signed(content, kind='stream', header=None, parent=None, metadata=b'{}', signature=None):
    header = json.dumps({**session.msg_header(kind), 'date': '2024-01-01T00:00:00Z'}).encode() if header is None else header
    parent = json.dumps(kernel.get_parent(), default=str).encode() if parent is None else parent
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    parts = [header, parent, metadata, content]
    return [b'<IDS|MSG>', session.sign(parts) if signature is None else signature, *parts]
def publish(parts): kernel.iopub_socket.send_multipart([b'topic', *parts])
def reply(parts): stream.send_multipart([*kernel._parent_ident["shell"], *parts])
hi = {'name': 'stdout', 'text': 'forged'}
def data(text): return b'{"data": {"text/plain": ' + text + b'}, "metadata": {}, "transient": {}}'
"""


def must_be_sound(cell: Cell) -> None:
    """Check that a result has the right types and size and can be serialized, even if the kernel forged messages."""
    written = json.dumps(asdict(cell), allow_nan=False, ensure_ascii=False).encode()
    assert len(written) < 3 * CellLimits().kept_bytes
    assert type(cell.count) in (int, type(None))
    for output in cell.outputs:
        assert all(type(text) is str for text in (output.kind, output.name, output.text, output.display_id))
        assert all(type(bundle) is dict for bundle in (output.data, output.metadata))
        assert all(type(line) is str for line in output.traceback)
    if cell.error is not None:
        assert all(type(text) is str for text in (cell.error.type, cell.error.message, cell.error.traceback))


async def forger(start: Start, **wanted: object) -> tuple[BoxedKernel, KernelClient]:
    kernel, talk = await start(**wanted)
    assert (await talk.run(FORGER, CellLimits())).ok
    return kernel, talk


async def must_be_well_or_lost(run: Callable[[str], Awaitable[Cell]], cell: Cell) -> None:
    must_be_sound(cell)
    if not cell.state_lost:
        after = await run("20 + 22")
        must_be_sound(after)
        assert after.state_lost or "42" in str(after.outputs)
