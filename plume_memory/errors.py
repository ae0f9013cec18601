"""Every error a caller can meet, in one tree.

    PlumeError
    ├── InvalidInput            a value that no retry will make valid
    │   └── TextTooLong
    ├── MissingExtra            an optional package is not installed
    ├── ModelError
    │   ├── ModelNotFound
    │   ├── HubUnreachable
    │   ├── HashMismatch
    │   ├── MissingChatTemplate
    │   ├── UnknownArchitecture
    │   ├── ForkedEngine        a model used in a fork of the process that loaded it
    │   └── PromptTooLong
    ├── Busy                    more questions wait than are held
    ├── DeadlineExceeded        an answer was not decoded in the time given
    ├── Cancelled               nobody waits for an answer any more
    ├── FactorsError            LoRA factors that do not fit together or do not fit the model
    ├── CheckpointError
    │   └── UnsafeCheckpoint    a pickle that names something the converter does not admit
    ├── ParameterizerError      a text could not be turned into factors
    ├── TrainingError           a training run could not be started or continued
    ├── ServerError             a server that holds a memory could not do what was asked
    │   ├── ServerUnreachable
    │   ├── Unauthorized        no key, or one that opens nothing
    │   ├── Forbidden           the key has not the scope
    │   ├── RateLimited
    │   └── NotServed           what needs the model or the database itself
    └── StoreError
        ├── MemoryNotFound
        ├── MemoryExists
        ├── KeyNotFound
        ├── MemoryClosed
        ├── VersionNotFound
        ├── VersionConflict
        ├── IdempotencyConflict
        ├── IntegrityError      the log does not verify
        ├── SchemaError         the database's schema is older or newer than this package
        ├── StoreUnavailable    the database answered with an error of its own
        │   ├── TransactionUndone   the database took the transaction back; it may be repeated
        │   └── CommitUnknown       the connection was lost while a commit was under way
        ├── ArchiveError        an exported memory cannot be read, or does not verify
        └── ArtifactError
            ├── ArtifactMissing
            ├── ArtifactDamaged
            └── ArtifactsUnavailable   their place cannot be reached, or lets nobody in

The docstring of a class is its default message; a raised message says what was asked, what was
found and what to do.
"""


class PlumeError(Exception):
    """plume_memory could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InvalidInput(PlumeError, ValueError):
    """The input is not valid."""


class TextTooLong(InvalidInput):
    """The text of an update is longer than the memory takes."""


def cannot_be_copied(what: object, instead: str) -> InvalidInput:
    """Say of what holds connections, locks or weights that it is neither copied nor pickled, and what to do instead."""
    name = type(what).__name__
    return InvalidInput(f"A {name} cannot be copied or pickled: it holds a database, a model or threads. {instead}")


class MissingExtra(PlumeError, ImportError):
    """An optional package is not installed."""


class ModelError(PlumeError):
    """The base model could not be used."""


class ModelNotFound(ModelError):
    """No model of that name was found."""


class HubUnreachable(ModelError):
    """The model hub could not be reached and the model is not in the local cache."""


class HashMismatch(ModelError):
    """A downloaded file does not have the pinned sha256."""


class ForkedEngine(ModelError):
    """The model was loaded before this process was forked."""


class MissingChatTemplate(ModelError):
    """The model's tokenizer has no chat template."""


class UnknownArchitecture(ModelError):
    """The model's architecture is not supported."""


class PromptTooLong(ModelError):
    """The prompt and the answer do not fit the model's context window."""


class Busy(PlumeError):
    """More questions wait than the scheduler holds."""


class DeadlineExceeded(PlumeError, TimeoutError):
    """An answer was not decoded within the time its caller gave it."""


class Cancelled(PlumeError):
    """The answer was cancelled while it was decoded."""


class FactorsError(PlumeError, ValueError):
    """The LoRA factors do not fit together, or do not fit the model."""


class CheckpointError(PlumeError):
    """The checkpoint could not be read."""


class UnsafeCheckpoint(CheckpointError):
    """The pickle names an object outside the converter's list."""


class ParameterizerError(PlumeError):
    """A text could not be turned into LoRA factors."""


class TrainingError(PlumeError):
    """The training run could not be started or continued."""


class ServerError(PlumeError):
    """The server could not do what was asked."""


class ServerUnreachable(ServerError):
    """The server could not be reached, or the connection to it was lost."""


class Unauthorized(ServerError):
    """The server opens to no such key."""


class Forbidden(ServerError):
    """The key may not do this."""


class RateLimited(ServerError):
    """More was asked for with this key than it may in a minute."""


class NotServed(ServerError, AttributeError):
    """A server does not do this: it needs the model or the database itself."""


class StoreError(PlumeError):
    """The store could not do what was asked."""


class MemoryNotFound(StoreError):
    """No memory of that name exists in this database."""


class MemoryExists(StoreError):
    """A memory of that name exists already."""


class KeyNotFound(StoreError):
    """No key of that id exists in this database."""


class MemoryClosed(StoreError):
    """The memory was closed; open it again."""


class VersionNotFound(StoreError):
    """The memory has no such version."""


class VersionConflict(StoreError):
    """The memory has moved on since the expected version."""


class IdempotencyConflict(StoreError):
    """The idempotency key was used before with another text."""


class IntegrityError(StoreError):
    """The log does not verify: a row was altered after it was written."""


class SchemaError(StoreError):
    """The database's schema does not match this package."""


class StoreUnavailable(StoreError):
    """The database could not be reached or refused the operation."""


class TransactionUndone(StoreUnavailable):
    """The database took the transaction back; nothing was written, and it may be repeated."""


class CommitUnknown(StoreUnavailable):
    """The connection was lost while a commit was under way: whether it was written is not known."""


class ArchiveError(StoreError):
    """The archive of a memory cannot be read or does not verify."""


class ArtifactError(StoreError):
    """An artifact could not be used."""


class ArtifactMissing(ArtifactError):
    """The artifact is not in the store."""


class ArtifactDamaged(ArtifactError):
    """The artifact's bytes do not have the sha256 they are stored under."""


class ArtifactsUnavailable(ArtifactError):
    """The place of the artifacts cannot be reached, or refuses."""


def counted(count: int, one: str, many: str = "") -> str:
    """Say how many of a thing there are: "1 text", "2 texts"; `many` where its plural has no mere s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
