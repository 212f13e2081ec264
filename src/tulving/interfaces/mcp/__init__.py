"""The MCP server: the operations as tools, over standard input and output."""
