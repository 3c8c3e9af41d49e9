"""`TorUser`: the part of one engine in the Tor of its home, shown to other engines by locked files.

The kernel releases the locks when the process dies.
"""

import contextlib
import os
import secrets
from pathlib import Path

from engine.stores.locks import lock_if_free

_PRIVATE = 0o700
_OWNER = "owner.lock"
_USERS = "users"


class TorUser:
    """The locks of one engine. All methods are fast."""

    def __init__(self, folder: Path) -> None:
        """Register the engine as a user.

        Args:
            folder: The folder of the home's Tor. Created if it is missing.

        Raises:
            OSError: The folder cannot be used.
        """
        self._users = folder / _USERS
        self._users.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        self._owner_path = folder / _OWNER
        self._owner: int | None = None
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._user = lock_if_free(self._users / self._name, create=True)

    @property
    def owns(self) -> bool:
        """Whether this engine is responsible for starting and stopping Tor."""
        return self._owner is not None

    def try_to_own(self) -> bool:
        """Become the owner, unless another engine is. Return whether this engine is the owner now."""
        if self._owner is None:
            self._owner = lock_if_free(self._owner_path, create=True)
        return self._owner is not None

    def other_process(self) -> int | None:
        """Return the process id of another engine that uses Tor; None if there is none."""
        for path in sorted(self._users.iterdir()):
            if path.name == self._name:
                continue
            descriptor = lock_if_free(path)
            if descriptor is None and path.exists():
                return int(path.name.partition("-")[0])
            if descriptor is not None:  # its process was killed
                path.unlink(missing_ok=True)
                os.close(descriptor)
        return None

    def close(self) -> None:
        """Release the locks."""
        with contextlib.suppress(OSError):
            (self._users / self._name).unlink()
        for descriptor in (self._user, self._owner):
            if descriptor is not None:
                os.close(descriptor)
        self._user = self._owner = None
