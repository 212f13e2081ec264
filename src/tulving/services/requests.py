"""What every change goes through: secrets are screened, and a repeated request takes effect once."""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, TypeVar

from tulving import storage
from tulving.domain import intake
from tulving.domain.model import Stored
from tulving.domain.screening import Finding, Screen
from tulving.services.service import Service, log

Verb = TypeVar("Verb", bound=Callable[..., Awaitable[Any]])


def once(verb: Verb) -> Verb:
    """Decorates a verb that makes its change through one `_write_once`. If the caller has an idempotency key, the
    answer is committed with the change, and the same call again returns it without any effect.

    The same key with other arguments is refused. Before anything else sees the arguments, secrets in them are redacted
    or refused; the answer's warning says so, or the log.
    """
    signature = inspect.signature(verb)
    names = list(signature.parameters)[1:]

    @wraps(verb)
    async def screened(self: Service, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) < len(args) + len(kwargs):
            signature.bind(self, *args, **kwargs)  # raises
        screen = self._env.screen
        said, found = screen.arguments(given)
        answer = await done_once(self, **said)
        return _warned(verb.__name__, answer, found, screen) if found else answer

    async def done_once(self: Service, *args: Any, **kwargs: Any) -> Any:
        if self.caller.idempotency_key is None:
            return await verb(self, *args, **kwargs)
        request = storage.requests.Request(
            self.caller.tenant_id,
            _digest([self.caller.actor, self.bound.owner.key]),
            verb.__name__,
            self.caller.idempotency_key,
            _fingerprint(self, signature.bind(self, *args, **kwargs)),
            self._env.clock(),
        )
        try:
            await self._read(storage.requests.check, request)
            return await verb(type(self)(self._env, self.caller, self.bound, request, self._session), *args, **kwargs)
        except storage.requests.Answered as before:
            return before.answer

    return screened  # pyright: ignore[reportReturnType]


def _warned(verb: str, answer: Any, found: Sequence[Finding], screen: Screen) -> Any:
    """The answer with a warning of what was found; the log has it where the answer has no room."""
    if isinstance(answer, list):
        each = ([one for one in found if one.offer == place] for place in range(len(answer)))
        return [_warned(verb, one, theirs, screen) for one, theirs in zip(answer, each, strict=True)]
    if not found:
        return answer
    if isinstance(answer, Stored):
        return replace(answer, warning="; ".join(filter(None, (answer.warning, screen.warning(found)))))
    log.warning("%s %s", verb, screen.warning(found))
    return answer


def _fingerprint(service: Service, call: inspect.BoundArguments) -> str:
    """Equal for calls with the same arguments for the same owner."""
    call.apply_defaults()
    asked = {name: value for name, value in call.arguments.items() if value is not service}
    return _digest([_plain(service.bound), _plain(asked)])


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode(errors="surrogatepass")).hexdigest()


def _plain(value: Any, depth: int = 0) -> Any:
    """As JSON values. Deeper nesting and larger numbers than any verb accepts need not be distinguished."""
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return value if abs(value) < 10**intake.MAX_DIGITS else "a large number"
        case _ if depth > 2 * intake.MAX_DEPTH:
            return "more"
        case Mapping():
            parts = sorted(value.items(), key=lambda part: str(part[0]))
            return [[str(name), _plain(inner, depth + 1)] for name, inner in parts]
        case list() | tuple():
            return [_plain(inner, depth + 1) for inner in value]
        case _ if is_dataclass(value):
            return [_plain(getattr(value, field.name), depth + 1) for field in fields(value)]
    return str(value)
