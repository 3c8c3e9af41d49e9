"""`PageSettings`: how long pages are kept."""

from pydantic import BaseModel, ConfigDict, Field


class PageSettings(BaseModel):
    """The table `[packs.web.pages]` of the configuration.

    Attributes:
        fresh_s: For how many seconds a page that was read is used again without a request.
        keep_bytes: The size of all pages that are kept. The ones that were not used for the longest time are removed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fresh_s: float = Field(default=24 * 3600.0, ge=0)
    keep_bytes: int = Field(default=512 << 20, ge=1 << 20)
