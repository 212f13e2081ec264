"""Conflicts between notes in words, for people."""

from tulving.domain.model import Settlement

WON = {
    "superseded": "the new note won",
    "kept": "the known note won",
    "merged": "both notes were merged",
    "rejected": "the new note was rejected",
}
WOULD_WIN = {
    "superseded": "the new note would win",
    "kept": "the known note would win",
    "merged": "both notes would be merged",
    "rejected": "the new note would be rejected",
}


def headline(settlement: Settlement) -> str:
    """What became of a conflict, or what waits for a person."""
    match settlement.status:
        case "held":
            return f"waits for you: {proposed(settlement)}"
        case "dismissed":
            return "dismissed: both notes stayed in use"
        case "reverted":
            return f"{WON[settlement.outcome]}, but that was reverted"
        case _:
            return WON[settlement.outcome]


def proposed(settlement: Settlement) -> str:
    """What accepting a held conflict would do."""
    if settlement.action == "keep":
        return WOULD_WIN["superseded" if settlement.winner_id == settlement.candidate_id else "kept"]
    return WOULD_WIN["merged" if settlement.action == "merge" else "rejected"]
