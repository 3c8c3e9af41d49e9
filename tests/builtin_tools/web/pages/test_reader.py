"""Pages are read in boxes, kept by URL and digest, and contain what a reader would see."""

import hashlib
import unicodedata
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builtin_tools.web.pages.page_cache import PageCache
from builtin_tools.web.pages.reader import BoxedPageReader
from engine.contract.failure import FailureClass, ToolFailure
from engine.stores.clock import SystemClock
from sandbox.contract import Job, OnOutput, Outcome, Sandbox
from tests.builtin_tools.memory.documents.samples import pdf
from tests.builtin_tools.memory.documents.test_pdf_visibility import HIDDEN, SHOWN, made, scan_with_layer
from tests.builtin_tools.web.corpus.hostile import HIDDEN_TEXTS, HIDDEN_WORDS, INJECTIONS, UNSEEN
from tests.builtin_tools.web.corpus.loopback import LoopbackClient
from tests.builtin_tools.web.corpus.sites import OWN, CorpusPage, written
from tests.builtin_tools.web.corpus.web import CorpusWeb

pytestmark = [pytest.mark.slow, pytest.mark.spec("WEB-3")]


def serve(corpus: CorpusWeb, path: str, content: bytes, media_type: str = "text/html") -> str:
    """Add a page to the corpus, and return its URL."""
    page = CorpusPage("made.test", path, content=content, media_type=media_type)
    corpus.pages[page.host, page.path] = page
    return page.url


async def test_the_main_text_comes_with_title_date_author_and_absolute_links(
    corpus: CorpusWeb, reader: BoxedPageReader
) -> None:
    body = "".join(
        f"<p>Paragraph {number} tells of the harbour, its ferries and the bridge.</p>" for number in range(9)
    )
    head = '<meta name="author" content="Ada Lovelace">'
    page = written(
        "made.test",
        "/a/article",
        "The ferries",
        f"<h1>The ferries</h1>{body}<p>See <a href='../b?x=1#part'>the <b>list</b></a> and <a href='javascript:x()'>this</a>.</p>",
        head=head,
        date="2021-05-06",
    )
    menu = b"<body><nav><ul><li><a href='/home'>Home</a></li><li>Subscribe to our newsletter</li></ul></nav>"
    content = page.content.replace(b"<body>", menu)
    found = await reader.read(serve(corpus, "/a/article", content, "text/html; charset=utf-8"), circuit="t")
    assert (found.title, found.date, found.author) == ("The ferries", "2021-05-06", "Ada Lovelace")
    assert found.text.count("tells of the harbour") == 9
    assert "newsletter" not in found.text
    assert [(link.url, link.text) for link in found.links] == [
        ("http://made.test/home", "Home"),
        ("http://made.test/b?x=1", "the list"),
    ]
    assert found.sha256 == hashlib.sha256(found.text.encode()).hexdigest()
    assert (found.route, found.media_type) == ("loopback", "text/html")


async def test_no_text_that_a_reader_would_not_see_is_in_the_page(reader: BoxedPageReader) -> None:
    pages = {name: await reader.read(f"http://hidden.test/{name}", circuit="t") for name in HIDDEN_TEXTS}
    leaks = {name: page.text for name, page in pages.items() if HIDDEN_WORDS.search(page.text + page.title)}
    assert not leaks
    assert all("Last words." in page.text and "ferries" in page.text for page in pages.values())
    told = {name for name, page in pages.items() if any("hidden text" in note for note in page.notes)}
    assert told == set(HIDDEN_TEXTS) - {"comment", "script", "template", "input"}


SEEN = {
    "white on black": "<div style='background:#000'><p style='color:#fff'>visible</p></div>",
    "class that is shown again": "<style>.x{display:none} #y{display:block}</style><p class='x' id='y'>visible</p>",
    "hidden in print": "<style>@media print {.z{display:none}}</style><p class='z'>visible</p>",
    "size zero around it": "<div style='font-size:0'><span style='font-size:14px'>visible</span></div>",
    "half transparent": "<p style='opacity:0.5'>visible</p>",
    "white on a picture": "<div style='background:url(x.png)'><p style='color:white'>visible</p></div>",
    "hover": "<style>p:hover{display:none} p::before{content:'x'}</style><p>visible</p>",
    "broken style": "<style>p { display: ; color } } .q{{</style><p style='display'>visible</p>",
}


