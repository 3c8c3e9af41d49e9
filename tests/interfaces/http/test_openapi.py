"""The server behaves as its OpenAPI document says, for requests that schemathesis generates."""

from http import HTTPStatus
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

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
def test_generated_requests_are_answered_as_documented(server: Server, mode: GenerationMode) -> None:
    described = document(server)
    for methods in described["paths"].values():
        for route in methods.values():
            route["security"] = []  # requests without tokens have separate tests
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=server.url)
    # A body that is too large is refused before anybody looks at what it says.
    rejected = schema.config.checks.negative_data_rejection
    rejected.expected_statuses = [*rejected.expected_statuses, str(HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value)]
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 13
    for operation in operations:
        takes_something = {"parameters", "requestBody"} & set(operation.definition.raw)
        if mode is GenerationMode.POSITIVE or takes_something:
            try_operation(operation, mode, {"Authorization": f"Bearer {server.token(ME)}"})


def try_operation(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    # In a query `null` is ordinary text and unknown parameters are ignored, so there is nothing to reject.
    excluded = [negative_data_rejection] if operation.method.upper() == "GET" else []
    if operation.path.endswith(
        ("/call", "/call/stream")
    ):  # the arguments of a call must also fit its tool, whose schema is not in the document
        excluded.append(positive_data_acceptance)

    @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def validate(case: Case) -> None:
        case.call_and_validate(headers=headers, timeout=DEADLINE_S, excluded_checks=excluded)

    validate()


def test_the_document_requires_a_token_on_every_route_but_one(server: Server) -> None:
    paths = document(server)["paths"]
    unguarded = [path for path, methods in paths.items() if not all(each.get("security") for each in methods.values())]
    assert unguarded == ["/health"]


@pytest.mark.spec("FACE-15")
def test_the_schema_of_a_manifest_keeps_its_public_name_each_time_the_document_is_read(server: Server) -> None:
    for _ in range(2):
        described = document(server)
        answer = described["paths"]["/manifest"]["get"]["responses"]["200"]["content"]["application/json"]
        assert answer["schema"] == {"$ref": "#/components/schemas/Manifest"}
        assert described["components"]["schemas"]["Manifest"]["title"] == "Manifest"
        assert "ManifestResponse" not in str(described)


@pytest.mark.spec("FACE-15")
def test_the_document_describes_itself(server: Server) -> None:
    described = document(server)
    assert "RFC 9457" in described["info"]["description"]
    assert described["servers"][0]["url"] == "/"
    assert described["security"] == [{"HTTPBearer": []}]
    assert "knackbox serve token add" in described["components"]["securitySchemes"]["HTTPBearer"]["description"]
    assert described["components"]["schemas"]["CallBody"]["examples"]
    tags = {tag["name"] for tag in described["tags"]}
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            assert route["description"], (path, method)
            assert set(route["tags"]) <= tags
            assert route["tags"], (path, method)
    assert {"404", "422"} <= described["paths"]["/api/call"]["post"]["responses"].keys()


@pytest.mark.spec("FACE-15")
def test_every_example_matches_its_schema() -> None:
    count = 0
    for model in vars(bodies).values():
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel:
            for example in model.model_json_schema().get("examples", []):
                model.model_validate(example)
                count += 1
    assert count >= 6
