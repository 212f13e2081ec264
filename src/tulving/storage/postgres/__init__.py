"""The engine for many tenants and machines: PostgreSQL with pgvector."""
