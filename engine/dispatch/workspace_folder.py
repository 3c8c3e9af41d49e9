"""Access to the workspace folder of a call. Workspace errors become failures that a model can act on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import not_configured
from engine.stores.workspace import FolderWorkspace, WorkspaceError


def folder_of(ctx: CallContext) -> FolderWorkspace:
    """Return the workspace folder of a call.

    Raises:
        ToolFailure: The engine was opened with another kind of workspace (FATAL).
    """
    if isinstance(ctx.workspace, FolderWorkspace):
        return ctx.workspace
    raise not_configured(
        f"This tool needs a FolderWorkspace, but the engine has a {type(ctx.workspace).__name__}. A person can open "
        "the engine with a folder as its workspace."
    )


def one_line(name: str) -> str:
    """Return a path for use in a line of a listing: as a JSON string if it could be misread, or else unchanged.

    A file name may contain line ends, escape sequences and runs of spaces, which could forge lines and columns.
    """
    plain = name.isprintable() and not name.startswith('"') and "  " not in name and name == name.strip()
    return name if plain else json.dumps(name)


@contextmanager
def workspace_failures() -> Iterator[None]:
    """Convert errors of the workspace and of the file system to DIAGNOSTIC failures with a one-line message."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolFailure(str(error), reason="workspace_refused", may_have_started=False, end="refused") from error
    except FileNotFoundError as error:
        raise ToolFailure(
            f"There is no {error.filename!r} in the workspace. Use file_system with action list or find to see which "
            "files exist.",
            reason="not_found",
            may_have_started=False,
        ) from error
    except OSError as error:
        detail = error.strerror or str(error)
        raise ToolFailure(f"{error.filename or 'The workspace'}: {detail}.", reason="file_system_error") from error
