"""Reads a page of results of DuckDuckGo in a box, with the engine class of ddgs.

ddgs itself returns an empty list for a page that it does not understand. Here such a page is told from one on which
DuckDuckGo says that there are no results, and from one with which it refuses the request.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urljoin, urlsplit

from ddgs.engines.duckduckgo import Duckduckgo
from lxml import etree

RESULTS, NONE, BLOCKED, CHANGED, EMPTY = "results", "none", "blocked", "changed", "empty"
MOST_RESULTS = 100
_BASE = "https://html.duckduckgo.com/html/"
_BLOCKED = (
    "//form[@id='challenge-form' or contains(@action, 'anomaly.js')]"
    "|//*[contains(@class, 'anomaly-modal') or contains(@class, 'g-recaptcha') or contains(@class, 'h-captcha')]"
)
_NO_RESULTS = "//*[contains(@class, 'no-results') or contains(@class, 'result--no-result')]"
_NEXT = (
    "//*[contains(@class, 'nav-link')]//form[.//input[@name='s' and number(@value) > 0] and .//input[@value='Next']]"
)
_ADVERTISEMENT = ("/y.js", "/aclick")


class _Results(Duckduckgo):
    """The engine class of ddgs, which also takes the date of a result."""

    elements_xpath: ClassVar[Mapping[str, str]] = {
        **Duckduckgo.elements_xpath,
        "date": "(.//*[contains(@class, 'result__extras')]//span[contains(text(), '-')])[1]/text()",
    }


def read_results(path: str) -> dict[str, Any]:
    """Read a page of results.

    Returns:
        ``{"kind": kind, "hits": [{"title", "url", "snippet", "date"}], "more": bool}``, where `kind` is one of
        `RESULTS`, `NONE` (no results, as the page says), `BLOCKED`, `CHANGED` (not a page of results) and `EMPTY`.
    """
    text = Path(path).read_bytes().decode("utf-8", errors="replace")
    if not text.strip():
        return _answer(EMPTY)
    engine = _Results(verify=False)  # it sends nothing here: a box has no network
    try:
        tree = engine.extract_tree(text)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return _answer(CHANGED)
    if tree.xpath(_BLOCKED):
        return _answer(BLOCKED)
    items = [] if tree.xpath(_NO_RESULTS) else engine.extract_results(text)
    if not items:
        return _answer(NONE if tree.xpath(_NO_RESULTS) else CHANGED)
    read = [_hit(item) for item in items]
    complete = [hit for hit in read if hit["url"] and hit["title"]]
    if 2 * len(complete) < len(read):  # the markup of most results is not understood
        return _answer(CHANGED)
    hits = [hit for hit in complete if not _is_advertisement(hit["url"])]
    return {"kind": RESULTS, "hits": hits[:MOST_RESULTS], "more": bool(tree.xpath(_NEXT))}


def _answer(kind: str) -> dict[str, Any]:
    return {"kind": kind, "hits": [], "more": False}


def _hit(item: Any) -> dict[str, str]:
    date = str(getattr(item, "date", "")).strip()[:10]
    return {"title": item.title[:500], "url": _target(item.href), "snippet": item.body[:2000], "date": date}


def _target(href: str) -> str:
    """Return the URL of a result. DuckDuckGo may send the reader through a page that redirects to it."""
    url = urljoin(_BASE, href) if href else ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if (parts.hostname or "").endswith("duckduckgo.com") and parts.path == "/l/":
        url = parse_qs(parts.query).get("uddg", [""])[0]
    return url if url.startswith(("http://", "https://")) else ""


def _is_advertisement(url: str) -> bool:
    parts = urlsplit(url)
    return (parts.hostname or "").endswith(("duckduckgo.com", "bing.com")) and parts.path in _ADVERTISEMENT
