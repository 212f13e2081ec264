"""Lets synchronous functions wait for coroutines.

A transaction is a synchronous function, so that it is written once for both engines; PostgreSQL's driver is
asynchronous. The function runs in a greenlet: when it waits, control switches to the event loop, and back to the
greenlet with the result. No thread is involved.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from greenlet import getcurrent, greenlet

P = ParamSpec("P")
T = TypeVar("T")


async def run_waiting(function: Callable[Concatenate[Any, P], T], conn: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that may `wait`; returns its result."""
    runner = greenlet(function)
    awaited = runner.switch(conn, *args, **kwargs)
    while not runner.dead:
        try:
            value = await awaited
        except BaseException as error:
            awaited = runner.throw(error)
        else:
            awaited = runner.switch(value)
    return awaited


def wait(awaited: Awaitable[T]) -> T:
    """The result of a coroutine; only inside `run_waiting`."""
    return getcurrent().parent.switch(awaited)  # pyright: ignore[reportOptionalMemberAccess]
