"""`knackbox memory ingest` for people."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from builtin_tools.memory.commands.ingest import _until_interrupted
from tests.builtin_tools.memory.documents.samples import pdf
from tests.interfaces.cli import Ran, here

pytestmark = [pytest.mark.spec("MEM-10"), pytest.mark.slow]


def memory(capfd: pytest.CaptureFixture[str], home: Path, *arguments: str) -> Ran:
    return here(capfd, "--home", str(home), "memory", *arguments)


@pytest.mark.spec("MEM-3")
def test_a_folder_is_taken_in_except_what_cannot_be_read_and_only_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "papers"
    (folder / "deep").mkdir(parents=True)
    (folder / "boat.md").write_text("# Boats\n\nThe ferry to Trondheim leaves at noon.\n")
    (folder / "deep" / "train.pdf").write_bytes(pdf("The night train to Bergen has a dining car."))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    (folder / "photo.raw").write_bytes(b"no document at all")

    first = memory(capfd, home, "ingest", str(folder), "--json")
    of = {Path(row["path"]).name: row for row in first.last}
    assert first.code == 0
    assert set(of) == {"boat.md", "broken.pdf", "train.pdf"}
    assert [(of[name]["status"], of[name]["problem"]) for name in ("boat.md", "train.pdf")] == [("new", "")] * 2
    assert str(folder / "broken.pdf") in of["broken.pdf"]["problem"]
    assert of["broken.pdf"]["passages"] == 0

    found = memory(capfd, home, "search", "Which train goes to Bergen?", "--json").last
    assert "dining car" in found["hits"][0]["text"]

    again = memory(capfd, home, "ingest", str(folder))
    assert f"{folder / 'boat.md'}: unchanged, 1 passage." in again.out
    (folder / "boat.md").write_text("# Boats\n\nThe ferry to Trondheim leaves at dusk.\n")
    assert memory(capfd, home, "ingest", str(folder / "boat.md"), "--json").last[0]["status"] == "replaced"


@pytest.mark.spec("MEM-3")
def test_a_command_that_took_nothing_in_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"%PDF-1.7 and nothing else")
    done = memory(capfd, tmp_path / "home", "ingest", str(bad))
    assert (done.code, done.out.startswith(f"not taken in: {bad}: ")) == (1, True)
    assert memory(capfd, tmp_path / "home", "ingest", str(tmp_path / "missing.pdf")).code == 2


async def test_ctrl_c_ends_watching_and_a_second_one_is_handled_as_before() -> None:
    usual = signal.default_int_handler  # set here, because it is ignored if the tests run as a background job
    earlier = signal.signal(signal.SIGINT, usual)
    try:
        with _until_interrupted() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            async with asyncio.timeout(10):
                await stop.wait()
            assert signal.getsignal(signal.SIGINT) is usual
        assert signal.getsignal(signal.SIGINT) is usual
    finally:
        signal.signal(signal.SIGINT, earlier)
