"""The OpenAPI document: valid, complete, up to date, and true: its examples are carried out."""

import re

import pytest
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
    assert described["description"] == describe(operation)
    assert described["security"] == [{"bearer": [operation.effect]}]
    told = {each["name"] for each in described["parameters"] if "name" in each}
    if "requestBody" in described:
        told |= {*described["requestBody"]["content"]["application/json"]["schema"]["properties"]}
    assert {each.name for each in parameters(operation)} <= told
    assert (f"{path}/batch" in document["paths"]) == bool(operation.batch)


def test_every_route_of_the_api_is_in_it(document):
    """A route that is not made from the registry needs a `Described` in `openapi.BY_HAND`."""
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in api.routes(MemoryModuleConfig(), None)  # pyright: ignore
        if route.path != "/v1/{rest:path}"
        for method in route.endpoint.methods
    }
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert served == told
