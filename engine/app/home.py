"""`Home`: where this engine's data lives. The folder is the truth; records and vectors are rebuilt from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from engine.contract.failure import ConfigError

HOME_VARIABLE = "KNACKBOX_HOME"
PREFIX = "KNACKBOX_"  # of the variables that are settings
PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """The paths below one home folder. Nothing here touches the disk except `create`."""

    root: Path

    @classmethod
    def locate(cls, explicit: Path | str | None, environ: Mapping[str, str]) -> "Home":
        """The home to use: as given, else `$KNACKBOX_HOME`, else the platform's user data folder."""
        chosen = explicit or environ.get(HOME_VARIABLE) or platformdirs.user_data_dir("knackbox", appauthor=False)
        return cls(Path(chosen).expanduser().absolute())

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def records(self) -> Path:
        return self.root / "records.db"

    @property
    def records_url(self) -> str:
        """The records as an SQLAlchemy URL."""
        return f"sqlite:///{self.records}"

    @property
    def events(self) -> Path:
        """The event log: a file of its own, since its commits wait for the disk."""
        return self.root / "events.db"

    @property
    def events_url(self) -> str:
        """The event log as an SQLAlchemy URL."""
        return f"sqlite:///{self.events}"

    @property
    def backups(self) -> Path:
        """Copies of the records and the event log, and what `knackbox restore` replaced."""
        return self.root / "backups"

    @property
    def engines(self) -> Path:
        """Lock files of the engines that are open on this home."""
        return self.root / "engines"

    @property
    def vectors(self) -> Path:
        return self.root / "chroma"

    @property
    def skill_index(self) -> Path:
        """What skills are found by. Made again from the records when it is removed."""
        return self.root / "skill_index.db"

    @property
    def skills(self) -> Path:
        return self.root / "acquired_skills"

    @property
    def skills_key(self) -> Path:
        """The key that signs skills, when the configuration names no other."""
        return self.root / "keys" / "skills"

    @property
    def workspace(self) -> Path:
        """The workspace when the configuration names none."""
        return self.root / "workspace"

    @property
    def cache(self) -> Path:
        """What can be made again, such as environments of packages. May be removed while nothing runs."""
        return self.root / "cache"

    @property
    def manifests(self) -> Path:
        """What modules last said they offer."""
        return self.cache / "manifests"

    @property
    def run(self) -> Path:
        """Sockets of running processes."""
        return self.root / "run"

    @property
    def registries(self) -> Path:
        """What an operator registered: tools, prompts and agents; its snapshots, and the key that signs them."""
        return self.root / "registries"

    @property
    def fallback_chains(self) -> Path:
        """The user's own chains; without the file, the ones that ship are used."""
        return self.root / "fallback_chains.yaml"

    @property
    def allow_lists(self) -> Path:
        """The operator's own allow-lists, added to those that ship."""
        return self.root / "allow_lists.yaml"

    def create(self) -> None:
        """Make the folder, readable by its owner only. Raises ConfigError when that cannot be done."""
        try:
            self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self.skills.mkdir(mode=PRIVATE, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: cannot be used as the home ({error.strerror or error}). "
                f"Choose another with --home or {HOME_VARIABLE}."
            ) from error
