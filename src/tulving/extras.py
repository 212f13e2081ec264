"""The optional parts of an installation: what each extra brings, and what to say when it is missing."""

from importlib.util import find_spec

from tulving.errors import MissingExtra

EXTRAS = {
    "hnsw": ("usearch",),
    "mcp": ("mcp", "uvicorn"),
    "onnx": ("tokenizers",),
    "postgres": ("alembic", "asyncpg", "greenlet"),
    "server": ("mcp", "uvicorn", "jinja2", "jwt", "opentelemetry", "prometheus_client"),
}
"""The modules that only an extra installs."""


def is_installed(extra: str) -> bool:
    """Whether everything that an extra installs is there. Nothing is loaded."""
    return all(find_spec(module) for module in EXTRAS[extra])


def hint(extra: str) -> str:
    """How to install an extra."""
    return f"pip install 'tulving[{extra}]'"


def missing(extra: str, what: str) -> str | None:
    """What to say where `what` needs an extra that is not installed."""
    return None if is_installed(extra) else f"{what} needs the extra `{extra}`: {hint(extra)}"


def require(extra: str, what: str) -> None:
    """Refuse to go on where `what` needs an extra that is not installed."""
    if problem := missing(extra, what):
        raise MissingExtra(problem)
