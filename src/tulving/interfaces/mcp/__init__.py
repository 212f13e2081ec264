"""The MCP server: the operations as tools, and prompts and resources that are made of them."""
