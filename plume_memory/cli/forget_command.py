"""`plume forget`: take a text, or a part of it, out of what holds; with --erase out of the log as well."""

from dataclasses import replace
from typing import Annotated

import typer

from plume_memory.cli.memory_commands import AsJson, Hypernetwork, MemoryName, Model, Url, open_memory
from plume_memory.cli.output import ERR, OUT, add_row, emit, say, table
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, counted
from plume_memory.records import ErasureCertificate, ForgetOptions


def register(app: typer.Typer) -> None:
    """Add this command to the tree."""
    app.command()(forget)


def forget(
    version: Annotated[int | None, typer.Argument(help="Update whose text is to be forgotten.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Exact words; with a version, words of its text.")] = None,
    span: Annotated[
        tuple[int, int] | None, typer.Option("--span", help="Part of the version: first character, one past the last.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the log.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key.")] = None,
    expected: Annotated[int | None, typer.Option("--expected-version", help="Only if this is the newest.")] = None,
    erase: Annotated[bool, typer.Option("--erase", help="Remove the text from the log too; not to be undone.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With --erase: every row, and what it does not reach.")
    ] = False,
    defer: Annotated[bool, typer.Option("--defer", help="With --erase: the next read derives.")] = False,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Append a version that no longer holds the text of an update; nothing is deleted, unless with --erase."""
    if defer and not erase:
        raise InvalidInput("--defer goes with --erase: without it nothing is derived now.")
    what: ForgetOptions = {
        "text": text,
        "span": span,
        "reason": reason,
        "idempotency_key": key,
        "expected_version": expected,
    }
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        if not erase:
            forgotten = memory.forget(version, **what)
            part = "" if forgotten.span is None else f", characters {forgotten.span.start} to {forgotten.span.end}"
            emit(forgotten, as_json, lambda: say(f"version {forgotten.number} forgets {forgotten.forgets}{part}"))
            return
        certificate = memory.erase(version, derive=False, **what)
        if not defer:  # said before the long part: interrupted here, the erasure is not in doubt
            ERR.print(f"erased by version {certificate.version}; deriving the newest version anew ...", style="dim")
            newest = memory.at()
            newest.derive()
            certificate = replace(certificate, rebuilt=(newest.version,))
        emit(certificate, as_json, lambda: _show(certificate, verbose=verbose))


def _show(certificate: ErasureCertificate, *, verbose: bool) -> None:
    say(
        f"{counted(len(certificate.erased), 'text')} erased by version {certificate.version}, "
        f"{counted(len(certificate.artifacts), 'artifact')} deleted in {certificate.artifacts_place}"
    )
    if certificate.still_said_by:
        listed = ", ".join(map(str, certificate.still_said_by))
        say(f"the same words stand in version {listed}: erase them there too")
    if not verbose:
        say(f"{counted(len(certificate.limits), 'thing')} it does not reach, backups among them: -v lists them")
        return
    rows = table("memory", "version", "characters", "erased by", "sha256 of the text", "chain hash")
    for text in certificate.erased:
        part = "all" if text.span is None else f"{text.span.start} to {text.span.end}"
        add_row(
            rows, text.memory, str(text.version), part, str(text.erased_by), text.text_sha256[:16], text.chain_hash[:16]
        )
    OUT.print(rows)
    for limit in certificate.limits:
        say(f"- {limit}")
