"""Finds cycles of composed skills that call each other, and measures how deeply they are nested."""

from collections.abc import Mapping, Sequence

from acquired_skills.model.skill import Skill, SkillError

MOST_NESTED = 5  # maximum number of levels of composed skills that call each other


def find_cycle(name: str, calls: Sequence[str], skills: Mapping[str, Skill]) -> tuple[str, ...]:
    """Return the path along which a skill with these calls would call itself.

    The path begins and ends with the skill's name; it is empty if there is no cycle.
    """
    came: dict[str, str] = dict.fromkeys(calls, name)
    todo = list(came)
    while todo:
        at = todo.pop()
        if at == name:
            way = [name, came[name]]
            while way[-1] != name:
                way.append(came[way[-1]])
            return tuple(reversed(way))
        for each in skills[at].calls if at in skills else ():
            if each not in came:
                came[each] = at
                todo.append(each)
    return ()


def nesting_depth(calls: Sequence[str], skills: Mapping[str, Skill]) -> int:
    """Return the number of levels of composed skills below these calls, which must not form a cycle."""
    known: dict[str, int] = {}

    def below(name: str) -> int:
        if name not in known:
            known[name] = 0  # terminates even if there is a cycle
            inner = skills[name].calls if name in skills else ()
            known[name] = 1 + max(map(below, inner), default=0) if inner else 0
        return known[name]

    return max(map(below, calls), default=0)


def refuse_cycle(skill: Skill, skills: Mapping[str, Skill]) -> None:
    """Check that this version of a skill would not call itself through other skills once it is current.

    Raises:
        SkillError: The version would call itself. The message shows the cycle.
    """
    way = find_cycle(skill.name, skill.calls, skills)
    if way:
        raise SkillError(
            f"`{skill.name}` version {skill.version} would call itself: {' -> '.join(way)}. Nothing was changed. "
            "Remove one of these calls first."
        )
