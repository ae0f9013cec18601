"""What a process that begins to serve can know of the others on its PostgreSQL database: their clocks and engines.

Each tells the others what it answers with by the name of the connection that it listens on (announcing.py): no table
of processes, and one that dies is gone from the list with its connection.
"""

import hashlib
import json
import logging
from datetime import UTC, datetime

from plume_memory.errors import ModelError, StoreUnavailable
from plume_memory.store.announcing import LISTENER, Listener
from plume_memory.store.database import Database

_LOGGER = logging.getLogger(__name__)
MOST_SKEW_S = 60.0
"""What expires, and "yesterday", may be wrong by so much."""
_ASKED_CHARS, _MADE_CHARS = 8, 16
_PEERS = (
    f"SELECT DISTINCT application_name FROM pg_stat_activity WHERE application_name LIKE '{LISTENER} %%' "
    "AND datname = current_database()"
)


def check_clock(database: Database) -> None:
    """Refuse to serve by a clock that is not the database's. The order of versions is the log's, and needs none.

    Raises:
        StoreUnavailable: they are further apart than `MOST_SKEW_S`, or the database cannot be asked.
    """
    if not database.is_shared:
        return
    before = datetime.now(UTC)
    with database.read() as connection:
        theirs = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one().astimezone(UTC)
    after = datetime.now(UTC)
    skew = max((before - theirs).total_seconds(), (theirs - after).total_seconds())
    if skew > MOST_SKEW_S:
        raise StoreUnavailable(
            f"This machine's clock and that of {database.url} are {skew:.0f} s apart, {before.isoformat()} here: keys "
            f"and updates would expire at other times on each replica. Set both by NTP; up to {MOST_SKEW_S:.0f} s "
            "is let pass."
        )


def kind_of(asked: list[str], made: str) -> str:
    """Return a short name of an engine.

    Args:
        asked: what settings name: release, model, network.
        made: fingerprint of what came of it.
    """
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    return f"{digest[:_ASKED_CHARS]}-{made[:_MADE_CHARS]}"


def check_peers(database: Database, listener: Listener, kind: str) -> None:
    """Tell the others what this process answers with, unless one of the same name answers otherwise.

    Others that were asked for another model are let be, and logged: so is a new release or model brought in, replica
    by replica. Who is refused has told nothing, and of two that begin at once one is.

    Args:
        database: of all of them.
        listener: this process's.
        kind: see `kind_of`.

    Raises:
        ModelError: a process with the same settings answers with another model, network or policy.
        StoreUnavailable: the others could not be told or looked for.
    """
    if not database.is_shared:
        return
    if rivals := _rivals(database, kind):
        raise _two_answers(database, kind, rivals)
    listener.tell(kind)
    rivals = _rivals(database, kind)
    if rivals and min(rivals) < kind:
        listener.tell("")
        raise _two_answers(database, kind, rivals)


def _rivals(database: Database, kind: str) -> list[str]:
    """Other kinds of the same name that processes on a database answer with; those of other names are logged."""
    with database.read() as connection:
        found = {name.removeprefix(f"{LISTENER} ") for (name,) in connection.exec_driver_sql(_PEERS)}
    others = sorted(found - {kind, ""})
    if others:
        _LOGGER.warning("Other processes on this database answer with another model or release: %s", ", ".join(others))
    asked = kind.partition("-")[0]
    return [other for other in others if other.startswith(f"{asked}-")]


def _two_answers(database: Database, kind: str, rivals: list[str]) -> ModelError:
    return ModelError(
        f"Another process on {database.url} has the same model and network by name, and other weights or another "
        f"policy ({', '.join(rivals)}; here {kind}): one memory would have two answers. Give both the same folders or "
        "a fresh cache (PLUME_CACHE); bring new weights in under a new name, or end the others first."
    )
