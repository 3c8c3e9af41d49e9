"""`Allowed`: a predicate on tool specs that decides which tools an agent may be offered and call."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from engine.contract.spec import Origin, ToolSpec

EVERY_CATEGORY = "*"


@dataclass(frozen=True, slots=True)
class Selection:
    """A set of tools described by names, globs and categories. A tool belongs to it if any field matches.

    Static tools, in this class, are all tools except skills and the tools of remote modules.

    Attributes:
        any_names, any_globs: Match the name of any tool, and the id of a static tool.
        tools: Names of static tools.
        categories: Categories of static tools; ``*`` selects all. Categories declared by remote modules and skills are
            ignored.
        modules: Globs that match the full names of remote modules' tools (``jira.*``).
        skills: Globs that match the names of acquired and composed skills.
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
        # Only ids of static tools count, so that no acquired tool can impersonate a static one by using its id.
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
    """The tools that a turn may use (`Turn.allowed`).

    It is not a list of names, but a predicate that is evaluated for every tool that is listed or called. So it also
    applies to a skill that is learned during the turn.

    Attributes:
        selected: A tool must match one of these, unless one of `included` permits it.
        excluded: It must match none of these.
        read_only: Whether only tools that are annotated as read-only are permitted.
        without_effects: The tool must have none of these side effects.
        ceilings: Each of these must permit the tool as well.
    """

    selected: tuple[Selection, ...] = ()
    included: tuple["Allowed", ...] = ()
    excluded: tuple[Selection, ...] = ()
    read_only: bool = False
    without_effects: frozenset[str] = field(default_factory=frozenset)
    ceilings: tuple["Allowed", ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> "Allowed":
        """Permit the tools that match these names, ids or globs (``*``, ``?``, ``[...]``).

        `AgentSpec.allowed_tools` has the same form.
        """
        given = frozenset(names)
        globs = {name for name in given if set(name) & set("*?[")}
        return cls((Selection(any_names=given - globs, any_globs=tuple(sorted(globs))),))

    def within(self, ceiling: "Allowed | None") -> "Allowed":
        """Return an `Allowed` that permits only the tools that both `self` and `ceiling` permit."""
        if ceiling is None or ceiling is self or ceiling in self.ceilings:
            return self
        return Allowed(included=(self,), ceilings=(ceiling,))

    def permits(self, spec: ToolSpec) -> bool:
        """Return whether the tool may be offered and called."""
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
