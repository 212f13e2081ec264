"""`tulving token`: who may use this memory over HTTP."""

from datetime import datetime
from typing import Annotated

import typer

from tulving.domain.access import ALL_RIGHTS, RIGHTS, Token
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import moment, print_json, report, table
from tulving.interfaces.wire import wire

HINT = """\
It is shown only this once. Over HTTP it goes into a header; for Claude Code, with the address of your server:

  claude mcp add --transport http tulving http://127.0.0.1:8765/mcp --header "Authorization: Bearer {secret}"
"""


def create(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="What people call it: claude on my laptop")] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who acts, in the audit trail [default: its name]")
    ] = None,
    rights: Annotated[
        str, typer.Option(metavar="LIST", help=f"What it may do, of {', '.join(ALL_RIGHTS)}", show_default=True)
    ] = ",".join(RIGHTS),
    expires: Annotated[
        float | None, typer.Option(metavar="DAYS", help="After how many days it ends [default: never]")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(metavar="N", help="Requests per minute to each server [default: as configured]")
    ] = None,
    model_tokens_per_day: Annotated[
        int | None,
        typer.Option(metavar="N", help="Language model tokens per day [default: as configured]"),
    ] = None,
    largest_body: Annotated[
        int | None, typer.Option(metavar="BYTES", help="The largest request body [default: as configured]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token for a tenant (--tenant before the command) and show its secret, this once."""
    asked = [right.strip() for right in rights.split(",")]
    limits = {
        "requests_per_minute": requests_per_minute,
        "model_tokens_per_day": model_tokens_per_day,
        "largest_body": largest_body,
    }
    token = context.obj.administer(
        lambda store: store.create_token(name=name, actor=actor, rights=asked, days=expires, **limits), stores=True
    )
    until = f", until {moment(token.expires_at)}" if token.expires_at else ""
    report(
        wire(token),
        as_json,
        f"created token {token.id} for the tenant {token.tenant_id}: {', '.join(token.rights)}{until}",
        f"\n  {token.secret}\n\n{HINT.format(secret=token.secret)}",
    )


def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tokens of the store, of all tenants or of the one that --tenant names."""
    from tulving.bootstrap import utc_now

    now = utc_now()
    tokens = context.obj.administer(lambda store: store.list_tokens(context.obj.tenant))
    if as_json:
        print_json({"tokens": [{**wire(token), "state": token.state(now)} for token in tokens]})
        return
    headers = ("id", "tenant", "name", "actor", "rights", "state", "expires")
    styles = {"active": "green", "expired": "yellow", "revoked": "red"}
    table([_row(token, now) for token in tokens], headers, styles, empty="no tokens")


def _row(token: Token, now: datetime) -> tuple[str, ...]:
    until = f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never"
    named = token.tenant_id, token.name or "", token.actor or ""
    return str(token.id), *named, ", ".join(token.rights), token.state(now), until


def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it")],
    as_json: AsJson = False,
) -> None:
    """Revoke a token; its next request is refused."""
    revoked = context.obj.administer(lambda store: store.revoke_token(token))
    report(wire(revoked), as_json, f"revoked token {revoked.id}")
