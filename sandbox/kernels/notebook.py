"""Runs a notebook in a boxed kernel, cell by cell. Needs the extra `kernels`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from sandbox.kernels.nbclient_boxed import BoxedClient, KernelRejected, OnOutput

Ending = Literal["ok", "error", "timeout", "output", "died"]
_WORDS = 300  # the most characters of a reason
_WITH_IDS = 5  # the first minor format whose cells have ids


class NotANotebook(Exception):
    """The input cannot be run. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class NotebookRun:
    """The result of a run of a notebook. The outputs are stored in the notebook.

    Attributes:
        executed: The number of code cells that were started.
        cell: The index of the cell at which the run stopped; None if it reached the end.
        why: The reason why the run stopped, in one line; "" if it reached the end.
        writable: Whether the notebook is still valid; only a hostile kernel makes it invalid.
    """

    ending: Ending
    executed: int
    cell: int | None = None
    why: str = ""
    writable: bool = True


def read(data: bytes) -> NotebookNode:
    """Parse a Python notebook of format 4.

    Raises:
        NotANotebook: The data has another format, or the notebook is in another language.
    """
    try:
        notebook = nbformat.from_dict(nbformat.reader.parse_json(data.decode("utf-8-sig")))  # type: ignore[no-untyped-call]
    except (ValueError, RecursionError, nbformat.reader.NotJSONError) as error:
        raise NotANotebook("is not a notebook: it is not JSON in UTF-8.") from error
    if not isinstance(notebook, NotebookNode) or not isinstance(notebook.get("nbformat"), int):
        raise NotANotebook("is not a notebook: it has no field nbformat.")
    if notebook.nbformat != nbformat.current_nbformat:
        raise NotANotebook(
            f"is a notebook of format {notebook.nbformat}, and only format {nbformat.current_nbformat} is supported. "
            "Convert it: jupyter nbconvert --to notebook FILE."
        )
    _add_missing_ids(notebook)
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        where = "/".join(str(part) for part in getattr(error, "absolute_path", ()))
        at = f" (at {where})" if where else ""
        raise NotANotebook(f"is not a valid notebook: {_line(error.message)}{at}.") from error
    language = language_of(notebook)
    if language.lower() not in {"python", "python3", "ipython"}:
        raise NotANotebook(
            f"is in {_line(language)}, but only Python notebooks can be run. `knackbox exec` runs Bash and Node code."
        )
    return nbformat.v4.to_notebook(notebook)  # type: ignore[no-any-return, no-untyped-call]  # joins lines


def written(notebook: NotebookNode) -> bytes:
    """Return the notebook as the content of a file."""
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    return text.encode("utf-8", "backslashreplace") + b"\n"  # an unpaired surrogate, which JSON escapes the same way


def language_of(notebook: NotebookNode) -> str:
    """Return the language named in the notebook's metadata; Python if there is none."""
    meta = notebook.metadata
    language = meta.get("kernelspec", {}).get("language") or meta.get("language_info", {}).get("name")
    return str(language or "python")


async def run(
    notebook: NotebookNode,
    config: Mapping[str, Any],
    *,
    timeout_s: float,
    allow_errors: bool,
    on_cell: Callable[[int], None],
    on_output: OnOutput,
) -> NotebookRun:
    """Run every code cell in a new kernel, and write the outputs into the notebook.

    An exception of the notebook's code is not raised here; the result describes it.

    Args:
        notebook: The notebook, which is changed.
        config: Traits of `KnackboxProvisioner`.
        timeout_s: The time limit of each cell, in seconds.
        allow_errors: Whether to continue after a cell that raised an exception.
        on_cell: Called with the index of each cell that starts.
        on_output: Called with each output.

    Raises:
        SandboxError: No kernel could be started.
    """
    client = BoxedClient(
        notebook, config, timeout_s=timeout_s, allow_errors=allow_errors, on_cell=on_cell, on_output=on_output
    )
    ending: Ending = "ok"
    why = ""
    try:
        await client.async_execute()
    except CellExecutionError as error:
        ending, why = "error", f"{error.ename}: {error.evalue}"
    except CellTimeoutError:
        ending, why = "timeout", f"it took longer than {timeout_s:g} s"
    except DeadKernelError:
        ending, why = "died", f"its kernel died: {client.last_words}"
    except KernelRejected as broken:
        ending, why = ("output" if broken.flood else "died"), str(broken)
    finally:
        _join_streams(notebook)
    return NotebookRun(
        ending,
        client.code_cells_executed,
        None if ending == "ok" else client.at,
        _line(why),
        _is_valid(notebook),
    )


def _line(text: str) -> str:
    """Return one line of limited length, without terminal control characters."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 2 * _WORDS])
    return " ".join(shown.split())[:_WORDS]


def _add_missing_ids(notebook: NotebookNode) -> None:
    """Add the ids that format 4.5 requires. Many programs omit them, and nbformat then warns at length."""
    if notebook.get("nbformat_minor", 0) >= _WITH_IDS and isinstance(notebook.get("cells"), list):
        for number, cell in enumerate(notebook.cells):
            if isinstance(cell, NotebookNode):
                cell.setdefault("id", f"cell-{number}")


def _join_streams(notebook: NotebookNode) -> None:
    """Join output that was printed in pieces. Call it after the run, since display updates refer to output indexes."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        joined: list[NotebookNode] = []
        for name, group in groupby(cell.outputs, key=lambda output: output.get("name", "")):
            outputs = list(group)
            if name and outputs[0].output_type == "stream":
                outputs[0].text = "".join(output.text for output in outputs)
                del outputs[1:]
            joined += outputs
        cell.outputs = joined


def _is_valid(notebook: NotebookNode) -> bool:
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError:
        return False
    return True
