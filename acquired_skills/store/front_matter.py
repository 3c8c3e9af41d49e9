"""Reads and writes the YAML front matter of a `SKILL.md`, which stands between two lines of `---`.

It is untrusted, so its size is limited, YAML aliases are refused (they can expand a page of text to a gigabyte of
values), and only strings are accepted as text.
"""

import datetime as dt
import io
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from acquired_skills.model.skill import SkillDamaged
from engine.formats.yaml_model import InvalidYaml, parse_yaml

MOST_CHARS = 1 << 18
_FRONT = re.compile(r"\A---\n(.*?\n)---(?:\n|\Z)", re.DOTALL)
_ODD = re.compile(r"--|[^\x20-\x7e\xa0-\uD7FF\uE000-\uFFFD]")  # some readers of the format fail on these


def _as_text(found: Any) -> Any:
    """Convert unquoted numbers, dates and booleans to strings, because the format has no other type."""
    return str(found) if isinstance(found, (int, float, dt.date)) else found


_Text = Annotated[str, BeforeValidator(_as_text)]


class FrontMatter(BaseModel):
    """The fields that the format defines. Unknown fields are assumed to belong to other tools."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    description: str = Field(min_length=1, max_length=1024)
    license: _Text | None = None
    compatibility: _Text | None = Field(default=None, max_length=500)
    metadata: dict[_Text, _Text] = Field(default_factory=dict, max_length=100)


def read_front(data: bytes, where: str) -> tuple[FrontMatter, str]:
    """Return the front matter of a file, and the text below it.

    Raises:
        SkillDamaged: The front matter is missing or invalid. The message says where, and what is wrong.
    """
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SkillDamaged(f"{where} is not UTF-8 text (byte {error.start}).") from None
    match = _FRONT.match(text)
    if match is None:
        raise SkillDamaged(f"{where} has no YAML front matter. Begin the file with it, between two lines of `---`.")
    if len(match[1]) > MOST_CHARS:
        raise SkillDamaged(
            f"{where}: the front matter has {len(match[1]):,} characters, but may have at most {MOST_CHARS:,}."
        )
    try:
        document = parse_yaml(match[1], FrontMatter, where, first_line=2, aliases=False)
    except InvalidYaml as error:
        raise SkillDamaged(f"{error.at}: the front matter is invalid: {error.problem}.") from None
    return document.content, text[match.end() :]


def dump_front(front: dict[str, Any]) -> str:
    """Write front matter as YAML that the reference reader of the format accepts, too.

    That reader takes any `---` as the end of the front matter, even inside a value. It rejects characters that the
    YAML specification calls unprintable.
    """
    text = io.StringIO()
    _yaml().dump(_quoted(front), text)
    return text.getvalue().replace("--", "\\x2d-")  # every "--" is in double quotes, see `_quoted`


def first_of(error: ValidationError, prefix: str = "") -> str:
    """Return the first error of a validation in one line."""
    one = error.errors(include_url=False)[0]
    return f"{prefix}{'.'.join(map(str, one['loc'])) or 'text'}: {one['msg']}."


class _Quoted(str):
    """A string that is written in double quotes, on one line, with escapes."""

    __slots__ = ()


def _quoted(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _quoted(value) for key, value in found.items()}
    return _Quoted(found) if isinstance(found, str) and _ODD.search(found) else found


def _yaml() -> YAML:
    """Return a new YAML writer, because writers have state and cannot be shared."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 1 << 20
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # annotated by its default
    yaml.representer.add_representer(
        _Quoted, lambda writer, text: writer.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
    )
    return yaml
