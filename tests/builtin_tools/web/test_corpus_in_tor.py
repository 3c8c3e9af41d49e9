"""The whole corpus, behind a real Tor network: pages, searches, and what must not leave by another way."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.builtin_tools.web.corpus.web import DUCKDUCKGO, CorpusWeb
from tests.builtin_tools.web.tor_network import REPOSITORY, TorNetwork

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
