"""Evaluates a robots.txt in a box, because the file comes from a stranger and its patterns may be slow to match."""

from typing import Any

from protego import Protego


def verdict(text: str, url: str, agent: str) -> dict[str, Any]:
    """Return what a robots.txt says about a URL.

    Args:
        text: The content of robots.txt.
        url: The URL to be requested.
        agent: The name to look for in the file.

    Returns:
        ``{"allowed": bool, "delay": seconds between requests, or None}``.
    """
    rules = Protego.parse(text)
    delay = rules.crawl_delay(agent)
    return {"allowed": bool(rules.can_fetch(url, agent)), "delay": None if delay is None else float(delay)}
