"""`AllowLists`: named sets of tools, shipped with Knackbox or defined by the operator (ACCESS-3)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engine.contract.allowed import EVERY_CATEGORY, Allowed
from engine.contract.failure import ConfigError, UnknownName
from engine.policy.allow_lists_file import AllowList, Specs, read_allow_lists
from engine.registry.nearest import nearest

_log = logging.getLogger("knackbox.policy")

SHIPPED = Path(__file__).with_name("allow_lists.yaml")

_Stamp = tuple[int, int, int]
_Asked = tuple[str, bool, bool]


class AllowLists:
    """Reads the allow-lists, and converts a list to an `Allowed`: the tools that an agent may use.

    The operator's file is checked for changes (one `stat`) whenever a list is requested, so edits apply from the next
    turn on. If an edit is invalid, the previous lists stay in use, `problem` says why, and a warning is logged once.
    """

    def __init__(self, own: Path, specs: Callable[[], Specs], *, strict: bool = True, required: str = "") -> None:
        """Read the lists.

        Args:
            own: The operator's file, which may be missing. Its lists are added to the shipped ones, and replace those
                with the same name.
            specs: Function that returns the static tools by primary name. It is called each time the file is read.
            strict: Whether an unknown tool in the operator's file is an error. Otherwise, and in shipped lists, it is
                only logged, since not every pack may be installed.
            required: The name of a list that must always exist.

        Raises:
            ConfigError: The operator's file is invalid.
        """
        self._own = own
        self._specs = specs
        self._strict = strict
        self._required = required
        self._stamp: _Stamp | None = None
        self._lists: Mapping[str, AllowList] | None = None  # loaded lazily: the shipped file takes 30 ms to read
        self._resolved: dict[_Asked, Allowed] = {}
        self.problem = ""
        if required or own.exists():
            self._read()

    def lists(self) -> Mapping[str, AllowList]:
        """Return all current lists, by name."""
        lists = self._lists
        if lists is None or self._look() != self._stamp:
            try:
                lists = self._read()
            except ConfigError as error:
                self._stamp = self._look()
                lists = self._lists = lists or read_allow_lists(SHIPPED, self._specs(), unknown=_missing)
                self.problem = str(error)
                _log.warning("%s The previous allow-lists stay in use.", error)
        return lists

    def resolve_allow_list(self, name: str, *, local_mode: bool = False, embedding_ok: bool = True) -> Allowed:
        """Return what a list permits, for `Turn.allowed`. The same object is returned until a list changes.

        Args:
            name: The name of the list.
            local_mode: Whether to exclude the tools that send data to external services (`exclude_in_local`).
            embedding_ok: Whether to add the tools that use embeddings (`add_when_embedding_ok`).

        Raises:
            UnknownName: There is no such list.
        """
        lists = self.lists()
        asked = (name, local_mode, embedding_ok)
        found = self._resolved.get(asked)
        if found is None:
            if name not in lists:
                raise UnknownName(self._no(name, lists))
            found = self._resolved[asked] = _allowed(name, lists, local_mode=local_mode, embedding_ok=embedding_ok)
        return found

    def resolve_categories(self, categories: Iterable[str]) -> frozenset[str]:
        """Return the names of the static tools in any of these categories. The category ``*`` selects all tools."""
        wanted = frozenset(categories)
        every = EVERY_CATEGORY in wanted
        return frozenset(name for name, spec in self._specs().items() if every or spec.category in wanted)

    def _read(self) -> Mapping[str, AllowList]:
        """Load the shipped file and the operator's file.

        Raises:
            ConfigError: The operator's file is invalid.
        """
        stamp, specs = self._look(), self._specs()
        lists = read_allow_lists(SHIPPED, specs, unknown=_missing)
        if stamp is not None:
            lists |= read_allow_lists(self._own, specs, unknown=None if self._strict else _log.warning)
        refuse_cycles(lists)
        if self._required and self._required not in lists:
            raise ConfigError(self._no(self._required, lists))
        self._lists, self._stamp, self._resolved, self.problem = lists, stamp, {}, ""
        return lists

    def _no(self, name: str, lists: Mapping[str, AllowList]) -> str:
        near = ", ".join(nearest(name, lists))
        return f"There is no allow-list {name!r}. Nearest: {near}. Define your own lists in {self._own}."

    def _look(self) -> _Stamp | None:
        try:
            status = self._own.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def refuse_cycles(lists: Mapping[str, AllowList]) -> None:
    """Check that included lists exist and do not include each other.

    Raises:
        ConfigError: A list includes an unknown list or, directly or indirectly, itself.
    """
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        for other, place in lists[name].include.items():
            if other not in lists:
                near = nearest(other, lists)[0]
                raise ConfigError(f"{place}: there is no list {other!r} to include; nearest: {near}.")
            if other in (*trail, name):
                raise ConfigError(f"{place}: lists include each other: {' -> '.join((*trail, name, other))}.")
            if other not in done:
                visit(other, (*trail, name))
        done.add(name)

    for name in lists:
        visit(name, ())


def _allowed(name: str, lists: Mapping[str, AllowList], *, local_mode: bool, embedding_ok: bool) -> Allowed:
    written = lists[name]
    selected, excluded = [written.selected], [written.exclude]
    if local_mode:
        excluded.append(written.exclude_in_local)
    else:
        selected.append(written.add_when_non_local)
    if embedding_ok:
        selected.append(written.add_when_embedding_ok)
    return Allowed(
        selected=tuple(selected),
        included=tuple(
            _allowed(other, lists, local_mode=local_mode, embedding_ok=embedding_ok) for other in written.include
        ),
        excluded=tuple(excluded),
        read_only=written.read_only,
        without_effects=written.without_effects,
    )


def _missing(problem: str) -> None:
    _log.info("%s; no installed pack provides it.", problem)
