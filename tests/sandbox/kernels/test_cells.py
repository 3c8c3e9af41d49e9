"""Cells in a real kernel in a real box: state, outputs, errors, interrupts and ends."""

import asyncio

import pytest
import zmq.asyncio

from sandbox.contract import End
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.spec import CellLimits, KernelDied, KernelSpec
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.sandbox.kernels.starting import Start

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-1")]

SHORT = CellLimits(wall_s=0.5, grace_s=10.0)
STUBBORN = """
import time
while True:
    try: time.sleep(30)
    except KeyboardInterrupt: pass
"""
LOSES_ITS_REPLY = """
kernel, x = get_ipython().kernel, 3
def finish_metadata(*_):
    del kernel.finish_metadata
    raise KeyboardInterrupt
kernel.finish_metadata = finish_metadata
"""


async def test_variables_are_kept_between_cells(start: Start) -> None:
    _, talk = await start()
    assert (await talk.run("import math\nx = 20", CellLimits())).ok
    cell = await talk.run("print('so', math.floor(x + 1.5)); x", CellLimits())
    assert (cell.end, cell.stdout, cell.count) == (End.OK, "so 21\n", 2)
    assert cell.outputs[-1].data == {"text/plain": "20"}
    assert not cell.state_lost


async def test_an_exception_has_a_traceback_and_keeps_the_state(start: Start) -> None:
    _, talk = await start()
    await talk.run("x = 0", CellLimits())
    cell = await talk.run("def half(n):\n    return n / x\nhalf(1)", CellLimits())
    assert cell.end is End.ERROR
    assert cell.error is not None
    assert (cell.error.type, cell.error.message) == ("ZeroDivisionError", "division by zero")
    assert "return n / x" in cell.error.traceback
    assert "\x1b" not in cell.error.traceback
    assert any("\x1b" in line for line in cell.outputs[-1].traceback)
    assert (await talk.run("assert x == 0", CellLimits())).ok


@pytest.mark.spec("KERN-4")
async def test_a_display_keeps_its_mime_bundle_and_can_be_updated(start: Start) -> None:
    _, talk = await start()
    code = (
        "from IPython.display import HTML, display\n"
        "shown = display(HTML('<b>1</b>'), display_id='d')\nprint('x')\nshown.update(HTML('<b>2</b>'))"
    )
    cell = await talk.run(code, CellLimits())
    assert [output.kind for output in cell.outputs] == ["display", "stream"]
    assert cell.outputs[0].data["text/html"] == "<b>2</b>"


@pytest.mark.spec("KERN-4")
async def test_input_raises_an_error(start: Start) -> None:
    _, talk = await start()
    cell = await talk.run("input('name? ')", CellLimits())
    assert cell.end is End.ERROR
    assert cell.error is not None
    assert cell.error.type == "StdinNotImplementedError"


async def test_a_shell_command_runs_in_the_box_and_prints_into_the_cell(start: Start) -> None:
    _, talk = await start()
    cell = await talk.run("word = 'here'\n!echo {word}; id -u; cat; exit 3", CellLimits())
    assert cell.stdout == "here\n1000\n"
    assert (await talk.run("assert _exit_code == 3", CellLimits())).ok


@pytest.mark.spec("KERN-5")
async def test_a_timeout_interrupts_the_cell_and_keeps_the_state(start: Start) -> None:
    kernel, talk = await start()
    await talk.run("x = 1", CellLimits())
    for endless in ("while True: x += 1", "import time; time.sleep(60)", "!sleep 60"):
        cell = await talk.run(endless, SHORT)
        assert (cell.end, cell.state_lost) == (End.TIMEOUT, None)
    assert kernel.alive
    assert (await talk.run("assert x >= 1", CellLimits())).ok


@pytest.mark.spec("KERN-5")
async def test_a_cell_that_ignores_its_interrupt_is_killed_with_the_kernel(start: Start) -> None:
    kernel, talk = await start()
    cell = await talk.run(STUBBORN, CellLimits(wall_s=0.3, grace_s=0.3))
    assert cell.end is End.TIMEOUT
    assert "the kernel ended" in str(cell.state_lost)
    assert not kernel.alive


