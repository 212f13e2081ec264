"""The HTTP server: the API with a route for each operation, MCP without sessions, metrics and health."""
