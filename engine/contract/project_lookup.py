"""`ProjectLookup`: finds a user's project for tools that do not manage projects, such as `manage_tasks`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectLookup:
    """A service that a pack provides (`Pack.provides`).

    Attributes:
        id_of: Returns the id of a user's project by its id or name. Raises ToolFailure if there is no such project.
    """

    id_of: Callable[[str, str], Awaitable[str]]
