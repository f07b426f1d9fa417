"""The MCP server: what an AI agent may ask, with typed and short answers. It only reads.

Needs the extra `mcp`; nothing outside this package imports it before `unstuck mcp` is called.
"""
