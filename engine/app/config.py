"""`load_settings` merges `<home>/config.toml`, then the `KNACKBOX_*` variables, then explicit overrides.

An environment variable names a field by its path: `KNACKBOX_MODEL_BASE_URL` is `base_url` of `[model]`. Items of a list
are separated by commas (`KNACKBOX_EGRESS_ALLOW=a.example:443,b.example:443`); an empty variable is an empty list. An
error about an unknown field or an invalid value is one line. The line names the field and where it was set (the file,
the environment or the command line), and says what to do.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from engine.app.home import NOT_SETTINGS, PREFIX, Home
from engine.app.section import Section
from engine.app.settings import Settings
from engine.contract.failure import ConfigError

SECRET = re.compile(r"api_key|tokens|redis_url|\.env|\.headers|^secrets")  # fields whose values are never printed
# Tables of tables. No environment variable can name a field in them.
FREE_TABLES = frozenset({"packs", "mcp_servers", "image_gen_clients", "secrets"})


def load_settings(home: Home, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Merge the settings of the configuration file, the environment and the overrides.

    Args:
        home: The folder with `config.toml`.
        environ: The environment variables.
        overrides: Values by dotted path (``{"model.name": "x"}``). None values are ignored.

    Raises:
        ConfigError: A setting is unknown, or its value is invalid.
    """
    layers = [
        (str(home.config), list(flatten(read_toml(home.config)))),
        ("environment", list(from_environment(environ))),
        ("command line", [(tuple(k.split(".")), v) for k, v in (overrides or {}).items() if v is not None]),
    ]
    merged: dict[str, Any] = {}
    origin: dict[tuple[str, ...], str] = {}
    for place, values in layers:
        for path, value in values:
            put(merged, path, value, place)
            origin[path] = place
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(explain(error, origin, str(home.config))) from error


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Return an empty dict if the file does not exist.

    Raises:
        ConfigError: The file cannot be read, or is not valid TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}. Fix the file, or move it out of the way.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from error


def flatten(table: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the leaves of nested tables as (path, value). A table inside `[packs.NAME]` is yielded as one value."""
    for key, value in table.items():
        path = (*prefix, key)
        if isinstance(value, Mapping) and (len(path) == 1 or path[0] == "packs") and len(path) <= 2:  # noqa: PLR2004 -- the path packs.<name> has two parts
            yield from flatten(value, path)
        else:
            yield path, value


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str | list[str]]]:
    """Yield the `KNACKBOX_*` variables as (path, value).

    Raises:
        ConfigError: A variable does not name a setting.
    """
    known = {PREFIX + "_".join(path).upper(): path for path in field_paths()}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable not in known:
            raise ConfigError(f"environment: {variable} is not a setting. {nearest(variable, known)}")
        path = known[variable]
        yield path, [part for part in value.split(",") if part.strip()] if is_list(path) else value


def is_list(path: tuple[str, ...]) -> bool:
    """Return whether the value of the field is a list."""
    section: type[BaseModel] = Settings
    for name in path[:-1]:
        inner = section.model_fields[name].annotation
        section = inner if isinstance(inner, type) and issubclass(inner, Section) else section
    return get_origin(section.model_fields[path[-1]].annotation) is tuple


def field_paths() -> list[tuple[str, ...]]:
    """Return the paths, such as ``("model", "name")``, of all fields that environment variables can name."""
    paths: list[tuple[str, ...]] = []
    for name, info in Settings.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            paths += [(name, inner) for inner in kind.model_fields]
        elif name not in FREE_TABLES:
            paths.append((name,))
    return paths


def put(target: dict[str, Any], path: tuple[str, ...], value: object, place: str) -> None:
    for key in path[:-1]:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{place}: {'.'.join(path)} cannot be set, because {key} is not a table. Remove {key}.")
        target = inner
    target[path[-1]] = value


def explain(error: ValidationError, origin: Mapping[tuple[str, ...], str], default: str) -> str:
    """Describe the first error in one line: the field, where it was set, the given value and what is expected."""
    first = error.errors(include_url=False)[0]
    path = tuple(str(part) for part in first["loc"])
    # The recorded path may be shorter than the error's path (for a list item), or longer (for a whole table).
    places = [place for known, place in origin.items() if known[: len(path)] == path[: len(known)]]
    place = places[0] if places else default
    field = ".".join(path)
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        siblings = [".".join(known) for known in field_paths()] + sorted(FREE_TABLES)
        return f"{place}: {field} is not a setting. {nearest(field, siblings)}{more}"
    if first["type"] == "value_error":
        return f"{place}: {field}: {first['ctx']['error']}. Correct or remove it.{more}"
    given = "" if SECRET.search(field) else f", not {str(first['input'])[:80]!r}"
    return f"{place}: {field}: {first['msg']}{given}. Correct or remove it.{more}"


def nearest(given: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the known name most similar to an unknown one, or lists the known names."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else f"Remove it. Known: {', '.join(names)}."
