"""Merges search results that lead to the same page."""

import posixpath
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from builtin_tools.web.contract import SearchHit

# Parameters that only say how a reader came to a page.
_TRACKING = frozenset({"fbclid", "gclid", "dclid", "msclkid", "yclid", "mc_cid", "mc_eid", "igshid", "ref_src"})
_PORTS = {"http": 80, "https": 443}
_SUBDOMAINS = ("www.", "m.", "mobile.", "amp.")
_INDEX = frozenset({"index.html", "index.htm", "index.php", "default.aspx"})


def merge_same_pages(hits: list[SearchHit] | tuple[SearchHit, ...]) -> tuple[SearchHit, ...]:
    """Return hits without those that lead to the page of an earlier one. The longest snippet and a date are kept."""
    merged: dict[str, SearchHit] = {}
    for hit in hits:
        key = page_key(hit.url)
        first = merged.get(key)
        if first is None:
            merged[key] = hit
        else:
            snippet = max(first.snippet, hit.snippet, key=len)
            merged[key] = SearchHit(first.title, first.url, snippet, first.date or hit.date)
    return tuple(merged.values())


def page_key(url: str) -> str:
    """Return a string that is equal for URLs of the same page, for comparison only.

    The scheme, subdomains such as ``www.``, the order of the query, parameters for tracking and the fragment are left
    out, as is the name of an index page.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").rstrip(".")
    for prefix in _SUBDOMAINS:
        if host.startswith(prefix) and host.count(".") > 1:
            host = host.removeprefix(prefix)
            break
    shown_port = "" if port in {None, _PORTS.get(parts.scheme)} else f":{port}"
    path = posixpath.normpath(unquote(parts.path) or "/")
    if posixpath.basename(path).lower() in _INDEX:
        path = posixpath.dirname(path)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(sorted((name, value) for name, value in pairs if not _is_tracking(name)))
    return f"{host}{shown_port}{path.rstrip('/')}?{query}"


def _is_tracking(name: str) -> bool:
    return name.lower().startswith("utm_") or name.lower() in _TRACKING
