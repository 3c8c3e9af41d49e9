"""The workspace of a call as the folder it is, and its errors as failures a model can act on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from builtin_tools.refusals import not_configured
from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.stores.workspace import FolderWorkspace, WorkspaceError


def folder_of(ctx: CallContext) -> FolderWorkspace:
    """Raises ToolFailure (FATAL) when the engine was given a workspace that is not a folder of ours."""
    if isinstance(ctx.workspace, FolderWorkspace):
        return ctx.workspace
    raise not_configured(f"This needs a workspace that is a folder, but it is a {type(ctx.workspace).__name__}.")


def one_line(name: str) -> str:
    """A path as one line of a listing: as it is, or as a JSON string where it could be read as something else.

    A file name may hold line ends, escape sequences and runs of spaces, which would forge lines and columns.
    """
    plain = name.isprintable() and not name.startswith('"') and "  " not in name and name == name.strip()
    return name if plain else json.dumps(name)


@contextmanager
def explained() -> Iterator[None]:
    """Turn what the workspace refuses and what the file system says into DIAGNOSTIC failures of one line."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolFailure(str(error), reason="workspace_refused", may_have_started=False, end="refused") from error
    except FileNotFoundError as error:
        raise ToolFailure(
            f"There is no {error.filename!r} in the workspace. Look with file_system list or find.",
            reason="not_found",
            may_have_started=False,
        ) from error
    except OSError as error:
        said = error.strerror or str(error)
        raise ToolFailure(f"{error.filename or 'The workspace'}: {said}.", reason="file_system_error") from error
