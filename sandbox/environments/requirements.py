"""Normalizes the requirements of a job, and derives the key of the environment that satisfies them.

Only names, extras, versions and markers are allowed. With an address, a path or an installer option, a job could choose
where code comes from; only the machine's configuration may choose that.
"""

import hashlib
import importlib.metadata
import json
import platform
import sys
import sysconfig
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from sandbox.contract import UnresolvedRequirements

MAX_REQUIREMENTS = 64
MAX_CHARS = 500  # the most characters of one requirement
_KEY_CHARS = 32


def normalize(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements in canonical spelling (PEP 508, names as in PEP 503), sorted and without duplicates.

    Raises:
        UnresolvedRequirements: There are too many requirements, or one of them is not a plain requirement.
    """
    given = tuple(requirements)
    if len(given) > MAX_REQUIREMENTS:
        raise UnresolvedRequirements(
            f"{len(given)} requirements were given; the maximum is {MAX_REQUIREMENTS}.",
            remedy="Name only the packages that are imported; their dependencies are installed with them.",
        )
    return tuple(sorted({_canonical(text) for text in given}))


def key_of(normalized: tuple[str, ...], interpreter: str, installer: str) -> str:
    """Return the folder name of the environment: a hash of everything that determines its contents."""
    text = json.dumps([list(normalized), interpreter, installer])
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_CHARS]


def this_interpreter() -> str:
    """Return the Python version, the platform and the C library's version, which decide what wheels are compatible."""
    return "-".join((str(sys.implementation.cache_tag), sysconfig.get_platform(), *platform.libc_ver()))


def installer_series() -> str:
    """Return a name for uv releases with the same environment layout: the major and, before 1.0, the minor version."""
    version = Version(importlib.metadata.version("uv"))
    return f"uv-{version.major}" if version.major else f"uv-0.{version.minor}"


def _canonical(text: str) -> str:
    shown = repr(text[:120])
    if text.lstrip().startswith("-"):
        raise UnresolvedRequirements(
            f"{shown} is an installer option, not a requirement.", remedy="Use plain requirements such as 'six>=1.16'."
        )
    if len(text) > MAX_CHARS:
        raise UnresolvedRequirements(f"The requirement {shown}… is longer than {MAX_CHARS} characters.")
    try:
        parsed = Requirement(text)
    except (InvalidRequirement, RecursionError) as problem:
        reason = (str(problem).splitlines() or ["it is nested too deeply"])[0]
        raise UnresolvedRequirements(
            f"{shown} is not a requirement ({reason}).",
            remedy="Use a name with versions, such as 'six>=1.16'; paths and addresses are not installed.",
        ) from None
    if parsed.url is not None:
        raise UnresolvedRequirements(
            f"{shown} names an address to install from.",
            remedy="Use a name with versions: packages are installed only from this machine's package index.",
        )
    extras = ",".join(sorted(canonicalize_name(extra) for extra in parsed.extras))
    versions = ",".join(sorted(str(specifier) for specifier in parsed.specifier))
    marker = f" ; {parsed.marker}" if parsed.marker else ""
    return f"{canonicalize_name(parsed.name)}{f'[{extras}]' if extras else ''}{versions}{marker}"
