"""Kept pages are found by URL and digest, are bounded in size, and survive kills and damage."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import Page, PageLink
from builtin_tools.web.pages.page_cache import PageCache, digest_of
from builtin_tools.web.pages.page_part import MOST_BYTES, part_of

pytestmark = pytest.mark.spec("WEB-3")
REPOSITORY = Path(__file__).resolve().parents[4]


def page(url: str, text: str) -> Page:
    return Page(
        url=url,
        final_url=f"{url}/",
        text=text,
        sha256=digest_of(text),
        fetched_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        route="Tor",
        title="A title",
        links=(PageLink("http://a.test/", "a"),),
        page_starts=(0, 3),
        notes=("A note.",),
    )


def test_one_text_at_two_urls_is_two_pages_with_one_digest(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 1 << 20)
    one, two = page("http://a.test/1", "Wörter"), page("http://b.test/2", "Wörter")
    cache.put(one)
    cache.put(two)
    assert (cache.at("http://a.test/1#x"), cache.at("http://b.test/2")) == (one, two)
    assert cache.with_digest(one.sha256) == two
    assert PageCache(tmp_path / "pages", 1 << 20).at("http://a.test/1") == one
    assert cache.at("http://a.test/3") is None


def test_a_damaged_or_changed_file_is_not_a_page(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 1 << 20)
    kept = page("http://a.test/1", "The text.")
    file = tmp_path / "pages" / "by_digest" / f"{kept.sha256}.json"
    for damage in (b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000):
        cache.put(kept)
        file.write_bytes(damage)
        assert (cache.at(kept.url), cache.with_digest(kept.sha256)) == (None, None)
    cache.put(kept)
    changed = json.loads(file.read_bytes()) | {"text": "Another text."}
    file.write_text(json.dumps(changed))
    assert (cache.at(kept.url), cache.with_digest(kept.sha256)) == (None, None)
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        cache.with_digest("../../config")


def test_the_folder_stays_within_its_limit_and_what_was_used_last_stays(tmp_path: Path) -> None:
    limit = 200_000
    kept = CachedFiles(tmp_path / "kept", limit)
    names = [digest_of(str(number)) for number in range(100)]
    for number, name in enumerate(names):
        kept.put(name, {"text": "x" * 9_000})
        os.utime(tmp_path / "kept" / f"{name}.json", (number, number))
        assert kept.get(names[0]) is not None  # reading it counts as use
        assert sum(file.stat().st_size for file in (tmp_path / "kept").iterdir()) <= limit + 10_000
    assert kept.get(names[-1]) is not None
    assert kept.get(names[1]) is None
    kept.put(names[1], {"text": "x" * (limit + 1)})  # larger than everything that may be kept
    assert kept.get(names[1]) is None


WRITER = """
import sys
from pathlib import Path
from builtin_tools.web.pages.page_cache import PageCache
from tests.builtin_tools.web.pages.test_page_cache import page
cache = PageCache(Path(sys.argv[1]), 1 << 24)
print("ready", flush=True)
number = 0
while True:
    number += 1
    cache.put(page(f"http://a.test/{number % 7}", f"Version {number} " * 2_000))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_after_a_kill_every_url_leads_to_a_complete_page(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    for kill in range(6):
        command = [sys.executable, "-c", WRITER, str(folder)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(3 + kill * 5):
                assert writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        cache = PageCache(folder, 1 << 24)
        found = [cache.at(f"http://a.test/{number}") for number in range(7)]
        entries = len(list((folder / "by_url").glob("*.json")))
        assert len([each for each in found if each is not None]) == entries >= 1
    cache.put(page("http://a.test/last", "The last page."))
    assert [file.name for file in folder.rglob(".tmp-*")] == []


def test_the_parts_of_a_text_are_bounded_and_together_the_whole_text() -> None:
    for text in ("word " * 20_000, "漢字" * 20_000, "A paragraph.\n\n" * 5_000, "x", "é\n" * 12_345):
        at, joined = 0, ""
        while at < len(text):
            part = part_of(text, at)
            assert 0 < len(part.encode()) <= MOST_BYTES
            joined += part
            at += len(part)
        assert joined == text
    assert part_of("A paragraph.\n\n" * 5_000, 0).endswith("\n\n")
    assert part_of("x", 5) == ""
