"""The HTTP server: OpenAI's protocol and memory's own REST on one port. The extra `server` installs what it needs."""
