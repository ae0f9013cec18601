"""The chat model that a name on the command line means: LangChain's `init_chat_model`, at temperature 0."""

import os
import sys
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from langchain_core.language_models import BaseChatModel

from plume_memory.errors import InvalidInput, MissingExtra

TEMPERATURE = 0
MAX_TOKENS = 300
_CLIENTS = (("openai", "OpenAIError"), ("anthropic", "AnthropicError"))
"""Packages of providers with errors of their own, raised for a missing key among other things."""


def open_judge(name: str, url: str | None = None) -> BaseChatModel:
    """A judge with METHOD's limit on its words; see `open_chat_model`."""
    return open_chat_model(name, url, option="--judge-model", max_tokens=MAX_TOKENS)


def open_chat_model(name: str, url: str | None = None, *, option: str, max_tokens: int) -> BaseChatModel:
    """Make a chat model.

    Args:
        name: `provider:model`, or a model name from which LangChain infers the provider.
        url: of an OpenAI-compatible server; the provider is then `openai` unless the name says another. Without
            OPENAI_API_KEY in the environment a placeholder is sent, since such servers often ask for none.
        option: where the name was given; for messages.
        max_tokens: longest reply.

    Raises:
        MissingExtra: LangChain or the provider's package is not installed.
        InvalidInput: no such provider, or its client does not start as configured (a key is missing, …).
    """
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
    except ImportError as err:
        raise MissingExtra(f"{option} {name} needs LangChain: pip install 'plume-memory[langchain]'.") from err
    options: dict[str, Any] = {"temperature": TEMPERATURE, "max_tokens": max_tokens}
    if url is not None:
        options["base_url"] = url
        if ":" not in name:
            options["model_provider"] = "openai"
        if "OPENAI_API_KEY" not in os.environ and (":" not in name or name.startswith("openai:")):
            options["api_key"] = "none"
    try:
        made: BaseChatModel = init_chat_model(name, **options)
    except ImportError as err:
        missing = getattr(err.__cause__ or err, "name", None) or "the provider's package"
        package = missing.partition(".")[0].replace("_", "-")
        raise MissingExtra(f"{option} {name} needs another package: pip install {package}.") from err
    except ValueError as err:
        raise _unusable(f"{option} {name}", err) from err
    except _client_errors() as err:
        raise _unusable(f"{option} {name}", err) from err
    return made


def without_secrets(url: str) -> str:
    """The URL without user, password and query: it names a server in files that are passed on."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _unusable(asked: str, err: Exception) -> InvalidInput:
    return InvalidInput(f"{asked} cannot be used: {str(err).strip().splitlines()[0]}")


def _client_errors() -> tuple[type[Exception], ...]:
    """Evaluated when an error is met: of the clients that are loaded by then."""
    return tuple(getattr(sys.modules[package], name) for package, name in _CLIENTS if package in sys.modules)
