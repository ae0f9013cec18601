"""Memory as tools of the Model Context Protocol: over HTTP at `/mcp`, over stdio, and as a bridge between.

The tools are defined once (`tools`); what they stand on is a `Backend`, of which there are two: the library in this
process (`served`), and another server's REST (`bridge`).
"""