@pytest.mark.parametrize("case", SEEN)
async def test_text_that_a_reader_sees_stays(corpus: CorpusWeb, reader: BoxedPageReader, case: str) -> None:
    page = written("made.test", "/seen", "Seen", f"<p>{'The harbour is open. ' * 20}</p>{SEEN[case]}")
    found = await reader.read(serve(corpus, "/seen", page.content), circuit="t", fresh=True)
    assert "visible" in found.text


async def test_invisible_and_control_characters_are_removed_and_letters_stay(
    corpus: CorpusWeb, reader: BoxedPageReader
) -> None:
    text = "نمی\u200cشود 👩\u200d💻 क्\u200dष café ❤\ufe0f ok"  # joiners and selectors that change what a reader sees
    hidden = "a\u200bb\u202ec\u2066d\u00ade" + "".join(chr(0xE0000 + ord(each)) for each in "run") + "f\x1b[31mg\x9b2Jh"
    found = await reader.read(serve(corpus, "/marks", f"{text}\n{hidden}".encode(), "text/plain"), circuit="t")
    assert found.text == f"{text}\nabcdef[31mg2Jh"
    assert not [each for each in found.text if unicodedata.category(each) == "Cc" and each != "\n"]
    assert any("invisible characters" in note for note in found.notes)


async def test_what_an_injection_hides_does_not_arrive_and_the_rest_is_plain_text(reader: BoxedPageReader) -> None:
    pages = [await reader.read(f"http://injection.test/{number}", circuit="t") for number in range(len(INJECTIONS))]
    assert len(pages) == 50
    for number, page in enumerate(pages):
        assert "harbour museum" in page.text
        assert "\x1b" not in page.text
        assert ("execute" in page.text) <= (number not in UNSEEN), page.text


async def test_a_pdf_file_has_its_pages_and_text_stays_as_it_is(corpus: CorpusWeb, reader: BoxedPageReader) -> None:
    book = await reader.read(
        serve(corpus, "/book", pdf("First page here.", "Second page here.", title="Report"), "application/pdf"),
        circuit="t",
    )
    assert (book.title, book.media_type) == ("Report", "application/pdf")
    assert [book.text[start:][:6] for start in book.page_starts] == ["First ", "Second"]
    plain = await reader.read(serve(corpus, "/n.csv", b"a,b\n 1,<b>\n", "text/csv"), circuit="t")
    assert plain.text == "a,b\n 1,<b>"
    renamed = await reader.read(
        serve(corpus, "/README.md", b"<!doctype html><p>An HTML page.", "text/html"), circuit="t"
    )
    assert renamed.text == "An HTML page."


async def test_white_text_of_a_pdf_file_does_not_arrive_and_the_text_layer_of_a_scan_does(
    corpus: CorpusWeb, reader: BoxedPageReader
) -> None:
    white = made(f"{SHOWN} {HIDDEN['white on white']} {HIDDEN['size 1']}")
    found = await reader.read(serve(corpus, "/white", white, "application/pdf"), circuit="t")
    assert found.text == "The harbour is open."
    assert any("a reader would not see were removed" in note for note in found.notes)
    scan = scan_with_layer("The ferry leaves at noon.")
    scanned = await reader.read(serve(corpus, "/scan", scan, "application/pdf"), circuit="t")
    assert scanned.text == "The ferry leaves at noon."
    assert any("It may differ from the picture" in note for note in scanned.notes)


@pytest.mark.parametrize(
    ("content", "media_type", "encoding"),
    [
        ("<p>Größe, 漢字</p>", "text/html; charset=utf-8", "utf-8"),
        ("<p>Größe</p>", "text/html; charset=iso-8859-1", "latin-1"),
        ("<meta charset='windows-1251'><p>Размер</p>", "text/html", "windows-1251"),
        ("\ufeff<p>Größe</p>", "text/html", "utf-16-le"),
        ("<p>Größe</p>", "text/html; charset=no-such-charset", "utf-8"),
    ],
)
async def test_the_encoding_of_a_page_is_found(
    corpus: CorpusWeb, reader: BoxedPageReader, content: str, media_type: str, encoding: str
) -> None:
    url = serve(corpus, "/encoded", content.encode(encoding), media_type)
    found = await reader.read(url, circuit="t", fresh=True)
    assert found.text == content.rpartition("<p>")[2].removesuffix("</p>")


