"""Downloads one http(s) URL into memory, from public addresses only.

A model chooses the URL, so it may point at this machine, at a cloud's metadata service or into a private network.
Therefore every hop is resolved and checked (`builtin_tools.http_hop`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from builtin_tools.download_rules import DownloadRules
from builtin_tools.http_hop import (
    MAX_REDIRECTS,
    check_status,
    connect,
    parse,
    permanent,
    read_body,
    redirect_target,
)
from engine.contract.context import Clock


@dataclass(frozen=True, slots=True)
class Download:
    """A downloaded body, its media type, and the URL after all redirects."""

    data: bytes
    media_type: str
    url: str


async def fetch(
    url: str, rules: DownloadRules, clock: Clock, progress: Callable[[float | None], None] = lambda _: None
) -> Download:
    """Download a URL. Up to `MAX_REDIRECTS` redirects are followed, each checked like the first URL.

    Args:
        url: The address to download.
        rules: Which addresses are allowed, and the size limit.
        clock: The current time, needed for dates in `Retry-After`.
        progress: Called with the completed share (from 0 to 1), or with None if the size is unknown.

    Raises:
        ToolFailure: RETRYABLE for temporary problems (a dropped connection, 429, most 5xx), otherwise DIAGNOSTIC. The
            workspace is unchanged, so the download may be repeated after any failure.
    """
    context = await asyncio.to_thread(httpx.create_ssl_context)  # blocks while it reads a few hundred certificates
    for _ in range(MAX_REDIRECTS + 1):
        target = parse(url)
        async with connect(target, rules, context) as answer:
            if not answer.has_redirect_location:
                check_status(answer, url, clock)
                data = await read_body(answer, rules, progress)
                media_type = answer.headers.get("content-type", "").split(";")[0].strip()
                return Download(data, media_type, url)
            url = redirect_target(target, answer.headers["location"])
    raise permanent(f"{url}: more than {MAX_REDIRECTS} redirects. Find another address for the file.")