@pytest.mark.spec("KERN-5")
async def test_an_interrupt_ends_the_cell_and_not_the_kernel(start: Start) -> None:
    kernel, talk = await start()
    running = asyncio.ensure_future(talk.run("x = 2\nimport time\ntime.sleep(60)", CellLimits(wall_s=60)))
    while not running.done():  # the cell may start after the first interrupt, which an idle kernel ignores
        kernel.interrupt()
        await asyncio.wait((running,), timeout=0.05)
    cell = running.result()
    assert cell.error is not None
    assert cell.error.type == "KeyboardInterrupt"
    assert kernel.alive


@pytest.mark.spec("KERN-5")
async def test_an_interrupt_that_suppresses_the_reply_costs_neither_time_nor_state(start: Start) -> None:
    """Interrupt ipykernel between the end of a cell and its reply, as a second interrupt may do."""
    kernel, talk = await start()
    cell = await talk.run(LOSES_ITS_REPLY, CellLimits())
    assert cell.end is End.ERROR  # not TIMEOUT
    assert cell.error is not None
    assert cell.error.type == "KeyboardInterrupt"
    assert kernel.alive
    assert (await talk.run("assert x == 3", CellLimits())).ok


@pytest.mark.spec("KERN-5")
async def test_a_cancelled_cell_is_interrupted_and_the_next_one_does_not_get_its_outputs(start: Start) -> None:
    _, talk = await start()
    running = asyncio.ensure_future(talk.run("import time\nprint('old')\ntime.sleep(60)", CellLimits(wall_s=60)))
    await asyncio.wait((running,), timeout=0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    cell = await talk.run("print('new')", CellLimits())
    assert (cell.end, cell.stdout) == (End.OK, "new\n")


@pytest.mark.spec("KERN-5")
@pytest.mark.parametrize("ignored", [1, 2])
async def test_a_cancelled_cell_whose_interrupts_are_lost_does_not_use_up_the_time_of_the_next_one(
    start: Start, ignored: int
) -> None:
    """Run a cell that catches the interrupt, which has the same effect as an interrupt in ipykernel's own code."""
    kernel, talk = await start()
    began = asyncio.Event()
    code = f"""import time
print('old')
for _ in range({ignored + 1}):
    try: time.sleep(60)
    except KeyboardInterrupt: pass
"""
    running = asyncio.ensure_future(talk.run(code, CellLimits(wall_s=60), lambda *_: began.set()))
    await asyncio.wait_for(began.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    cell = await talk.run("print('new')", CellLimits(grace_s=4.0))
    if ignored == 1:  # the next interrupt ended it
        assert (cell.end, cell.stdout, cell.state_lost) == (End.OK, "new\n", None)
    else:
        assert cell.end is End.KILLED
        assert cell.state_lost is not None
        assert not kernel.alive


@pytest.mark.spec("KERN-5")
@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import os; os.kill(os.getpid(), 9)", End.KILLED),
        ("import os; os._exit(0)", End.ERROR),
        ("import ctypes; ctypes.string_at(0)", End.ERROR),
    ],
)
async def test_a_kernel_that_dies_in_a_cell_ends_the_cell_at_once(start: Start, code: str, end: End) -> None:
    _, talk = await start()
    cell = await talk.run(code, CellLimits(wall_s=60))
    assert cell.end is end
    assert cell.state_lost


@pytest.mark.spec("KERN-6")
async def test_memory_over_the_limit_is_an_error_of_the_cell_or_the_end_of_the_kernel(start: Start) -> None:
    _, talk = await start(memory_bytes=256 << 20)
    cell = await talk.run("x = bytearray(400 << 20)", CellLimits())
    assert cell.error is not None
    assert cell.error.type == "MemoryError"
    children = (
        "import subprocess, sys\n"
        "code = 'import time; x = bytearray(150 << 20); time.sleep(60)'\n"
        "all_ = [subprocess.Popen([sys.executable or 'python3', '-c', code]) for _ in range(4)]\n"
        "[each.wait() for each in all_]"
    )
    cell = await talk.run(children, CellLimits(wall_s=60))
    assert cell.end is End.MEMORY
    assert cell.state_lost


