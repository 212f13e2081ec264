"""The OpenAPI document: valid, complete, up to date, and true: its examples are carried out."""

import json
import re
from typing import Any

import http_document
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tulving.interfaces.http import api, openapi
from tulving.interfaces.parameters import describe, parameters
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@pytest.fixture(scope="module")
def document():
    return openapi.document()


def test_the_document_is_valid(document):
    validate(document)


@EVERY
def test_every_operation_is_in_it(operation, document):
    method, path = operation.http.split()
    described = document["paths"][path][method.lower()]
    assert described["description"] == openapi.in_ids(describe(operation))
    assert described["security"] == [{"bearer": [operation.effect]}]
    told = {each["name"] for each in described["parameters"] if "name" in each}
    if "requestBody" in described:
        told |= {*described["requestBody"]["content"]["application/json"]["schema"]["properties"]}
    assert {each.name for each in parameters(operation)} <= told
    of_path = [each for each in OPERATIONS.values() if each.http.split()[1] == path]
    assert (f"{path}/batch" in document["paths"]) == any(each.batch for each in of_path)


def test_descriptions_name_operations_by_their_ids_and_not_by_their_tools(document):
    texts = re.findall(r'"(?:description|summary)": "((?:[^"\\]|\\.)*)"', json.dumps(document))
    assert not {*re.findall(r"\w+", " ".join(texts))} & {*OPERATIONS}
    assert "`learn_prompt`" in document["paths"]["/v1/learn/apply"]["post"]["description"]


def test_every_route_of_the_api_is_in_it(document):
    """A route that is not made from the registry needs a `Described` in `openapi.BY_HAND`."""
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in api.routes(MemoryModuleConfig(), None)  # pyright: ignore
        if route.endpoint.methods
        for method in route.endpoint.methods
    }
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert served == told


def test_every_route_has_a_tag_with_a_description(document):
    """A new first path segment needs an entry in `tags.TAGS`."""
    used = [each["tags"] for methods in document["paths"].values() for each in methods.values()]
    assert {name for (name,) in used} == {each["name"] for each in document["tags"]}
    assert all(each["description"] for each in document["tags"])


def test_what_only_a_change_can_answer_is_said_of_changes_alone(document):
    for methods in document["paths"].values():
        for method, described in methods.items():
            if method == "get" and described["operationId"] != "export":
                assert not {"409", "412", "413", "415", "507"} & {*described["responses"]}, described["operationId"]


@pytest.fixture(scope="module")
def written():
    return http_document.written()


@pytest.mark.parametrize("file", [http_document.EXAMPLES, http_document.DOCUMENT], ids=["examples", "document"])
def test_the_files_are_up_to_date(file, written):
    """An operation that has no example yet needs a call in the `STORY` of scripts/http_document.py."""
    assert file.read_text() == written[file], "run: python scripts/http_document.py"


def test_every_operation_has_an_example():
    assert {*openapi.recorded()} == {*http_document.operations()}, "add a call to STORY in scripts/http_document.py"


async def test_every_example_is_answered_as_the_document_says(url, document):
    """Carried out on each engine; nothing that the document does not know may be in an answer."""
    closed = _closed(document)
    for name, said in (await http_document.examples(url)).items():
        method, path = http_document.operations()[name].http.split()
        described = closed["paths"][path][method.lower()]
        content = described["responses"][str(said["status"])]["content"]["application/json"]
        validator(content["schema"], closed).validate(said["answer"])
        if "requestBody" in described:
            asked = {key: value for key, value in said["arguments"].items() if f"{{{key}}}" not in path}
            validator(described["requestBody"]["content"]["application/json"]["schema"], closed).validate(asked)


def test_every_example_of_a_problem_is_as_its_schema_says(document):
    for answered in document["components"]["responses"].values():
        content = answered["content"]["application/problem+json"]
        validator(content["schema"], document).validate(content["example"])


def _closed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with schemas that allow nothing beyond what they name."""

    def close(part: Any) -> Any:
        if isinstance(part, list):
            return [close(each) for each in part]
        if not isinstance(part, dict):
            return part
        closed = {name: close(each) for name, each in part.items()}
        is_record = part.get("type") == "object" and "properties" in part
        return {"additionalProperties": False, **closed} if is_record else closed

    return close({name: document[name] for name in ("paths", "components")})


def validator(schema: dict[str, Any], document: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})
