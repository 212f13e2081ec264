"""Benchmarks: what Tulving costs beside the plain SQLite and numpy work that it can't do without."""