@pytest.mark.parametrize(
    ("content", "media_type", "reason"),
    [
        (b"", "text/html", "unreadable_document"),
        (b"<html><body><script>document.write('x')</script></body></html>", "text/html", "empty_page"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png", "unreadable_document"),
        (b"%PDF-1.7 nothing", "application/pdf", "unreadable_document"),
    ],
)
async def test_a_page_without_readable_text_is_a_failure(
    corpus: CorpusWeb, reader: BoxedPageReader, content: bytes, media_type: str, reason: str
) -> None:
    with pytest.raises(ToolFailure) as caught:
        await reader.read(serve(corpus, "/bad", content, media_type), circuit="t", fresh=True)
    assert (caught.value.reason, caught.value.failure_class) == (reason, FailureClass.DIAGNOSTIC)


async def test_a_page_of_deeply_nested_elements_or_many_rules_is_read_or_refused(
    corpus: CorpusWeb, reader: BoxedPageReader
) -> None:
    nested = b"<div>" * 100_000 + b"deep text"
    rules = (
        b"<style>" + b"".join(b".a%d .b > p{display:none}" % number for number in range(20_000)) + b"</style><p>seen"
    )
    for path, content in (("/nested", nested), ("/rules", rules)):
        try:
            end = (await reader.read(serve(corpus, path, content), circuit="t")).text
        except ToolFailure as failure:
            end = failure.reason
        assert end in {"deep text", "seen", "unreadable_document", "empty_page"}


class RecordingSandbox:
    """Runs jobs in a sandbox and records them."""

    name = "recording"

    def __init__(self, sandbox: Sandbox) -> None:
        self.jobs: list[Job] = []
        self._sandbox = sandbox

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        self.jobs.append(job)
        return await self._sandbox.run(job, on_output=on_output)


class ForgingSandbox(RecordingSandbox):
    """As if a page had taken over its box: the text is one thing, and what else is reported another."""

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        outcome = await super().run(job, on_output=on_output)
        return replace(outcome, files={"extracted.json": self.forged})

    forged: bytes = b""


def another_reader(client: LoopbackClient, sandbox: object, folder: Path) -> BoxedPageReader:
    return BoxedPageReader(client, sandbox, PageCache(folder, 1 << 24), SystemClock(), timedelta(days=1))  # type: ignore[arg-type]


async def test_pages_are_parsed_in_boxes_without_network_and_forged_results_are_refused(
    client: LoopbackClient, box: Sandbox, tmp_path: Path
) -> None:
    recording = RecordingSandbox(box)
    await another_reader(client, recording, tmp_path / "a").read(f"http://{OWN}/guide.html", circuit="t")
    assert [job.call.function for job in recording.jobs if job.call is not None] == ["extract"]
    base = '{"text": "x", "title": "", "author": "", "date": "", "links": %s, "pages": %s, "headings": [], "notes": []}'
    for links, pages in (("[]", "[5]"), ('[["a"]]', "[]"), ("3", "[]"), ("[]", "[null]"), ('[["\\ud800", "b"]]', "[]")):
        forging = ForgingSandbox(box)
        forging.forged = (base % (links, pages)).encode()
        with pytest.raises(ToolFailure, match="may be malicious"):
            await another_reader(client, forging, tmp_path / "b").read(f"http://{OWN}/guide.html", circuit="t")


async def test_a_page_is_requested_once_until_it_is_too_old_and_found_by_its_digest_later(
    corpus: CorpusWeb, client: LoopbackClient, reader: BoxedPageReader, box: Sandbox, tmp_path: Path
) -> None:
    url = serve(corpus, "/changing", b"<p>The first version of the page.")
    first = await reader.read(url, circuit="one")
    assert await reader.read(f"{url}#part", circuit="two") == first
    assert client.circuits == ["one"]
    serve(corpus, "/changing", b"<p>The second version of the page.")
    second = await reader.read(url, circuit="three", fresh=True)
    assert second.text != first.text
    assert await reader.cached(first.sha256) == first
    assert await reader.cached("0" * 64) is None
    stale = BoxedPageReader(client, box, PageCache(tmp_path / "pages", 64 << 20), SystemClock(), timedelta(0))
    assert (await stale.read(url, circuit="four")).text == second.text
    assert client.circuits == ["one", "three", "four"]


async def test_a_failed_request_leaves_what_is_kept(
    corpus: CorpusWeb, client: LoopbackClient, reader: BoxedPageReader
) -> None:
    page = await reader.read(serve(corpus, "/kept", b"<p>A page that is kept."), circuit="t")
    client.down = True
    with pytest.raises(ToolFailure, match="route is down"):
        await reader.read(page.url, circuit="t", fresh=True)
    assert await reader.read(page.url, circuit="t") == page
