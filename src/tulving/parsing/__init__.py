"""Untrusted text of language models, parsed into typed values. Nothing here raises on bad text: it is reported."""
