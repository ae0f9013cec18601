"""Who calls: from an Authorization header to a tenant and what he may do. Knows no memory."""

from dataclasses import dataclass

from plume_memory.defaults import DEFAULT_TENANT, SCOPES
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.settings import ServerSettings
from plume_memory.store.keys import Keys

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from."""

    key_id: str | None
    """None without a key."""
    tenant: str
    scopes: frozenset[str]
    memory: str | None
    """The public id of the one memory he may name."""
    writes: bool
    """Whether what his users say in a chat is written where a call does not say."""

    def may(self, scope: str) -> bool:
        """Tell whether he has a scope."""
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: str) -> None:
        """Refuse who has not a scope.

        Raises:
            Refused: 403. It says nothing of any memory: the scope is asked for before one is looked up.
        """
        if not self.may(scope):
            raise Refused(Problem(403, "forbidden", f"This key has not the scope {scope!r}; make one that has."))

    def check_unbound(self) -> None:
        """Refuse a key of one memory what concerns others.

        Raises:
            Refused: 403.
        """
        if self.memory is not None:
            raise Refused(Problem(403, "forbidden", "This key is for one memory, and this would be about another."))


LOCAL = Caller(None, DEFAULT_TENANT, frozenset(SCOPES) - {"act-as"}, None, writes=False)
"""Whoever is on this machine, as long as no key was ever made."""


def caller_of(keys: Keys, settings: ServerSettings, *, authorization: str, host: str, origin: str | None) -> Caller:
    """Return who sent a request.

    Args:
        keys: of the database.
        settings: whether a key is needed from the start.
        authorization: the header; empty without one. What is no key of ours, as the word that OpenAI's clients must
            send, counts as none.
        host: the header.
        origin: the header; a browser sends it for another site's page.

    Raises:
        Refused: 401 without a key that opens anything; 403 for a page of another site.
    """
    scheme, _, secret = authorization.partition(" ")
    secret = secret.strip() if scheme.lower() == "bearer" else ""
    if secret.startswith("plk_"):
        key = keys.authenticate(secret)
        if key is None:
            raise unauthorized("This key opens nothing: it is unknown, revoked or expired.")
        return Caller(key.id, key.tenant, key.scopes, key.memory, key.writes)
    if settings.needs_key or keys.any_made():
        raise unauthorized("Send a key: `Authorization: Bearer plk_…`. `plume keys create` makes one.")
    if settings.local_only and not (is_local(host) and (origin is None or is_local(origin.partition("://")[2]))):
        raise Refused(
            Problem(403, "forbidden", "Without a key only this machine's own programs are served: make one, send it.")
        )
    return LOCAL


def unauthorized(detail: str) -> Refused:
    """Return the refusal of who has no key."""
    return Refused(Problem(401, "unauthorized", detail))


def is_local(host: str) -> bool:
    """Tell whether a host, perhaps with a port, is this machine by a name that nobody else can give to another."""
    name = host.rpartition(":")[0] if not host.endswith("]") and host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower() in _LOCAL_NAMES
