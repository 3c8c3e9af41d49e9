"""`Home`: the folder with an engine's data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from engine.contract.failure import ConfigError
from sandbox.namespace import process_one

HOME_VARIABLE = "KNACKBOX_HOME"
NOT_SETTINGS = frozenset({HOME_VARIABLE, process_one.VARIABLE})  # variables with the prefix that name no setting
PREFIX = "KNACKBOX_"  # prefix of the environment variables that hold settings
PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of the files and folders in a home. Only the method `create` accesses the disk."""

    root: Path

    @classmethod
    def locate(cls, explicit: Path | str | None, environ: Mapping[str, str]) -> "Home":
        """Return the given home; without one, `$KNACKBOX_HOME`, or else the user data folder of the platform."""
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
        """The SQLAlchemy URL of the records."""
        return f"sqlite:///{self.records}"

    @property
    def events(self) -> Path:
        """The database of the event log. It is a separate file, because its commits wait until the data is on disk."""
        return self.root / "events.db"

    @property
    def events_url(self) -> str:
        """The SQLAlchemy URL of the event log."""
        return f"sqlite:///{self.events}"

    @property
    def runs(self) -> Path:
        """The database with the journal of the loop's runs. Its deleted rows are overwritten with zeros."""
        return self.root / "runs.db"

    @property
    def runs_url(self) -> str:
        """The SQLAlchemy URL of the journal of runs."""
        return f"sqlite:///{self.runs}"

    @property
    def memory(self) -> Path:
        """The database of the memory. It is a separate file, because its deleted rows are overwritten with zeros."""
        return self.root / "memory.db"

    @property
    def memory_url(self) -> str:
        """The SQLAlchemy URL of the memory."""
        return f"sqlite:///{self.memory}"

    @property
    def memory_indexes(self) -> Path:
        """The search indexes of the memory. They are rebuilt from the memory if they are missing."""
        return self.root / "memory_index"

    @property
    def schedule(self) -> Path:
        """The database of the jobs. It is a separate file, because its commits wait until the data is on disk."""
        return self.root / "schedule.db"

    @property
    def projects(self) -> Path:
        """The database of the projects. Its deleted rows are overwritten with zeros."""
        return self.root / "projects.db"

    @property
    def undo(self) -> Path:
        """What programs changed in workspaces, with the earlier contents of the files."""
        return self.root / "undo"

    @property
    def chat_history(self) -> Path:
        """The lines typed in `knackbox chat`."""
        return self.root / "chat_history"

    @property
    def workers(self) -> Path:
        """Lock files of the workers that run jobs."""
        return self.root / "workers"

    @property
    def self_play(self) -> Path:
        """Lock files of the processes that play (`builtin_tools.self_play`)."""
        return self.root / "self_play"

    @property
    def web_cache(self) -> Path:
        """Pages of the web and search results that were read, up to a limited size."""
        return self.root / "web_cache"

    @property
    def tor(self) -> Path:
        """The data, lock files and control socket of the Tor that Knackbox starts (`builtin_tools.web`)."""
        return self.root / "tor"

    @property
    def research(self) -> Path:
        """Journals of researches that have not ended (`builtin_tools.web.research`)."""
        return self.root / "research"

    @property
    def backups(self) -> Path:
        """Backups of the databases, and the files that `knackbox restore` replaced."""
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
        """The search index of the skills. It is rebuilt if it is missing."""
        return self.root / "skill_index.db"

    @property
    def sentence_vectors(self) -> Path:
        """Vectors that the optional sentence encoder made for skills. A missing file is computed again."""
        return self.root / "sentence_vectors.db"

    @property
    def skills(self) -> Path:
        return self.root / "acquired_skills"

    @property
    def skills_key(self) -> Path:
        """The key that signs skills, unless the configuration names another."""
        return self.root / "keys" / "skills"

    @property
    def placeholder_key(self) -> Path:
        """The key from which the placeholders of secrets are made. It reveals no value."""
        return self.root / "keys" / "placeholders"

    @property
    def workspace(self) -> Path:
        """The workspace, unless the configuration names another."""
        return self.root / "workspace"

    @property
    def child_workspaces(self) -> Path:
        """The workspaces of child runs, a folder for each."""
        return self.root / "child_workspaces"

    @property
    def cache(self) -> Path:
        """Files that can be rebuilt, such as package environments. It may be removed while nothing runs."""
        return self.root / "cache"

    @property
    def manifests(self) -> Path:
        """The latest manifests of modules."""
        return self.cache / "manifests"

    @property
    def run(self) -> Path:
        """Sockets of running processes."""
        return self.root / "run"

    @property
    def registries(self) -> Path:
        """Registered tools, prompts and agents, their snapshots, and the key that signs the snapshots."""
        return self.root / "registries"

    @property
    def fallback_chains(self) -> Path:
        """The operator's fallback chains. Without this file, the built-in chains are used."""
        return self.root / "fallback_chains.yaml"

    @property
    def allow_lists(self) -> Path:
        """Allow-lists of the operator, in addition to the built-in ones."""
        return self.root / "allow_lists.yaml"

    def create(self) -> None:
        """Create the folder, readable only by its owner.

        Raises:
            ConfigError: The folder cannot be created.
        """
        try:
            self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self.skills.mkdir(mode=PRIVATE, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: cannot be used as the home ({error.strerror or error}). "
                f"Choose another with --home or {HOME_VARIABLE}."
            ) from error
