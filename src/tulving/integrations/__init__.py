"""Adapters to other frameworks, each of which needs the package of its framework, and importers of other programs'
memories, which need none."""
