"""`SearchSettings`: which search engine is used, and how long results are kept."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _address(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError('give the address of a SearXNG instance, such as "https://searx.example.org"')
    return value


class SearchSettings(BaseModel):
    """The table `[packs.web.search]` of the configuration.

    Attributes:
        searxng: The address of a SearXNG instance that returns JSON; "" for DuckDuckGo.
        ca_file: A file with the certificates that are trusted for DuckDuckGo (PEM), for networks with their own
            authority; "" for the usual ones.
        fresh_s: For how many seconds results are used again without a request.
        keep_bytes: The size of all results that are kept for times when the search fails.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    searxng: Annotated[str, AfterValidator(_address)] = ""
    ca_file: str = ""
    fresh_s: float = Field(default=900.0, ge=0)
    keep_bytes: int = Field(default=32 << 20, ge=1 << 20)
