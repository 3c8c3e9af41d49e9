"""`Allowed`: which tools an agent may be offered and call, as a question to a spec. Also of tools that come later."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from engine.contract.spec import Origin, ToolSpec

EVERY_CATEGORY = "*"


@dataclass(frozen=True, slots=True)
class Selection:
    """Tools by what they are. A tool is held when any field says so.

    any_names, any_globs: of any tool, whatever it is, by its name; of a static tool also by its id.
    tools: names of static tools.
    categories: of static tools, ``*`` for all; what a remote module or a skill says of its own does not count.
    modules: globs over the whole names of remote modules' tools (``jira.*``). skills: globs over acquired and composed
    skills.
    """

    any_names: frozenset[str] = frozenset()
    any_globs: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    modules: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()

    def holds(self, spec: ToolSpec) -> bool:
        name = spec.name
        if name in self.any_names or _matches(name, self.any_globs):
            return True
        # Ids of static tools are the operator's; what is acquired must not pass for one of them by its id.
        if spec.id != name and spec.origin is Origin.STATIC and "." not in name and self._holds_id(spec.id):
            return True
        if "." in name:
            return _matches(name, self.modules)
        if spec.origin is not Origin.STATIC:
            return _matches(name, self.skills)
        return name in self.tools or spec.category in self.categories or EVERY_CATEGORY in self.categories

    def _holds_id(self, spec_id: str) -> bool:
        return spec_id in self.any_names or _matches(spec_id, self.any_globs)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What `Turn.allowed` is: immutable, and asked for every tool that is listed or called.

    It holds no list of names, so a skill that is learned in the middle of a turn is judged like any other.

    selected: any of them must hold a tool, or any of `included` permit it. excluded: none of them may hold it.
    read_only: only tools whose annotations say that they change nothing. without_effects: none of these may be among
    the tool's possible side effects. ceilings: each of them must permit it as well.
    """

    selected: tuple[Selection, ...] = ()
    included: tuple["Allowed", ...] = ()
    excluded: tuple[Selection, ...] = ()
    read_only: bool = False
    without_effects: frozenset[str] = field(default_factory=frozenset)
    ceilings: tuple["Allowed", ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> "Allowed":
        """These names, ids and globs (``*``, ``?``, ``[...]``), of any tool: `AgentSpec.allowed_tools`."""
        given = frozenset(names)
        globs = {name for name in given if set(name) & set("*?[")}
        return cls((Selection(any_names=given - globs, any_globs=tuple(sorted(globs))),))

    def within(self, ceiling: "Allowed | None") -> "Allowed":
        """What both permit."""
        if ceiling is None or ceiling is self or ceiling in self.ceilings:
            return self
        return Allowed(included=(self,), ceilings=(ceiling,))

    def permits(self, spec: ToolSpec) -> bool:
        """Whether the tool may be offered and called."""
        if self.read_only and not spec.annotations.read_only:
            return False
        if not self.without_effects.isdisjoint(spec.side_effects):
            return False
        if any(each.holds(spec) for each in self.excluded):
            return False
        if not all(each.permits(spec) for each in self.ceilings):
            return False
        return any(each.holds(spec) for each in self.selected) or any(each.permits(spec) for each in self.included)


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
