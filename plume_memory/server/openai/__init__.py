"""OpenAI's protocol: chat completions, stateless responses, models. Clients find things where they look."""
