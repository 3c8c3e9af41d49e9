"""`AllowLists`: named sets of tools, those that ship and the operator's own, and what each permits (ACCESS-3)."""

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
    """The last good lists. The operator's own file is looked at (one `stat`) whenever a list is asked for, so an edit
    counts from the next turn on; one that cannot be used keeps the lists as they were, `problem` then says why, and a
    warning is logged once.
    """

    def __init__(self, own: Path, specs: Callable[[], Specs], *, strict: bool = True, required: str = "") -> None:
        """own: adds to the lists that ship, and takes the place of those it names; need not be there.

        specs: the static tools by primary name, asked at each reading. strict: a tool that nobody has is an error in
        the own file; else, and in the lists that ship, it is logged: not every pack may be installed.
        required: a list that no edit may take away.
        Raises ConfigError when the own file cannot be used at the start.
        """
        self._own = own
        self._specs = specs
        self._strict = strict
        self._required = required
        self._stamp: _Stamp | None = None
        self._lists: Mapping[str, AllowList] | None = None  # the file that ships takes 30 ms to read, so: when needed
        self._resolved: dict[_Asked, Allowed] = {}
        self.problem = ""
        if required or own.exists():
            self._read()

    def lists(self) -> Mapping[str, AllowList]:
        """All lists now in force, by name."""
        lists = self._lists
        if lists is None or self._look() != self._stamp:
            try:
                lists = self._read()
            except ConfigError as error:
                self._stamp = self._look()
                lists = self._lists = lists or read_allow_lists(SHIPPED, self._specs(), unknown=_missing)
                self.problem = str(error)
                _log.warning("%s The allow-lists stay as they were before this edit.", error)
        return lists

    def resolve_allow_list(self, name: str, *, local_mode: bool = False, embedding_ok: bool = True) -> Allowed:
        """What a list permits, for `Turn.allowed`. The same object as long as nothing changed.

        local_mode: for what is not to be sent to services elsewhere. embedding_ok: embeddings may be used.
        Raises UnknownName, a ConfigError, when there is no such list.
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
        """Names of the static tools that are in any of these categories now. ``*``: in all."""
        wanted = frozenset(categories)
        every = EVERY_CATEGORY in wanted
        return frozenset(name for name, spec in self._specs().items() if every or spec.category in wanted)

    def _read(self) -> Mapping[str, AllowList]:
        """Take both files over, or neither. Raises ConfigError."""
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
        return f"There is no allow-list {name!r}. Nearest: {near}. Your own go to {self._own}."

    def _look(self) -> _Stamp | None:
        try:
            status = self._own.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def refuse_cycles(lists: Mapping[str, AllowList]) -> None:
    """Raises ConfigError when a list includes one that is not there, or itself, through whatever others."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        for other, place in lists[name].include.items():
            if other not in lists:
                raise ConfigError(f"{place}there is no list {other!r} to include; nearest: {nearest(other, lists)[0]}.")
            if other in (*trail, name):
                raise ConfigError(f"{place}lists include each other: {' -> '.join((*trail, name, other))}.")
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
    _log.info("%s; no installed pack has it.", problem)