@pytest.mark.spec("KERN-4", "BOX-12")
async def test_endless_printing_is_interrupted_and_little_of_it_is_kept(start: Start) -> None:
    kernel, talk = await start(memory_bytes=256 << 20)
    cell = await talk.run("while True: print('x' * 9999)", CellLimits(output_bytes=1 << 20, kept_bytes=1 << 16))
    assert cell.end is End.OUTPUT
    assert len(cell.stdout) <= 1 << 16
    assert cell.dropped_bytes > 1 << 19
    assert kernel.alive
    assert (await talk.run("1", CellLimits())).ok


@pytest.mark.spec("KERN-4")
async def test_the_kernel_does_not_keep_what_was_printed(start: Start) -> None:
    """Check that output is kept neither for a slow reader nor in IPython's record of outputs."""
    _, talk = await start(memory_bytes=512 << 20)
    cell = await talk.run("for _ in range(6000): print('x' * 49_999)", CellLimits(wall_s=60, output_bytes=1 << 30))
    assert cell.ok
    cell = await talk.run(
        "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)", CellLimits()
    )
    assert int(cell.stdout) < 200


@pytest.mark.spec("KERN-4")
async def test_one_very_large_print_arrives_completely(start: Start) -> None:
    _, talk = await start()
    cell = await talk.run("print('é' * 20_000_000, end='')", CellLimits(kept_bytes=64 << 20))
    assert (cell.end, len(cell.stdout), set(cell.stdout)) == (End.OK, 20_000_000, {"é"})


async def test_a_multiprocessing_child_prints_into_the_cell(start: Start) -> None:
    _, talk = await start()
    code = (
        "import multiprocessing as m\ndef f(): print('child', flush=True)\n"
        "p = m.get_context('fork').Process(target=f); p.start(); p.join()"
    )
    seen = (await talk.run(code, CellLimits())).stdout
    for _ in range(100):  # the output of a child may arrive after the end of the cell, and then belongs to a later one
        seen += (await talk.run("1", CellLimits())).stdout
    assert "child" in seen


async def test_without_ipykernel_the_error_says_what_to_install() -> None:
    context = zmq.asyncio.Context()
    async with NamespaceSandbox(NamespaceConfig(packages=())) as bare:
        kernel = await BoxedKernel.start(bare, KernelSpec())
        with pytest.raises(KernelDied, match=r"knackbox\[kernels\]"):
            await KernelClient.with_ready(kernel, context)
        kernel.forget()
    context.destroy(linger=0)


async def test_a_kernel_that_sends_malformed_messages_is_killed(start: Start) -> None:
    kernel, talk = await start()
    code = "get_ipython().kernel.iopub_thread.socket.send_multipart([b'<IDS|MSG>', b'forged', b'{', b'}', b'[', b'x'])"
    cell = await talk.run(code + "\nimport time; time.sleep(30)", CellLimits(wall_s=60))
    assert cell.state_lost
    assert not kernel.alive


@pytest.mark.parametrize(
    "code",
    [
        "from IPython.display import display\ndisplay({'text/plain': 'x' * (150 << 20)}, raw=True)",
        "class Long:\n    def __repr__(self): return 'x' * (150 << 20)\nLong()",
        "raise ValueError('x' * (150 << 20))",
    ],
    ids=["a display", "a value", "an error"],
)
async def test_an_output_too_long_for_a_message_is_replaced_by_a_note(start: Start, code: str) -> None:
    _, talk = await start(memory_bytes=4 << 30)
    cell = await talk.run(code, CellLimits())
    assert not cell.state_lost
    said = cell.error.message if cell.error else "".join(output.data.get("text/plain", "") for output in cell.outputs)
    assert "was omitted" in said, (cell.end, said[:500])
    assert (await talk.run("print('next')", CellLimits())).stdout == "next\n"
