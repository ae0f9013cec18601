"""Which replica a request is best answered by: a word that is hashed, made of what names its memory.

A replica that has answered about a memory holds its index, its factors and its sums. Any other replica gives the same
answer, later: affinity is for speed, and nothing that is right depends on it. Knows HTTP's parts and no Ray.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from plume_memory.server.naming import MEMORY_HEADER, MODEL
from plume_memory.server.page.sessions import COOKIE

MARK_CHARS = 8
AT = "at:"
"""Begins a word that names the replica itself, by its mark: it alone keeps what is asked for."""

_MEMORY = re.compile(r"(?:/v1)?/memories/([^/:]+)")
_KEPT = re.compile(r"/(?:v1/traces|answers)/trc_(\w{8})|/v1/operations/op_(\w{8})")
_VERSION = re.compile(r":\d{1,19}$")


def word_of(path: str, headers: Mapping[str, str], body: bytes) -> str:
    """Return the word that a request is routed by; empty where any replica will do.

    Args:
        path: of the URL, decoded.
        headers: in lower case.
        body: whole; read only where OpenAI's protocol may name a memory in it.
    """
    if (kept := _KEPT.match(path)) is not None:
        return AT + (kept.group(1) or kept.group(2))
    if not path.startswith(("/v1/", "/mcp")) and (session := _session(headers)) is not None:
        return AT + session[:MARK_CHARS]
    if (named := _MEMORY.match(path)) is not None:
        return named.group(1)
    if (name := headers.get(MEMORY_HEADER)) is not None:
        return name
    if path.startswith(("/v1/chat/", "/v1/responses")) and (name := _in_body(body)) is not None:
        return name
    if path.startswith(("/v1/chat/", "/v1/responses", "/mcp")) and (secret := headers.get("authorization")):
        return hashlib.sha256(secret.encode()).hexdigest()  # a key that is bound to one memory names it
    return ""


def _session(headers: Mapping[str, str]) -> str | None:
    """The page's cookie: sessions are kept by the replica that began them."""
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE and len(value) > MARK_CHARS:
            return value
    return None


def _in_body(body: bytes) -> str | None:
    """A memory that a body of OpenAI's protocol names; what is wrong in it the server says."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    plume, model = found.get("plume"), found.get("model")
    if isinstance(plume, dict) and isinstance(plume.get("memory"), str):
        return str(plume["memory"])
    if isinstance(model, str) and model.startswith(f"{MODEL}@"):
        return _VERSION.sub("", model.removeprefix(f"{MODEL}@"))
    return None
