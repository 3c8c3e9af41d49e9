"""`Section`: what every table of the configuration is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration: frozen, and closed to fields nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
