"""Deletes old changes, and the contents that nothing needs any more."""

from pathlib import Path

from engine.stores.undo.change_store import ChangeStore
from engine.stores.undo.kept_contents import KeptContents

# The share of the limit that is left after contents were deleted because the store was nearly full.
_KEPT_SHARE = 0.7


def prune(store: ChangeStore, contents: KeptContents, oldest: str, store_bytes: int) -> None:
    """Delete change sets that are too old, or for which there is no room. The caller holds `contents.removing`.

    The files of a workspace as last scanned are needed for the next change, so their contents are kept as long as the
    workspace exists and is used.

    Args:
        store: The database.
        contents: The contents.
        oldest: The oldest time that is kept, UTC, ISO 8601.
        store_bytes: The limit of all contents.
    """
    with store.transaction() as rows:
        rows.forget(oldest, lambda root: not Path(root).is_dir())
        rows.delete_unneeded_contents()
        while rows.kept_bytes() > _KEPT_SHARE * store_bytes:
            old = rows.oldest_change_sets()
            if not old:
                break
            rows.delete(old)
            rows.delete_unneeded_contents()
        known = rows.kept_digests()
    for digest in list(contents.digests()):
        if digest not in known:
            contents.remove(digest)
