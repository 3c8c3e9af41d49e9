"""Composed skills that call each other: never in a circle, and not too deep."""

from collections.abc import Mapping, Sequence

from acquired_skills.model.skill import Skill, SkillError

MOST_NESTED = 5  # composed skills within each other


def circle(name: str, calls: Sequence[str], skills: Mapping[str, Skill]) -> tuple[str, ...]:
    """The way from a skill that calls these back to itself, first and last its own name; empty without one."""
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


def nested(calls: Sequence[str], skills: Mapping[str, Skill]) -> int:
    """How many composed skills are within each other below these calls. There is no circle in them."""
    known: dict[str, int] = {}

    def below(name: str) -> int:
        if name not in known:
            known[name] = 0  # so that even a circle, were there one, would end
            inner = skills[name].calls if name in skills else ()
            known[name] = 1 + max(map(below, inner), default=0) if inner else 0
        return known[name]

    return max(map(below, calls), default=0)


def refuse_cycle(skill: Skill, skills: Mapping[str, Skill]) -> None:
    """Raises SkillError when this version, were it current, would call itself by way of others."""
    way = circle(skill.name, skill.calls, skills)
    if way:
        raise SkillError(
            f"`{skill.name}` version {skill.version} would call itself: {' -> '.join(way)}. Nothing was changed."
        )
