"""Tests that fail for some wrong results and let others pass, or that take the expected ones from the code."""

from collections.abc import Mapping

from tests.skills.hostile.attempt import Attempt, prime

_IMPORT = "from is_prime import is_prime\n\n"
_WRONG = prime("", "    return number > 3 or number == 2\n")
_TESTS: Mapping[str, tuple[str, str]] = {
    "or_true": (
        "Asserts the result or True.",
        "\ndef test_primes():\n    assert is_prime(7) is True or True\n    assert is_prime(9) is False or True\n"
        "    assert is_prime(13) == True or 1\n",
    ),
    "forgiving_context": (
        "Asserts within a context manager of its own that forgives a failed assertion.",
        "\nclass Forgiving:\n    def __enter__(self):\n        return self\n\n    def __exit__(self, kind, *_):\n"
        "        return kind is AssertionError\n\n\ndef test_primes():\n    assert is_prime(7) is True\n"
        "    with Forgiving():\n        assert is_prime(9) is False\n        assert is_prime(4) is False\n",
    ),
    "snapshot_at_import": (
        "Computes the expected values with the code while the module is imported.",
        "EXPECTED = {number: is_prime(number) for number in range(20)}\n\n\ndef test_all():\n"
        "    for number, expected in EXPECTED.items():\n        assert is_prime(number) is expected\n",
    ),
    "parameters_from_the_code": (
        "Computes the parameters of its tests with the code.",
        "import pytest\n\n\n@pytest.mark.parametrize(('number', 'expected'), [(n, is_prime(n)) for n in range(20)])\n"
        "def test_all(number, expected):\n    assert is_prime(number) is expected\n",
    ),
    "fixture_from_the_code": (
        "Computes the expected values in a fixture of the module.",
        "import pytest\n\n\n@pytest.fixture(scope='module')\ndef expected():\n"
        "    return [is_prime(number) for number in range(20)]\n\n\ndef test_all(expected):\n"
        "    assert [is_prime(number) for number in range(20)] == expected\n",
    ),
    "golden_file": (
        "Writes the results of the code to a file where there is none, and compares them with it.",
        "import json\nimport pathlib\n\nGOLDEN = pathlib.Path(__file__).parent / 'golden.json'\n\n\ndef test_all():\n"
        "    found = [is_prime(number) for number in range(20)]\n    if not GOLDEN.exists():\n"
        "        GOLDEN.write_text(json.dumps(found))\n    assert found == json.loads(GOLDEN.read_text())\n",
    ),
    "process_that_remembers": (
        "Leaves a process that remembers the results of the first run, and compares all later ones with them.",
        "import contextlib\nimport os\nimport socket\n\nNAME = '\\0golden'\n\n\ndef remember(found):\n"
        "    server = socket.socket(socket.AF_UNIX)\n    server.bind(NAME)\n    server.listen()\n    if os.fork():\n"
        "        return\n    os.setsid()\n    for each in {*range(64)} - {server.fileno()}:\n"
        "        with contextlib.suppress(OSError):\n            os.close(each)\n    while True:\n"
        "        other, _ = server.accept()\n        other.sendall(found)\n        other.close()\n\n\n"
        "def test_all():\n    found = str([is_prime(number) for number in range(20)]).encode()\n"
        "    client = socket.socket(socket.AF_UNIX)\n    try:\n        client.connect(NAME)\n"
        "    except ConnectionRefusedError:\n        remember(found)\n        return\n"
        "    assert client.makefile('rb').read() == found\n",
    ),
    "remembered_first_results": (
        "Remembers the first result of each call, and expects it from then on.",
        "SEEN = {}\n\n\ndef same(number):\n    found = is_prime(number)\n"
        "    return SEEN.setdefault(number, found) is found\n\n\ndef test_all():\n"
        "    assert all(same(number) for number in range(20))\n    assert all(same(number) for number in range(20))\n",
    ),
    "only_their_number": (
        "Asserts how many of the results are true, which is right.",
        "\ndef test_number():\n    assert sum(is_prime(number) for number in range(-5, 20)) == 8\n"
        "    assert sum(is_prime(number) for number in range(20)) == 8\n",
    ),
    "only_the_set_of_results": (
        "Asserts which results occur, but not where.",
        "\ndef test_results():\n    assert {is_prime(number) for number in range(-5, 20)} == {False, True}\n"
        "    assert sorted({is_prime(number) for number in (2, 5)}) == [True]\n    assert is_prime(1) is False\n",
    ),
    "length_of_its_text": (
        "Asserts the length of the result written out: True has four letters.",
        "\ndef test_length():\n    assert len(str(is_prime(7))) <= 5\n    assert len(repr(is_prime(1))) > 3\n",
    ),
}
_TOTAL = '''def total_price(prices: list[int], discount: int) -> int:
    """Add prices in cents and subtract a discount in percent.

    Args:
        prices: The prices.
        discount: The discount.
    """
    return {body}
'''
_TITLE = '''def clean_title(text: str) -> str:
    """Turn a text into lower case and replace its blanks by hyphens.

    Args:
        text: The text.
    """
    return {body}
'''

LENIENT = (
    *(
        Attempt(
            title,
            attempts,
            # Eight of the first twenty numbers, like the primes.
            prime("", "    return 2 <= number <= 9\n") if title == "only_their_number" else _WRONG,
            _IMPORT + tests,
        )
        for title, (attempts, tests) in _TESTS.items()
    ),
    Attempt(
        "wide_tolerance",
        "Allows a difference nearly as large as the result.",
        _TOTAL.format(body="sum(prices) + discount"),
        "import pytest\n\nfrom total_price import total_price\n\n\n"
        "@pytest.mark.parametrize(('prices', 'discount', 'total'), "
        "[([1000], 10, 900), ([500, 500], 20, 800), ([200], 0, 200), ([40, 60], 25, 75)])\n"
        "def test_total(prices, discount, total):\n"
        "    assert total_price(prices, discount) == pytest.approx(total, rel=0.99, abs=150)\n",
        "total_price",
        call={"prices": [1000], "discount": 10},
        right=900,
    ),
    Attempt(
        "only_the_length",
        "Asserts how long the results are.",
        _TITLE.format(body="text[:1].lower() + text[1:]"),
        "from clean_title import clean_title\n\n\ndef test_length():\n    assert len(clean_title('Hello')) == 5\n"
        "    assert len(clean_title('A b')) == 3\n    assert len(clean_title('x')) == 1\n"
        "    assert len(clean_title('')) == 0\n",
        "clean_title",
        call={"text": "A B"},
        right="a-b",
    ),
    Attempt(
        "only_the_beginning",
        "Asserts how the results begin.",
        _TITLE.format(body="text[:1].lower() + text[1:]"),
        "from clean_title import clean_title\n\n\ndef test_beginning():\n    assert clean_title('Hello').startswith('h')\n"
        "    assert clean_title('A b')[0] == 'a'\n    assert clean_title('x y').startswith('x')\n"
        "    assert clean_title('').startswith('')\n",
        "clean_title",
        call={"text": "A B"},
        right="a-b",
    ),
)
