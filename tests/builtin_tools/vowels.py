"""A skill that counts vowels, with its tests, for tests that need a proposal."""

CODE = '''
def vowels(text: str) -> int:
    """Count vowels.

    Args:
        text: Any text.
    """
    return sum(letter in "aeiou" for letter in text)
'''
TESTS = """
from vowels import vowels

def test_some():
    assert vowels("banana") == 3
    assert vowels("aeiou") == 5

def test_none():
    assert vowels("rhythm") == 0
"""
