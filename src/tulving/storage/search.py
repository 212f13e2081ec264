"""Candidates of several kinds in one snapshot."""

from collections.abc import Sequence

from tulving.storage.connection import Connection, LaneRequest, Lanes


def candidates(conn: Connection, requests: Sequence[LaneRequest]) -> list[Lanes]:
    """The lanes of each request, in the order of the requests."""
    return [conn.lanes(request) for request in requests]
