"""Reads the table `[packs.<name>]` of the configuration, whose fields the pack defines."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.contract.failure import ConfigError

M = TypeVar("M", bound=BaseModel)


def pack_settings(name: str, table: Any, model: type[M]) -> M:
    """Return the settings of a pack.

    Args:
        name: The name of the pack's entry point, for messages.
        table: The table from the configuration. Fields that it does not contain have their defaults.
        model: Describes the settings. It should reject unknown fields.

    Raises:
        ConfigError: A setting is unknown or invalid. The message names it, and lists the settings that exist.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"[packs.{name}] {field}: {first['msg']}, not {str(first['input'])[:80]!r}. Correct or remove it. Known "
            f"settings: {', '.join(model.model_fields)}."
        ) from error
