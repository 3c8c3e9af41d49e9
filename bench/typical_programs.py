"""Thirty programs as models write them for small tasks, each of which assigns `result`, a JSON value."""

from collections.abc import Mapping

PROGRAMS: Mapping[str, str] = {
    "arithmetic": """
result = sum(n * n for n in range(10)) // 3
""",
    "string methods": """
result = [w.title() for w in 'the quick brown fox'.split() if len(w) > 3]
""",
    "f-strings": """
total = 1234.5
result = f'{total:>12,.2f}|{7:03d}|{0.25:.0%}'
""",
    "comprehensions": """
table = [[r * c for c in range(3)] for r in range(3)]
result = [table, {k: v for k, v in zip('ab', (1, 2))}, sorted({len(w) for w in ('a', 'b', 'cd')})]
""",
    "generators": """
def fib():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
import itertools
result = list(itertools.islice(fib(), 10))
""",
    "generator delegation": """
def inner():
    got = yield 1
    return got * 2
def outer():
    value = yield from inner()
    yield value
each = outer()
next(each)
result = each.send(21)
""",
    "closures": """
def counter():
    count = 0
    def up():
        nonlocal count
        count += 1
        return count
    return up
up = counter()
up()
result = up()
""",
    "decorators": """
import functools
def twice(f):
    @functools.wraps(f)
    def run(*a, **k):
        return f(*a, **k) * 2
    return run
@twice
def add(a, b=1):
    return a + b
result = [add(2), add.__name__]
""",
    "lru_cache": """
from functools import lru_cache
@lru_cache(None)
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)
result = ways(80)
""",
    "classes": """
class Shape:
    def __init__(self, side):
        self.side = side
    @property
    def area(self):
        return self.side ** 2
    def __lt__(self, other):
        return self.area < other.area
class Square(Shape):
    def __repr__(self):
        return f'Square({self.side})'
result = [repr(min(Square(3), Square(2))), Square(4).area]
""",
    "dataclasses": """
from dataclasses import dataclass, field, asdict
@dataclass(order=True)
class Item:
    price: float
    name: str = 'x'
    tags: list = field(default_factory=list)
result = asdict(max(Item(2.0, 'b'), Item(3.0, 'c', ['new'])))
""",
    "enums": """
from enum import Enum
class Color(Enum):
    RED = 1
    BLUE = 2
result = [c.name for c in Color] + [Color(2).name]
""",
    "exceptions": """
class Empty(ValueError):
    pass
steps = []
try:
    try:
        raise Empty('nothing')
    finally:
        steps.append('cleaned')
except Empty as error:
    steps.append(str(error))
else:
    steps.append('no')
result = steps
""",
    "context managers": """
from contextlib import contextmanager
steps = []
@contextmanager
def step(name):
    steps.append('in ' + name)
    yield name
    steps.append('out ' + name)
with step('a') as a, step('b') as b:
    steps.append(a + b)
result = steps
""",
    "match": """
def kind(value):
    match value:
        case {'type': 'point', 'at': [x, y]}:
            return x + y
        case [first, *rest]:
            return len(rest)
        case str():
            return 'text'
        case _:
            return None
result = [kind({'type': 'point', 'at': [1, 2]}), kind([1, 2, 3]), kind('a'), kind(4)]
""",
    "unpacking": """
first, *middle, last = range(6)
result = [first, middle, last, {**{'a': 1}, 'b': 2}['b'], [*middle, *'x']]
""",
    "walrus": """
data = [3, 8, 12]
result = [y for x in data if (y := x * 2) > 10]
""",
    "collections": """
from collections import Counter, defaultdict, deque, namedtuple
P = namedtuple('P', 'x y')
groups = defaultdict(list)
for w in ('ant', 'bee', 'ape'):
    groups[w[0]].append(w)
result = [Counter('banana').most_common(1)[0][0], dict(groups), list(deque([1, 2, 3], maxlen=2)), P(1, 2).y]
""",
    "itertools": """
import itertools as it
runs = [[k, len(list(g))] for k, g in it.groupby('aabccc')]
result = [runs, len(list(it.permutations('abc')))]
""",
    "regular expressions": r"""
import re
text = 'Order 17 of 2024-03-05, order 18 of 2024-04-01'
result = [re.findall(r'\d{4}-\d\d', text), re.sub(r'(?i)order (\d+)', r'#\1', text)]
""",
    "json": """
import json
text = json.dumps({'b': [1, None, True], 'a': 'é'}, sort_keys=True)
result = [text, json.loads(text)['b'][1]]
""",
    "csv": r"""
import csv, io
rows = list(csv.DictReader(io.StringIO('name,n\na,1\nb,2\n')))
out = io.StringIO()
csv.writer(out).writerow(['x', 'y, z'])
result = [sum(int(r['n']) for r in rows), out.getvalue()]
""",
    "dates": """
from datetime import datetime, timedelta
day = datetime.strptime('2024-02-28', '%Y-%m-%d') + timedelta(days=2)
result = [day.strftime('%A %d %B'), day.isoformat()]
""",
    "decimal and fractions": """
from decimal import Decimal
from fractions import Fraction
result = [str(Decimal('0.1') + Decimal('0.2')), str(Fraction(1, 3) + Fraction(1, 6))]
""",
    "statistics": """
import statistics, math
result = [statistics.median([3, 1, 2]), round(math.dist((0, 0), (3, 4)), 3)]
""",
    "hashes": """
import hashlib, base64
result = [hashlib.sha256(b'a').hexdigest()[:8], base64.b64encode(b'hi').decode()]
""",
    "files": r"""
import pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / 'a.txt').write_text('one\ntwo\n')
with open(folder / 'a.txt') as lines:
    result = [line.strip() for line in lines]
""",
    "sqlite3": """
import sqlite3
db = sqlite3.connect(':memory:')
db.execute('create table t (k text, n int)')
db.executemany('insert into t values (?, ?)', [('a', 1), ('b', 2), ('a', 3)])
result = [list(row) for row in db.execute('select k, sum(n) from t group by k order by k')]
""",
    "asyncio": """
import asyncio
async def work(n):
    await asyncio.sleep(0)
    return n * 2
async def main():
    return await asyncio.gather(*(work(n) for n in range(3)))
result = list(asyncio.run(main()))
""",
    "numpy": """
import numpy as np
a = np.arange(6).reshape(2, 3)
mean = a[:, a.sum(axis=0) > 4].mean()
result = [(a @ a.T).tolist(), float(mean)]
""",
}
