"""Reads the status and the Retry-After header from an HTTP client's exception, without importing the client."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

# The longest wait in seconds that a server can request. A longer one is reduced to this.
LONGEST_WAIT_S = 24 * 3600.0


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an exception, whichever attribute its library uses (httpx, openai, urllib …)."""
    for holder in (getattr(error, "response", None), error):
        for attribute in ("status_code", "status", "code"):
            status = getattr(holder, attribute, None)
            if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:  # noqa: PLR2004
                return status
    return None


def retry_after_of(error: BaseException, now: datetime) -> float | None:
    """Return the wait in seconds that the server requested in its headers, or None if it requested none."""
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        if headers is not None and hasattr(headers, "get"):
            return parse_retry_after(_header(headers, "retry-after"), _header(headers, "retry-after-ms"), now)
    return None


def parse_retry_after(value: str | None, milliseconds: str | None, now: datetime) -> float | None:
    """Return the seconds given by `Retry-After`: a number or an HTTP date (RFC 9110, section 10.2.3).

    Some model providers also send `retry-after-ms`, which takes precedence. A date in the past gives 0. The result is
    None if neither value is valid.
    """
    for text, scale in ((milliseconds, 0.001), (value, 1.0)):
        if text is None:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            seconds = _until(text, now)
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), LONGEST_WAIT_S)
    return None


def _until(text: str, now: datetime) -> float:
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return math.nan
    if when.tzinfo is None:  # the date has the time zone "-0000", which means UTC without a known local time
        when = when.replace(tzinfo=UTC)
    return (when - now).total_seconds()


def _header(headers: Mapping[str, Any], name: str) -> str | None:
    """Look up a header case-insensitively, even in a plain dict."""
    value = headers.get(name)
    if value is None:
        value = next((headers[key] for key in headers if isinstance(key, str) and key.lower() == name), None)
    return None if value is None else str(value).strip()
