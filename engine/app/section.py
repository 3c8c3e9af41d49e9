"""`Section`: the base class of every table of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration. It is immutable and rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
