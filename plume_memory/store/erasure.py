"""Removes a text, or a part of one, from the log for good, and proves it: `forget(…, erase=True)` comes here.

One transaction does it in the log. To the memory, and to every memory of the database that holds a copy of the row
(forks, imports), a version of kind `erase` is appended, which names the update and vouches for what is left of it;
the row loses the text, its metadata and its idempotency key, which may quote it, and is marked. Number, time, kind
and all hashes stay, so the chain verifies before and after. Then purge.py deletes what was derived and the bytes
the database has freed.

What stays, and is said in the certificate: text_sha256, with which a short text can be guessed, the easier the more
of it is left. It is not salted: the hash was fixed, and chained, when the text was written. So does the sha256 of the
idempotency key, in what the erase vouches with: a call that is sent again must not bring the text back.
"""

import json
from typing import Any, NamedTuple
from unicodedata import normalize

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import InvalidInput, StoreUnavailable
from plume_memory.records import ErasedText, ErasureCertificate, Span, Version
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import canonical_json, sha256_of, vouching
from plume_memory.store.checks import check_name, check_text
from plume_memory.store.copies import Copy, copies_of, lock_copies
from plume_memory.store.database import Database
from plume_memory.store.entries import KEY_SHA256, Clock, Entry, check_expected, insert_entry, repeated
from plume_memory.store.journaled import erase_item
from plume_memory.store.log import utc_now
from plume_memory.store.memories import FoundMemory, find_memory, not_found
from plume_memory.store.overruling import context_of
from plume_memory.store.purge import Unfinished, finish, secure_deletes, unfinished
from plume_memory.store.reading import VERSION_COLUMNS, erasures_of, to_version
from plume_memory.store.sources import Source, adopt_unsourced
from plume_memory.store.spans import original, shifted, without
from plume_memory.store.tables import IS_ERASURE, UnfinishedErasureRow, VersionRow
from plume_memory.store.targets import Target, Wanted, erase_target, is_in, is_repeated, wanted
from plume_memory.store.verifying import check_row

LIMITS = (
    "The sha256 of the erased text, and of its idempotency key, stay in the log: whoever guesses a short text, the "
    "missing part of a text of which the rest is left, or the key, can confirm the guess with it.",
    "Backups, replicas, PostgreSQL's archived write-ahead log, snapshots of the file system and exported archives or "
    "adapters made earlier are not reached.",
    "PostgreSQL's live write-ahead log (pg_wal) holds the text until the server has recycled its files; of a database "
    "upgraded from schema 0002 or older, so may dead rows of pg_statistic until that table is vacuumed.",
    "Artifacts were deleted in one place, artifacts_place; a process that opened this memory with another place kept "
    "its own there.",
    "What a process was writing to artifacts_place when it was killed, in the ten minutes before or while the erasure "
    "passed by, is deleted by a later erasure only: a file .tmp-*, or an artifact noted for this memory.",
    "Other processes may hold the text in memory until they next read this memory, or end, but for those that "
    "confirmed_by counts, in which an answer begun before may still be running; a Snapshot object that a "
    "caller holds, in any process, keeps answering from it.",
    "Answers that a program keeps elsewhere, such as LangChain's cache or checkpoints, hold what they said: clear it; "
    "get_llm_cache().clear() empties the former.",
    "Tables of other programs in the same database are not searched; of the LangChain store's journal the items are "
    "deleted whose texts the erased updates were (journal_items), if it lies in the same database.",
    "Versions listed under still_said_by hold the same words in a text, metadata or key of their own; none are listed "
    "when an erasure is asked about again by its version, span or key: its words are gone, so nothing was searched.",
)


class _Erased(NamedTuple):
    """What one transaction did, or an earlier one had done."""

    version: Version
    """The erase that was appended to the memory."""
    texts: tuple[ErasedText, ...]
    memory_ids: frozenset[int]
    still_said_by: tuple[int, ...]
    journal_items: int = 0


