"""The time zones of users. The rules of all zones come from the operating system or the package tzdata."""

from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal


def known_zone(name: str) -> ZoneInfo:
    """Return the time zone of this name, such as ``"Europe/Berlin"``.

    Raises:
        ValueError: There is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write it like Europe/Berlin") from None


def local_zone() -> ZoneInfo:
    """Return the time zone of the machine; UTC if it is unknown."""
    try:
        return ZoneInfo(tzlocal.get_localzone_name())
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        return ZoneInfo("UTC")


def zones_of_users(default: str, by_user: Mapping[str, str]) -> Callable[[str], ZoneInfo]:
    """Return a function that returns the time zone of a user.

    Args:
        default: The zone of users who are not in `by_user`; "" for the zone of the machine.
        by_user: The zones of users, by name.

    Raises:
        ValueError: There is no such zone.
    """
    otherwise = known_zone(default) if default else local_zone()
    known = {user: known_zone(name) for user, name in by_user.items()}
    return lambda user: known.get(user, otherwise)
