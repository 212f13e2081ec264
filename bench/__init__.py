"""Benchmarks: what Tulving costs beside the plain SQLite, PostgreSQL and numpy work that it can't do without."""
