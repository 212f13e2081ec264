"""The embedded engine: one file, one writer with group commit, an exact vector cache."""
