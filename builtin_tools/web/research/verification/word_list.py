"""`words`: writes a set of words as one string, which is shorter than a list of strings."""


def words(text: str) -> frozenset[str]:
    """Return the words of a string constant."""
    return frozenset(text.split())
