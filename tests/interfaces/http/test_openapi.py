"""The server does what its OpenAPI document says, whatever it is sent: schemathesis makes the requests up."""

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from engine.interfaces.http import bodies
from engine.interfaces.http.tokens import Caller
from tests.interfaces.http.servers import DEADLINE_S, PLAIN, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("schemathesis", "sche", "admin", approves=True)
EXAMPLES = 8  # for each route and mode


def document(server: Server) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {server.token(ME)}"}
    found: dict[str, Any] = httpx.get(f"{server.url}/openapi.json", headers=headers, **PLAIN).json()
    return found


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_what_is_made_up_is_answered_as_documented(server: Server, mode: GenerationMode) -> None:
    said = document(server)
    for methods in said["paths"].values():
        for route in methods.values():
            route["security"] = []  # requests without tokens are tests of their own
    schema = schemathesis.openapi.from_dict(said)
    schema.config.update(base_url=server.url)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 13
    for operation in operations:
        takes_something = {"parameters", "requestBody"} & set(operation.definition.raw)
        if mode is GenerationMode.POSITIVE or takes_something:
            tried(operation, mode, {"Authorization": f"Bearer {server.token(ME)}"})


def tried(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    # In a query `null` is a text like any other, and what nobody asked for is of no account: nothing there to reject.
    left_out = [negative_data_rejection] if operation.method.upper() == "GET" else []

    @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case: Case) -> None:
        case.call_and_validate(headers=headers, timeout=DEADLINE_S, excluded_checks=left_out)

    answered()


def test_the_document_says_that_every_route_but_one_takes_a_token(server: Server) -> None:
    paths = document(server)["paths"]
    unguarded = [path for path, methods in paths.items() if not all(each.get("security") for each in methods.values())]
    assert unguarded == ["/health"]


@pytest.mark.spec("FACE-15")
def test_the_document_describes_itself(server: Server) -> None:
    said = document(server)
    assert "RFC 9457" in said["info"]["description"]
    assert said["servers"][0]["url"] == "/"
    assert said["security"] == [{"HTTPBearer": []}]
    assert "knackbox serve token add" in said["components"]["securitySchemes"]["HTTPBearer"]["description"]
    assert said["components"]["schemas"]["CallBody"]["examples"]
    tags = {tag["name"] for tag in said["tags"]}
    for path, methods in said["paths"].items():
        for method, route in methods.items():
            assert route["description"], (path, method)
            assert set(route["tags"]) <= tags
            assert route["tags"], (path, method)
    assert {"404", "422"} <= said["paths"]["/api/call"]["post"]["responses"].keys()


@pytest.mark.spec("FACE-15")
def test_every_example_fits_its_schema() -> None:
    shown = 0
    for model in vars(bodies).values():
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel:
            for example in model.model_json_schema().get("examples", []):
                model.model_validate(example)
                shown += 1
    assert shown >= 6
