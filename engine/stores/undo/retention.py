"""Deletes old changes, and the contents that nothing needs any more."""

from pathlib import Path

from engine.stores.undo.change_store import ChangeStore
from engine.stores.undo.kept_contents import KeptContents

# The share of the limit that is left after contents were deleted because the store was nearly full.
_KEPT_SHARE = 0.7


def prune(store: ChangeStore, contents: KeptContents, oldest: str) -> None:
    """Delete change sets that are too old, or for which there is no room. The caller holds `contents.removing`.

    The files of a workspace as last scanned are needed for the next change, so their contents are kept as long as the
    workspace exists and is used.

    Args:
        store: The database of changes.
        contents: The contents.
        oldest: The oldest time that is kept, UTC, ISO 8601.
    """
    with store.transaction() as rows:
        rows.forget(oldest, lambda root: not Path(root).is_dir())
        needed = rows.needed_digests()
    contents.remove_others(needed)
    while contents.total_bytes() > _KEPT_SHARE * contents.store_bytes:
        with store.transaction() as rows:
            old = rows.oldest_change_sets()
            rows.delete(old)
            needed = rows.needed_digests()
        if not old:
            break
        contents.remove_others(needed)