class Erasures:
    """Erases texts of one database's memories.

    Args:
        database: where the log is.
        artifacts: where what was derived is.
        clock: the time of an append; aware.
    """

    def __init__(self, database: Database, artifacts: ArtifactStore, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def erase(
        self,
        memory: str,
        version: int | None = None,
        *,
        text: str | None = None,
        span: tuple[int, int] | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> ErasureCertificate:
        """Erase an update's text, or a part of it, everywhere in the database, whether or not it still holds.

        A call that was killed is completed by repeating it. An update whose text is erased already gives its
        certificate again, without the artifacts. A span counts in the text as it is now: repeated after it was
        completed it means another part, so it is taken with `expected_version` or a key only. Words are known again
        by what was erased, unless they reached across a forgotten part or more of the text was erased since.

        Args:
            memory: Name of the memory.
            version: The update whose text is to be erased.
            text: Exact words instead, which must stand in one place of the whole log; with a version, of its text.
            span: The part of the version's text: first character and one past the last.
            reason: Kept in the appended version's metadata; must not repeat what is erased.
            idempotency_key: The same key with the same target is one erasure; must not repeat what is erased.
            expected_version: Erase only if this is the newest version.

        Raises:
            VersionNotFound: If there is no such version.
            InvalidInput: If it is no update, the words stand nowhere or in several places, the reason or key
                repeats them, or a span comes with neither `expected_version` nor a key.
            IntegrityError: If a row that holds the text does not fit its hashes: what is vouched for must be so.
            MemoryNotFound: If there is no such memory.
            VersionConflict: If the head is another than expected.
            IdempotencyConflict: If the key was used for something else, or for words that cannot be compared now.
            StoreUnavailable: If nothing was erased; or if it was, and the freed bytes could not be removed: the
                message says so, and a repeated call goes on from there.
            ArtifactError: If an artifact could not be deleted; a repeated call goes on from there.
        """
        check_name(memory)
        if idempotency_key is not None:
            check_name(idempotency_key, what="An idempotency key")
        asked = wanted(version, text=text, span=span)
        if asked.span is not None and idempotency_key is None and expected_version is None:
            raise InvalidInput(
                f"Memory {memory!r}: the erasure of span {span!r} could not be repeated safely: once it is done, the "
                "same span is another part of the text. Give expected_version or idempotency_key with it, or the "
                "words themselves: text=, with the version."
            )
        metadata = None if reason is None else {"reason": check_text(reason, what="A reason")}
        entry = Entry("erase", "", None, None, metadata, idempotency_key, expected_version, asked=asked)
        interrupted = unfinished(self._database)
        sources = finish(self._database, self._artifacts)
        try:
            done = self._database.transact(lambda connection: self._erase(connection, memory, entry, interrupted))
        except exc.IntegrityError as err:
            raise StoreUnavailable(
                f"Memory {memory!r}: nothing was erased, the database refused ({err.orig})."
            ) from err
        sources += finish(self._database, self._artifacts)
        return self._certificate(memory, done, sources)

    def _certificate(self, memory: str, done: _Erased, sources: tuple[Source, ...]) -> ErasureCertificate:
        return ErasureCertificate(
            memory=memory,
            version=done.version.number,
            reason=done.version.metadata.get("reason"),
            erased=done.texts,
            artifacts=tuple(sorted({each.sha256 for each in sources if each.memory_id in done.memory_ids})),
            artifacts_place=self._artifacts.shown,
            still_said_by=done.still_said_by,
            journal_items=done.journal_items,
            rebuilt=(),
            erased_at=done.version.created_at,
            limits=(*LIMITS, *self._artifacts.unreached()),
        )

    def _erase(self, connection: sa.Connection, memory: str, entry: Entry, interrupted: list[Unfinished]) -> _Erased:
        assert entry.asked is not None, "erase() names a target"
        # 1. Nobody copies or appends meanwhile.
        lock_copies(connection, exclusive=True)
        secure_deletes(connection)
        found = find_memory(connection, memory, lock=True)
        if found is None:
            raise not_found(memory)
        # 2. A repeated call, and one that was interrupted, is answered before anything is expected of the head.
        known = repeated(connection, found, entry) or _resumed(connection, found, entry, entry.asked, interrupted)
        if known is not None:
            return _described(connection, found, known)
        check_expected(found, entry.expected_version)
        target = erase_target(connection, found, entry.asked)
        gone = _version(connection, found, target.version)
        if not gone.text:
            return _described(connection, found, _version(connection, found, gone.erased_by or 0))
        words = gone.text if target.span is None else gone.text[target.span.start : target.span.end]
        _check_not_repeated(found, words, entry)
        # 3. The row, and every copy of it.
        adopt_unsourced(connection, found.id)
        return self._erase_copies(connection, found, gone, target, entry, words)

    def _erase_copies(
        self, connection: sa.Connection, found: FoundMemory, gone: Version, target: Target, entry: Entry, words: str
    ) -> _Erased:
        copies = copies_of(connection, gone.number, gone.chain_hash)
        copies.sort(key=lambda copy: copy.memory.id != found.id)  # stable: the memory's own row first
        # All of them before any row changes: where a part lies in a copy follows from what was erased until now.
        spans = [target.span and _span_in_copy(connection, found, copy, gone.number, target.span) for copy in copies]
        texts: list[ErasedText] = []
        versions: list[Version] = []
        rows = [check_row(connection, copy.memory, gone.number) for copy in copies]
        for copy, row, span in zip(copies, rows, spans, strict=True):
            if not copy.text or (span is not None and span.start == span.end):
                continue  # an import from before, of which this was erased already
            like = entry if copy.memory.id == found.id else Entry("erase", "", None, None, None, None, None)
            version = self._erase_row(connection, copy, row, span, like)
            versions.append(version)
            texts.append(_erased_text(gone, version))
        still = said_by(connection, found, gone.number, words)
        items = erase_item(connection, gone, without(gone.text, target.span))
        return _Erased(versions[0], tuple(texts), frozenset(copy.memory.id for copy in copies), still, items)

    def _erase_row(
        self, connection: sa.Connection, copy: Copy, gone: VersionRow, span: Span | None, entry: Entry
    ) -> Version:
        """Append the erase that vouches, then take the text: the trigger asks for this order."""
        left = without(copy.text, span)
        vouched = vouching(
            created_at=gone.created_at, text_sha256=gone.text_sha256, chain_hash=gone.chain_hash, left=left
        )
        if gone.idempotency_key is not None:
            vouched[KEY_SHA256] = sha256_of(gone.idempotency_key)
        metadata_json = canonical_json({**(entry.metadata or {}), "erased": vouched})
        entry = entry._replace(forgets=gone.number, span=span)
        version = insert_entry(connection, copy.memory, entry, metadata_json, self._clock)
        row = sa.update(VersionRow).where(VersionRow.memory_id == copy.memory.id, VersionRow.number == gone.number)
        emptied = row.values(text=left, metadata_json="{}", idempotency_key=None, erased_by=version.number)
        connection.execute(emptied)
        connection.execute(sa.insert(UnfinishedErasureRow).values(memory_id=copy.memory.id, number=version.number))
        return version


def _resumed(
    connection: sa.Connection, found: FoundMemory, entry: Entry, asked: Wanted, interrupted: list[Unfinished]
) -> Version | None:
    """Return the erasure that an interrupted call for the same target had written to the log; None for a new call."""
    for number in sorted((row.number for row in interrupted if row.memory_id == found.id), reverse=True):
        version = _version(connection, found, number)
        if not is_repeated(connection, found, asked, version):
            continue
        if asked.span is not None and entry.expected_version != number - 1:
            continue  # the same place in what was left: another part (a key would have been known by now)
        if asked.words is not None:
            there = sa.select(VersionRow.number).where(VersionRow.memory_id == found.id)
            if connection.execute(there.where(is_in(connection, asked.words, VersionRow.text))).first() is not None:
                continue  # they came again since
        return version
    return None


def _described(connection: sa.Connection, found: FoundMemory, version: Version) -> _Erased:
    """Read from the log what an earlier erasure did, in every copy."""
    gone = _version(connection, found, version.forgets or 0)
    copies = copies_of(connection, gone.number, gone.chain_hash)
    texts = [_erased_text(gone, version)]
    query = sa.select(*VERSION_COLUMNS).where(IS_ERASURE, VersionRow.forgets == gone.number)
    for copy in copies:
        if copy.memory.id == found.id:
            continue
        rows = connection.execute(query.where(VersionRow.memory_id == copy.memory.id).order_by(VersionRow.number))
        same = [to_version(copy.memory.name, row) for row in rows]
        texts += [_erased_text(gone, one) for one in same if _left(one) == _left(version)][:1]
    return _Erased(version, tuple(texts), frozenset(copy.memory.id for copy in copies), ())


def _version(connection: sa.Connection, found: FoundMemory, number: int) -> Version:
    query = sa.select(*VERSION_COLUMNS).where(VersionRow.memory_id == found.id, VersionRow.number == number)
    return to_version(found.name, connection.execute(query).one())


def _span_in_copy(connection: sa.Connection, found: FoundMemory, copy: Copy, number: int, span: Span) -> Span:
    """Return where a part lies in a copy, of which more or less may have been erased before it was imported."""
    own, other = (
        [cut.span for cut in erasures_of(connection, memory_id, number).get(number, [])]
        for memory_id in (found.id, copy.memory.id)
    )
    if own == other:
        return span
    there = original(span, own)
    for gone in other:
        there = shifted(there, gone)
    return there


def _check_not_repeated(found: FoundMemory, words: str, entry: Entry) -> None:
    """Refuse to write down again what is to be erased."""
    said: dict[str, Any] = {"reason": (entry.metadata or {}).get("reason"), "idempotency key": entry.idempotency_key}
    for what, value in said.items():
        if value is not None and words.strip() and normalize("NFC", words.strip()) in normalize("NFC", value):
            raise InvalidInput(
                f"Memory {found.name!r}: the {what} repeats the words to be erased, and would keep them in the log: "
                "say it in other words."
            )


def said_by(connection: sa.Connection, found: FoundMemory, gone: int, words: str) -> tuple[int, ...]:
    """Return the versions beside `gone` that hold the same words, or quote some of them as what they answer."""
    words = words.strip()
    if not words:
        return ()
    in_json = json.dumps(words)[1:-1]
    query = sa.select(VersionRow.number).where(
        VersionRow.memory_id == found.id,
        VersionRow.number != gone,
        sa.or_(
            is_in(connection, words, VersionRow.text),
            is_in(connection, in_json, VersionRow.metadata_json),
            is_in(connection, words, VersionRow.idempotency_key),
        ),
    )
    found_in = set(connection.execute(query).scalars())
    answering = sa.select(VersionRow.number, VersionRow.metadata_json).where(
        VersionRow.memory_id == found.id,
        VersionRow.number != gone,
        is_in(connection, '"in_answer_to"', VersionRow.metadata_json),
    )
    erased = " ".join(words.split())
    for number, metadata_json in connection.execute(answering):
        asked = context_of(metadata_json).in_answer_to
        found_in |= {number} if asked and " ".join(asked.split()) in erased else set()
    return tuple(sorted(found_in))


def _left(version: Version) -> str:
    left: str = version.metadata["erased"]["left_sha256"]
    return left


def _erased_text(gone: Version, erase: Version) -> ErasedText:
    return ErasedText(
        memory=erase.memory,
        version=gone.number,
        span=erase.span,
        erased_by=erase.number,
        text_sha256=gone.text_sha256,
        left_sha256=_left(erase),
        chain_hash=gone.chain_hash,
    )
