"""Over HTTP: the API, a route for each operation, and the MCP server, stateless. Access is by token."""
