"""Batch routes: many calls of a store verb in one request and one transaction, all or none."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.requests import Request

from tulving.errors import InvalidInput
from tulving.interfaces.http.arguments import check_headers, json_object
from tulving.interfaces.parameters import Parameter, accept, parameters
from tulving.services.memory import Memory
from tulving.services.operations import Operation

MOST_ITEMS = 1_000
_ALLOWED = f"a list of 1 to {MOST_ITEMS:,} objects"
_PLACE = re.compile(r"offers\[(\d+)\]\.?(\w*)(.*)", re.DOTALL)


@cache
def batched(operation: Operation) -> Operation:
    """The operation whose method takes a list of what this one takes once."""
    assert operation.batch is not None
    return replace(
        operation,
        method=getattr(Memory, operation.batch),
        http=f"{operation.http}/batch",
        answer="items",
        batch=None,
        fallback=None,
    )


def of_an_item(operation: Operation) -> list[Parameter]:
    """The parameters of an item: those of a single call, without those that are given once for the whole batch."""
    for_all = {each.name for each in parameters(batched(operation))}
    return [each for each in parameters(operation) if each.name not in for_all]


async def given(request: Request, operation: Operation, largest_body: int) -> dict[str, Any]:
    """The arguments of a batch. Its items are checked like single calls."""
    check_headers(request, batched(operation))
    body = await json_object(request, largest_body)
    items = body.pop("items", None)
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_ITEMS:
        had = f"has {len(items):,} entries" if isinstance(items, list) else "must be a list"
        raise InvalidInput("items", "is missing" if items is None else had, _ALLOWED)
    return {**accept(batched(operation), body), "offers": [_offer(operation, *each) for each in enumerate(items)]}


def _offer(operation: Operation, at: int, item: object) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"items[{at}]", "must be an object", _ALLOWED)
    for each in parameters(batched(operation)):
        if each.name in item:
            raise InvalidInput(f"items[{at}].{each.name}", "is given once for the whole batch", "a field beside items")
    try:
        taken = accept(operation, item)
    except InvalidInput as error:
        raise InvalidInput(f"items[{at}].{error.field}", error.problem, error.allowed) from None
    return {operation.batch_names.get(name, name): value for name, value in taken.items()}


def named(operation: Operation, error: InvalidInput, offers: Sequence[Mapping[str, Any]]) -> InvalidInput:
    """The error with the field named as in the request: `items[3].content`."""
    back = {offered: name for name, offered in operation.batch_names.items()}
    if place := _PLACE.fullmatch(error.field):
        at, name, rest = place.groups()
        return InvalidInput(
            f"items[{at}]{'.' if name else ''}{back.get(name, name)}{rest}", error.problem, error.allowed
        )
    # A batch of one, and the store, name the field without an index.
    name = re.split(r"\W", error.field, maxsplit=1)[0]
    of_item = f"{back.get(name, name)}{error.field[len(name) :]}"
    places = [at for at, offer in enumerate(offers) if name in offer] if len(offers) > 1 else [0]
    refused = [at for at in places if str(offers[at].get(name)).lower() in error.problem.lower()]
    match refused or places:
        case []:
            return error
        case [at]:
            return InvalidInput(f"items[{at}].{of_item}", error.problem, error.allowed)
        case _:
            return InvalidInput("items", f"{of_item} of one {error.problem}", error.allowed)
