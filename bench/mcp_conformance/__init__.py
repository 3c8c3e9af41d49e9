"""Runs the conformance suite of MCP against Knackbox, beside FastMCP."""
