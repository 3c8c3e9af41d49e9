"""Exports skills as one zip file in the Agent Skills format. The same skills always produce the same bytes.

Nothing is compressed, because the output of deflate depends on the version of the library. The times and modes of the
files are constant.
"""

import io
import zipfile
from collections.abc import Mapping

from acquired_skills.model.names import folder_name, skill_name
from acquired_skills.store.archive import Files
from acquired_skills.store.instructions import Instructions
from acquired_skills.store.skill_store import SkillStore

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that the zip format can represent
_MODE = 0o100644 << 16
_UNIX = 3  # "version made by" Unix, so that programs that unpack the file apply the file modes


def files_of(store: SkillStore, instructions: Instructions, name: str) -> Files:
    """Return the checked files of a skill's current version, or the files of instructions.

    Raises:
        SkillMissing: There are neither a skill nor instructions of this name.
        SkillDamaged: The files cannot be used.
    """
    name = skill_name(name)
    if not store.folder(name).is_dir() and instructions.has(name):
        return instructions.files(name)
    return store.files(store.read(name))


def zipped(skills: Mapping[str, Files]) -> bytes:
    """Return a zip file of skills.

    Args:
        skills: The files of each skill, by the skill's name.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(skills):
            for path in sorted(skills[name]):
                entry = zipfile.ZipInfo(f"{folder_name(name)}/{path}", _TIME)
                entry.external_attr = _MODE
                entry.create_system = _UNIX
                archive.writestr(entry, skills[name][path])
    return made.getvalue()
