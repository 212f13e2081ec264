"""Tokens: who may use this store over a network, and with which rights."""

from starlette.responses import Response

from tulving.domain.access import ALL_RIGHTS, RIGHTS, NewToken
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields
from tulving.interfaces.console.visit import Page, Visit

PATH = "/console/tokens"
MEANS = {
    "read": "search and read memories",
    "write": "store and change memories",
    "destroy": "forget and delete memories",
    "review": "decide on what models propose",
    "admin": "administer the whole store, with all its tenants",
}
LIMITS = {
    "requests_per_minute": "counted by each server",
    "model_tokens_per_day": "spent by language models",
    "largest_body": "bytes of a request",
}
"""What a token may have limits of its own for; as the server is configured, if it has none."""


async def show(visit: Visit) -> Response:
    """The tokens, the newest first, and a form for a new one."""
    return await _page(visit)


async def create(visit: Visit) -> Response:
    """Make a token and show its secret, this once."""
    form = await visit.form()
    given = {name: fields.text(form, name) for name in ("name", "actor", "tenant", "days", *LIMITS)}
    rights = [str(each) for each in form.getlist("rights")]
    try:
        made = await visit.call(
            "memory_create_token",
            name=given["name"] or None,
            actor=given["actor"] or None,
            rights=rights,
            days=fields.number(given, "days"),
            tenant_id=given["tenant"] or None,
            **{name: fields.whole(given, name) for name in LIMITS},
        )
    except InvalidInput as error:
        return await _page(visit, given={**given, "rights": rights}, problem=fields.problem(error))
    return await _page(visit, made=made)


async def revoke(visit: Visit) -> Response:
    """Refuse a token from now on."""
    token = await visit.call("memory_revoke_token", token_id=visit.request.path_params["id"])
    return visit.go(PATH, f"Revoked {token.name or token.actor or token.id}. Its next request is refused.")


async def _page(
    visit: Visit, given: dict[str, object] | None = None, problem: str = "", made: NewToken | None = None
) -> Response:
    tenant = visit.query.get("tenant") or None
    tokens = [*reversed(await visit.call("memory_tokens", tenant_id=tenant))]
    own = visit.memory.caller.tenant_id
    empty = {"name": "", "actor": "", "tenant": tenant or own, "days": "90", "rights": RIGHTS}
    asked = empty | dict.fromkeys(LIMITS, "") | (given or {})
    return visit.render(
        "tokens.html",
        status=422 if problem else 200,
        tokens=tokens,
        tenant=tenant,
        asked=asked,
        problem=problem,
        made=made,
        limits=LIMITS,
        is_limited=any(asked[name] for name in LIMITS),
        rights={right: MEANS[right] for right in ALL_RIGHTS},
    )


PAGES = [
    Page("/tokens", show, right="admin"),
    Page("/tokens/new", create, ("POST",), "admin"),
    Page("/tokens/{id}/revoke", revoke, ("POST",), "admin"),
]
