"""The server does what its OpenAPI document says, whatever it is sent: schemathesis makes the requests up."""

from collections.abc import Mapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from engine.faces.http.tokens import Caller
from tests.faces.http.servers import DEADLINE_S, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("schemathesis", "sche", "admin", approves=True)
EXAMPLES = 12  # for each route and mode
NOTHING_TO_GET_WRONG = {"GET /health"}
# In a query `null` is a text like any other, so what was made up as no text or no list still is one.
LEFT_OUT: Mapping[str, list[object]] = {"GET /api/tools": [negative_data_rejection]}


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_what_is_made_up_is_answered_as_documented(server: Server, mode: GenerationMode) -> None:
    headers = {"Authorization": f"Bearer {server.token(ME)}"}
    document = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=headers)
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) >= 13
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.label in NOTHING_TO_GET_WRONG:
            continue
        tried(operation, mode, headers)


def tried(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    left_out = LEFT_OUT.get(operation.label, [])

    @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case: Case) -> None:
        case.call_and_validate(headers=headers, timeout=DEADLINE_S, excluded_checks=left_out)

    answered()


def test_the_document_says_that_every_route_but_one_takes_a_token(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.token(ME)}"}
    paths = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=headers).raw_schema["paths"]
    unguarded = [path for path, methods in paths.items() if not all(each.get("security") for each in methods.values())]
    assert unguarded == ["/health"]
