"""`StoredSkills`: lists, finds and reads the skills of one home."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from acquired_skills.find.catalog import Catalog, SkillHit
from acquired_skills.lifecycle.folder_records import FolderRecords
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.names import PATTERN
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillMissing
from acquired_skills.proof.admission_report import agreed_predictions, kept_reference
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.store.totals import VersionStats
from engine.retrieval.ranked import LearnedShares

_MOST_NAMED = 20  # maximum number of skills that are named in one message
_SEARCHES = 3  # maximum number of searches for one request; a search is repeated if folders have changed


class StoredSkills:
    """Reads the skills of one home. `SkillLibrary` adds everything that changes them."""

    def __init__(
        self,
        store: SkillStore,
        ledger: Ledger,
        catalog: Catalog,
        track: TrackRecord,
        folders: FolderRecords,
        *,
        retrieve: int,
        fits: float,
    ) -> None:
        """Create the object from its parts. `SkillLibrary` describes these parameters."""
        self.store = store
        self.track = track
        self.folders = folders
        self.fits = fits
        self._ledger = ledger
        self._catalog = catalog
        self._retrieve = retrieve

    async def skills(self) -> list[Skill]:
        """Return all skills in any state, sorted by name. If there may be many, use `page`."""
        rows = await asyncio.to_thread(self._ledger.page)
        return [row.skill for row in rows if row.skill is not None]

    async def page(self, limit: int, after: str = "", *, listed: bool = False) -> list[Skill]:
        """Return one page of the skills, sorted by name.

        Args:
            limit: The maximum number of skills on the page.
            after: The last name of the previous page.
            listed: Whether to return only skills that are active or on probation, instead of skills in any state.
        """
        stamps = await asyncio.to_thread(lambda: self._ledger.stamps(after, limit, listed=listed))
        await self.folders.refresh(stamps)
        rows = await asyncio.to_thread(lambda: self._ledger.page(after, limit, listed=listed))
        return [row.skill for row in rows if row.skill is not None]

    async def names(self) -> list[str]:
        """Return the names of all listed skills (active or on probation), sorted."""
        return await asyncio.to_thread(lambda: self._ledger.names(listed=True))

    async def count(self, *, listed: bool = False) -> int:
        """Return the number of skills.

        Args:
            listed: Whether to count only skills that are active or on probation.
        """
        return await asyncio.to_thread(lambda: self._ledger.count(listed=listed))

    async def listed(self) -> Sequence[Skill]:
        """Return all skills that are active or on probation, sorted by name.

        While nothing changes, this is the same object.
        """
        return await asyncio.to_thread(self._catalog.listed)

    async def find(self, name: str) -> Skill | None:
        """Return the skill with exactly this name, in any state, as its folder describes it now."""
        if not PATTERN.fullmatch(name):
            return None
        row = await asyncio.to_thread(self.folders.current, name)
        return None if row is None else row.skill

    async def get(self, name: str) -> Skill:
        """Return the skill with exactly this name, like `find`.

        Raises:
            SkillMissing: There is no such skill. The message names existing skills.
        """
        skill = await self.find(name)
        if skill is None:
            names = [row.name for row in await asyncio.to_thread(self._ledger.page, "", _MOST_NAMED)]
            known = f"Existing skills: {', '.join(names)}." if names else "There are no skills yet."
            raise SkillMissing(f"There is no skill `{name[:80]}`. {known}")
        return skill

    async def search(self, query: str, k: int | None = None, fits: float | None = None) -> list[SkillHit]:
        """Return the listed skills (active or on probation) that fit a request, best first.

        After the search, `gap` says what could not be searched.

        Args:
            k: The maximum number of skills.
            fits: The minimum fit of a skill to the request; 0 to return skills of any fit.
        """
        if not await self.count(listed=True):
            return []
        await self.track.flush()
        least, most = self.fits if fits is None else fits, k or self._retrieve
        for _ in range(_SEARCHES):
            found = await self._catalog.search(query, most, self.track.weights, least)
            rows = self._catalog.rows([one.skill.name for one in found])
            if not await self.folders.refresh({name: row.stamp for name, row in rows.items()}):
                break
        return found

    async def learned_shares(self, query: str, names: Collection[str]) -> dict[str, LearnedShares]:
        """Return how much the words and the meaning of a request contribute to the learned scores of these skills.

        The learned score comes from a trained ranking model. The result is empty if there is no such model.
        """
        return await self._catalog.learned_shares(query, names)

    @property
    def known(self) -> Mapping[str, Skill]:
        """A mapping of all skills by name. Each access reads the skill from the records, which blocks."""
        return self._catalog.skills

    @property
    def gap(self) -> str:
        """A sentence about what the last search could not cover; "" if it covered everything."""
        return self._catalog.gap

    @property
    def ranking(self) -> str:
        """Which version of the learned ranking the last search used, and why; "" if nothing was trained yet."""
        return self._catalog.ranking

    async def code(self, skill: Skill) -> bytes:
        """Return the source of exactly this version.

        Raises:
            SkillDamaged: The file was changed after it was admitted.
        """
        return await asyncio.to_thread(self.store.code, skill)

    async def program(self, skill: Skill) -> SkillProgram:
        """Return all files that a box needs to run this version.

        Raises:
            SkillDamaged: A file was changed after it was admitted.
        """
        return await asyncio.to_thread(self.store.program, skill)

    async def tests(self, skill: Skill) -> bytes:
        """Return the tests of exactly this version.

        Raises:
            SkillDamaged: The file was changed after it was admitted.
        """
        return await asyncio.to_thread(self.store.tests, skill)

    async def history(self, name: str) -> list[Skill]:
        """Return all versions of a skill, oldest first.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: A version cannot be used.
        """
        await self.get(name)
        return await asyncio.to_thread(self.store.history, name)

    async def stats(self, name: str | None = None, limit: int | None = None, after: str = "") -> list[VersionStats]:
        """Return the statistics of each version, sorted by name, with the newest version first.

        Args:
            name: The name of a skill; None for all skills.
            limit: The maximum number of versions.
            after: Return only names after this one.
        """
        return await self.track.stats(None if name is None else [name], limit, after)

    async def stats_of(self, skills: Sequence[Skill]) -> list[VersionStats]:
        """Return the statistics of each version of these skills."""
        return await self.track.stats([skill.name for skill in skills])

    async def proposal_of(self, skill: Skill) -> Proposal:
        """Return the proposal from which a stored skill can be admitted again.

        Raises:
            SkillDamaged: A file was changed after it was admitted.
        """
        program, tests = await self.program(skill), (await self.tests(skill)).decode()
        return Proposal(
            skill.name,
            skill.description,
            program.code.decode(),
            tests,
            skill.examples,
            timeout_s=skill.timeout_s,
            expected=agreed_predictions(skill.admission),
            language=skill.kind.language,
            files={path: data.decode() for path, data in program.extra.items()},
            reference=kept_reference(skill.admission),
        )
