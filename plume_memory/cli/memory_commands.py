"""Commands on one memory: write, ask, look back, keep in order."""

import codecs
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from plume_memory.cli.output import ERR, OUT, PROGRESS, add_row, emit, plain, safe, say, table
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, MemoryNotFound, counted
from plume_memory.records import Answer, Form, Replacement, Version
from plume_memory.store.overruling import NAME

if TYPE_CHECKING:  # torch's side
    from plume_memory.answering.pinned import Snapshot
    from plume_memory.memory import ParametricMemory

MemoryName = Annotated[str, typer.Option("--memory", "-m", help="Name of the memory.", envvar="PLUME_MEMORY")]
Url = Annotated[str, typer.Option("--db", help="SQLAlchemy URL of the log.", envvar="PLUME_DB")]
Model = Annotated[str, typer.Option("--model", help="Base model; see `plume models`.", envvar="PLUME_MODEL")]
Hypernetwork = Annotated[
    str,
    typer.Option("--hypernetwork", help="auto, shipped, distill, none, or a folder.", envvar="PLUME_HYPERNETWORK"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Replaced = Annotated[bool, typer.Option("--replaced", help="Also what was replaced by what; loads the model.")]
At = Annotated[int | None, typer.Option("--at", help="Version to read; the newest by default.")]


class Unknown(StrEnum):
    """What an unknown question gets: a sentence that says so, or what the bare model says."""

    abstain = "abstain"
    bare = "bare"


TextForm = StrEnum("TextForm", [(form, form) for form in get_args(Form)])  # type: ignore[misc]


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    for command in (
        init,
        update,
        ask,
        history,
        show,
        diff,
        rollback,
        fork,
        route,
        export_adapter,
        verify,
        rebuild,
    ):
        app.command()(command)


def init(name: MemoryName = "default", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Create a memory (and its database)."""
    from plume_memory.store.failures import shown_text  # noqa: PLC0415 — a database, after `--help`

    with open_memory(name, url) as memory:
        found = {"memory": name, "url": shown_text(url), "version": memory.version}
        emit(found, as_json, lambda: say(f"memory {name!r} in {found['url']}, version {memory.version}"))


def update(
    text: Annotated[str | None, typer.Argument(help="What is now true; `-` reads stdin.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key.")] = None,
    expected: Annotated[int | None, typer.Option("--expected-version", help="Only if this is the newest.")] = None,
    replaces: Annotated[
        list[int] | None, typer.Option("--replaces", help="A version whose text it replaces. Repeatable.")
    ] = None,
    keep: Annotated[
        list[int] | None, typer.Option("--keep", help="A version of which it replaces nothing. Repeatable.")
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="It replaces nothing.")] = False,
    form: Annotated[TextForm | None, typer.Option("--form", help="How it is written; by default as it looks.")] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", help="Whose words it is; by default the owner's.")] = None,
    observed_at: Annotated[
        datetime | None, typer.Option("--observed-at", help="When it was said, where it names no time itself.")
    ] = None,
    in_answer_to: Annotated[
        str | None, typer.Option("--in-answer-to", help="The question it answers, where it says nothing without.")
    ] = None,
    expires_at: Annotated[
        datetime | None, typer.Option("--expires-at", help="From then on it is not read; in the machine's time zone.")
    ] = None,
    defer: Annotated[bool, typer.Option("--defer", help="Write the log only; the next read derives.")] = False,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Append an update and write it into the weights."""
    given = _text(text, file)
    with written_to(name, url, model, hypernetwork) as memory:
        version = memory.update(
            given,
            form=cast(Form, form.value) if form else None,
            speaker=speaker,
            observed_at=observed_at,
            in_answer_to=in_answer_to,
            expires_at=expires_at and expires_at.astimezone(),
            idempotency_key=key,
            expected_version=expected,
            replaces=replaces or (),
            keep=True if keep_all else keep or (),
            derive=False,
        )
        for start, end in version.metadata.get(NAME, {}).get("unread", ()):
            ERR.print(f"characters {start} to {end} are no words: they are kept in the log alone", style="dim")
        if not defer:  # said before the long part: interrupted here, the update is not lost and not to be repeated
            ERR.print(f"version {version.number} is in the log; writing it into the weights ...", style="dim")
            memory.at(version=version.number).derive()
        emit(version, as_json, lambda: say(f"version {version.number}"))


def ask(
    question: Annotated[str, typer.Argument(help="The question; `-` reads stdin.")],
    at: At = None,
    max_new_tokens: Annotated[int | None, typer.Option("--max-new-tokens", help="Longest answer.")] = None,
    candidates: Annotated[int, typer.Option("--candidates", help="Candidates per token, in --trace.")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="With --json: every token's figures too.")] = False,
    unknown: Annotated[Unknown, typer.Option("--unknown", help="Where the memory does not know.")] = Unknown.abstain,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Answer a question from the weights."""
    asked = stdin_text() if question == "-" else question
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        answer = memory.at(version=at).ask(
            asked, max_new_tokens=max_new_tokens, top_candidates=candidates, unknown=unknown.value
        )
        emit(described(answer, trace=trace), as_json, lambda: _show_answer(answer))


def history(
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Only the newest entries.")] = None,
    replaced: Replaced = False,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """List the log's entries, oldest first."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        versions = memory.history(limit=limit)
        found = memory.replacements() if replaced else ()
        shown = [one for one in found if one.later.version >= (versions[0].number if versions else 0)]
        listed = {"versions": versions, "replaced": shown} if replaced else versions

        def people() -> None:
            show_versions(versions)
            _show_replaced(shown)

        emit(listed, as_json, people)


def show(at: At = None, name: MemoryName = "default", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Print the history that holds at a version."""
    with open_memory(name, url, create=False) as memory:
        held = memory.text_at(at)
        emit(
            {"memory": name, "version": held.version, "text": held.text},
            as_json,
            lambda: say(held.text),
        )


def diff(
    before: Annotated[int, typer.Argument(help="A version.")],
    after: Annotated[int, typer.Argument(help="Another version.")],
    replaced: Replaced = False,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Show which texts one version holds and another does not."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        found = memory.diff(before, after)
        known = set(memory.replacements(before)) if replaced else set()
        fresh = [one for one in memory.replacements(after) if one not in known] if replaced else []

        def people() -> None:
            for sign, color, side in (("-", "red", found.removed), ("+", "green", found.added)):
                for transition in side:
                    OUT.print(f"[{color}]{sign} {transition.version}[/{color}] ", end="")
                    say(transition.text)
            _show_replaced(fresh)

        emit({**plain(found), "replaced": plain(fresh)} if replaced else found, as_json, people)


def rollback(
    to: Annotated[int, typer.Argument(help="Version whose history is to hold again.")],
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Append a version that restores an earlier history; nothing is deleted."""
    with open_memory(name, url, create=False) as memory:
        version = memory.rollback(to=to)
        emit(version, as_json, lambda: OUT.print(f"version {version.number} restores {to}"))


def fork(
    new_name: Annotated[str, typer.Argument(help="Name of the new memory.")],
    at: At = None,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Copy the log up to a version into a new memory."""
    with open_memory(name, url, create=False) as memory:
        forked = memory.fork(new_name, at=at)
        found = {"memory": new_name, "version": forked.version}
        emit(found, as_json, lambda: say(f"memory {new_name!r}, version {forked.version}"))


def route(
    query: Annotated[str, typer.Argument(help="The query.")],
    k: Annotated[int, typer.Option("--top", "-k", help="Units to list.")] = 5,
    at: At = None,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """List the units of evidence for a query, best first."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        units = memory.at(version=at).route(query, k=k)

        def people() -> None:
            rows = table("score", "superseded", "version", "unit")
            for scored in units:
                mark = "yes" if scored.superseded else ""
                add_row(rows, f"{scored.score:.3g}", mark, str(scored.unit.version), scored.unit.text.strip())
            OUT.print(rows)

        emit(units, as_json, people)


def export_adapter(
    directory: Annotated[Path, typer.Argument(help="Folder to write.")],
    form: Annotated[str, typer.Option("--format", help="peft or safetensors.")] = "peft",
    program: Annotated[
        str | None, typer.Option("--for", help="vllm: a folder that it serves, and the command that starts it.")
    ] = None,
    at: At = None,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the global adapter for PEFT and other programs."""
    if form not in ("peft", "safetensors"):
        raise InvalidInput(f"Unknown format {form!r}; write peft or safetensors.")
    if program not in (None, "vllm"):
        raise InvalidInput(f"Unknown program {program!r}; an adapter can be written for vllm.")
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        if program == "vllm":
            _export_for_vllm(memory.at(version=at), directory, as_json)
            return
        folder = memory.at(version=at).export_adapter(directory, format="peft" if form == "peft" else "safetensors")
        emit({"directory": str(folder), "format": form}, as_json, lambda: say(str(folder)))


def _export_for_vllm(snapshot: "Snapshot", directory: Path, as_json: bool) -> None:
    from plume_memory.lora.vllm import flags_of, shown_command  # noqa: PLC0415 — torch: seconds, and only when asked

    folder = snapshot.export_adapter(directory, format="vllm")
    shown = {"directory": str(folder), "format": "peft", "name": folder.name, "command": flags_of(folder)}
    emit(shown, as_json, lambda: say(f"{folder}\n{shown_command(folder)}"))


def verify(
    derived: Annotated[int, typer.Option("--derived", min=0, help="Compare so many texts with what is kept.")] = 0,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Check the whole log against its hashes; exit code 5 names the first altered entry."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        PROGRESS("checking")
        checked = memory.verify(derived=derived)
        kept = counted(checked.derived, "text is kept as it is derived", "texts are kept as they are derived")
        more = f"; {kept}" if derived else ""
        verified = counted(checked.versions, "version verifies", "versions verify")
        emit(checked, as_json, lambda: OUT.print(f"{verified}; head {checked.head_hash}{more}"))


def rebuild(
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Delete what was derived for the newest version and derive it again from the log."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        count = memory.rebuild()
        emit({"rebuilt": count}, as_json, lambda: OUT.print(f"rebuilt {counted(count, 'text')}"))


def open_memory(
    name: str, url: str, model: str = DEFAULT_MODEL, hypernetwork: str = "auto", *, create: bool = True
) -> "ParametricMemory":
    """Open a memory for a command, with a line for what takes long."""
    from plume_memory.memory import ParametricMemory  # noqa: PLC0415 — a database, after `--help`

    return ParametricMemory.open(
        name, url=url, model=model, hypernetwork=hypernetwork, create=create, progress=PROGRESS
    )


@contextmanager
def written_to(name: str, url: str, model: str, hypernetwork: str) -> "Iterator[ParametricMemory]":
    """A memory to write to: one that is new, and still empty at the end, goes again."""
    try:
        memory, is_new = open_memory(name, url, model, hypernetwork, create=False), False
    except MemoryNotFound:
        memory, is_new = open_memory(name, url, model, hypernetwork), True
    with memory:
        try:
            yield memory
        finally:
            if is_new:
                memory.discard_empty()


def _text(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise InvalidInput("Give the update as an argument, with --file, or `-` to read stdin; one of them.")
    if file is not None:
        return _file_text(file)
    return stdin_text() if text == "-" else text or ""


def _file_text(file: Path) -> str:
    """A text file's text, without the mark (BOM) that some editors put before it.

    Raises:
        InvalidInput: It cannot be read, or is not UTF-8.
    """
    try:
        content = file.expanduser().read_bytes()
    except OSError as err:
        raise InvalidInput(f"Cannot read {file}: {err}") from err
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content
    try:
        if not is_utf_16:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise InvalidInput(f"{file} is not UTF-8 text: {err}. {_converted(file, 'LATIN1')}") from err
    raise InvalidInput(f"{file} is not UTF-8 text, but UTF-16 or no text at all. {_converted(file, 'UTF-16')}")


def _converted(file: Path, encoding: str) -> str:
    name = shlex.quote(str(file))
    return f"Save it as UTF-8; if it is {encoding}: iconv -f {encoding} -t UTF-8 {name} | plume update -"


def stdin_text(read: Callable[[], str] | None = None) -> str:
    """Return what stands on stdin, or a part of it that `read` reads.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    try:
        return (read or sys.stdin.read)().removeprefix("\ufeff")
    except UnicodeDecodeError as err:
        raise InvalidInput(f"stdin is not UTF-8 text: {err}. Send it through iconv -t UTF-8 first.") from err


def described(answer: Answer, *, trace: bool = False) -> dict[str, Any]:
    """An answer's fields, and what it derives from them; each token's figures only if asked for."""
    fields = {**plain(answer), "mean_weight": answer.mean_weight}
    return fields if trace else {name: value for name, value in fields.items() if name != "trace"}


def _show_answer(answer: Answer) -> None:
    say(answer.text)
    show_status(answer)


def show_status(answer: Answer) -> None:
    """Print on stderr where an answer is from and how sure it is."""
    evidence = "memory does not bear on the question" if answer.version else "no memory yet"
    if answer.evidence is not None:
        unit = " ".join(answer.evidence.unit.text.split())
        shown = safe(unit if len(unit) <= 72 else unit[:71] + "…")
        evidence = f"evidence from version {answer.evidence.unit.version} (score {answer.evidence.score:.2g}): {shown}"
    ERR.print(
        f"version {answer.version} · confidence {answer.confidence:.2f} · mean λ {answer.mean_weight:.2f} · {evidence}",
        style="dim",
        markup=False,
        emoji=False,
    )


def show_versions(versions: list[Version]) -> None:
    """Print a log's entries as a table."""
    rows = table("version", "kind", "created", "text")
    for version in versions:
        created = f"{version.created_at:%Y-%m-%d %H:%M:%S}Z"
        add_row(rows, str(version.number), version.kind, created, _shown_text(version))
    OUT.print(rows)


def _show_replaced(found: Sequence[Replacement]) -> None:
    for one in found:
        by = "said so by its caller" if one.by_caller else f"{one.probability:.2f}"
        earlier, later = (" ".join(unit.text.split()) for unit in (one.earlier, one.later))
        say(f"version {one.later.version} replaces of version {one.earlier.version} ({by}): {earlier!r} -> {later!r}")


def _shown_text(version: Version) -> str:
    """An update's text, or what an undo does, with its reason."""
    if version.kind == "update":
        mark = "" if version.erased_by is None else f" (erased by version {version.erased_by})"
        return f"{version.text.strip()}{mark}".strip()
    if version.kind == "rollback":
        return f"restores {version.restores}"
    reason = version.metadata.get("reason")
    verb = "forgets" if version.kind == "forget" else "erases"
    part = "" if version.span is None else f", characters {version.span.start} to {version.span.end}"
    return f"{verb} {version.forgets}{part}" + (f": {reason}" if reason else "")
