"""Adapters to other frameworks. Each module needs the package of its framework, and nothing else imports them."""
