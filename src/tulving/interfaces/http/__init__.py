"""The MCP server over streamable HTTP: stateless, one JSON response to each request, access by token."""
