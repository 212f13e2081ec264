"""`tulving token`: who may use this memory over HTTP."""

import asyncio
import secrets
from typing import Annotated, Any

import typer

from tulving.domain.access import RIGHTS, SECRET_PREFIX
from tulving.interfaces.terminal import AsJson, print_json, visible
from tulving.interfaces.wire import wire

HINT = """\
It is shown only this once. Over HTTP it goes into a header; for Claude Code, with the address of your server:

  claude mcp add --transport http tulving http://127.0.0.1:8321/mcp --header "Authorization: Bearer {secret}"
"""


def new_secret() -> str:
    """256 bits that nobody can guess."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def create(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="What people call it: claude on my laptop")] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who acts, in the audit trail [default: its name]")
    ] = None,
    rights: Annotated[
        str, typer.Option(metavar="LIST", help=f"What it may do, of {', '.join(RIGHTS)}", show_default=True)
    ] = ",".join(RIGHTS),
    expires: Annotated[
        float | None, typer.Option(metavar="DAYS", help="After how many days it ends [default: never]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token for a tenant (--tenant before the command) and show its secret, this once."""
    secret = new_secret()
    asked = [right.strip() for right in rights.split(",")]

    async def add() -> Any:
        async with context.obj.administer(stores=True, may_reembed=True) as store:
            return await store.create_token(secret, name=name, actor=actor, rights=asked, days=expires)

    token = asyncio.run(add())
    if as_json:
        print_json({**wire(token), "secret": secret})
        return
    until = f", until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else ""
    typer.echo(f"created token {token.id} for the tenant {visible(token.tenant_id)}: {', '.join(token.rights)}{until}")
    typer.echo(f"\n  {secret}\n\n{HINT.format(secret=secret)}")


def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tokens of the store, of all tenants or of the one that --tenant names."""
    from tulving.bootstrap import utc_now

    async def read() -> Any:
        async with context.obj.administer(may_reembed=True) as store:
            return await store.list_tokens()

    now, chosen = utc_now(), context.obj.tenant
    tokens = [token for token in asyncio.run(read()) if chosen in (None, token.tenant_id)]
    if as_json:
        print_json({"tokens": [{**wire(token), "state": token.state(now)} for token in tokens]})
        return
    if not tokens:
        typer.echo("no tokens")
        return
    from tulving.interfaces import show

    rows = [
        (
            str(token.id),
            token.tenant_id,
            token.name or "",
            token.actor or "",
            ", ".join(token.rights),
            token.state(now),
            f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never",
        )
        for token in tokens
    ]
    styles = {"active": "green", "expired": "yellow", "revoked": "red"}
    show.table(("id", "tenant", "name", "actor", "rights", "state", "expires"), rows, styles)


def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it")],
    as_json: AsJson = False,
) -> None:
    """Revoke a token; its next request is refused."""

    async def end() -> Any:
        async with context.obj.administer(may_reembed=True) as store:
            return await store.revoke_token(token)

    revoked = asyncio.run(end())
    if as_json:
        print_json(wire(revoked))
    else:
        typer.echo(f"revoked token {revoked.id}")
