"""Entry point of `plume`: the command tree, and errors to one line and an exit code.

Exit codes: 0 done · 1 failed · 2 wrong usage or input · 3 not found · 4 conflict · 5 the log does
not verify · 130 interrupted.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from plume_memory import __version__, errors
from plume_memory.cli import (
    chat_command,
    forget_command,
    key_commands,
    mcp_command,
    memory_commands,
    model_commands,
    overview_commands,
    portability_commands,
    recall_commands,
    serve_command,
    train_command,
)
from plume_memory.cli.output import ERR, PROGRESS, safe

_EXIT_CODES: tuple[tuple[type[errors.PlumeError], int], ...] = (
    (errors.IntegrityError, 5),
    (errors.VersionConflict, 4),
    (errors.IdempotencyConflict, 4),
    (errors.MemoryExists, 4),
    (errors.MemoryNotFound, 3),
    (errors.VersionNotFound, 3),
    (errors.KeyNotFound, 3),
    (errors.ModelNotFound, 3),
    (errors.InvalidInput, 2),
    (errors.PlumeError, 1),
)
_OF_COMMANDS = ("--db", "--memory", "-m", "--model", "--hypernetwork")
# Typer carries a click of its own; its base of all usage errors is reached through the one it exports.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_FIRST = """First: plume demo (20 s). Then: plume update "Alice lives in Bern." · plume ask "Where does Alice live?" ·
plume history. --db, --memory and --model may stand before the command too; plume doctor says what is missing."""

app = typer.Typer(
    name="plume",
    help="Memory for language models that lives in their parameters.",
    epilog=_FIRST,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"plume_memory {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Memory for language models that lives in their parameters."""


memory_commands.register(app)
chat_command.register(app)
overview_commands.register(app)
recall_commands.register(app)
forget_command.register(app)
portability_commands.register(app)
model_commands.register(app)
train_command.register(app)
serve_command.register(app)
mcp_command.register(app)
key_commands.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        tree = typer.main.get_command(app)
        try:
            code = tree(_in_place(given, tree), prog_name="plume", standalone_mode=False)
        finally:
            PROGRESS.clear()
        return code if isinstance(code, int) else 0
    except errors.PlumeError as err:
        _print_error(err, as_json="--json" in given)
        return next(code for kind, code in _EXIT_CODES if isinstance(err, kind))
    except typer.Exit as stop:
        return int(stop.exit_code)
    except _UsageError as err:
        if "--json" in given:
            _print_error(errors.InvalidInput(err.format_message()), as_json=True)
        else:
            err.show()
        return int(err.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        ERR.print("interrupted")
        return 130
    except OSError as err:
        if isinstance(err, BrokenPipeError) or _output_is_gone():  # its reader went away, or its disk is full
            sys.stderr.write(f"cannot write the output: {err}\n")
        else:
            _print_error(err, as_json="--json" in given)
        return 1


def _in_place(given: list[str], tree: Any) -> list[str]:
    """Move options of commands that stand before the command behind its name.

    One that the command has no use for is left out, with a word: `--memory` says nothing to a command on a whole
    database.

    Raises:
        InvalidInput: they stand alone.
    """
    command, names, moved, rest = tree, list[str](), list[str](), list(given)
    while rest and hasattr(command, "commands"):
        if rest[0].split("=")[0] in _OF_COMMANDS:
            taken = 1 if "=" in rest[0] else 2
            moved, rest = moved + rest[:taken], rest[taken:]
        elif rest[0] in command.commands:
            command = command.commands[rest[0]]
            names.append(rest.pop(0))
        else:  # --help, or no command of ours
            return names + rest
    if moved and hasattr(command, "commands"):
        said = shlex.join([*names, *moved])
        raise errors.InvalidInput(
            f"`plume {said}` names no command. Say what to do, as `plume history {shlex.join(moved)}`; "
            "`plume --help` lists the commands."
        )
    return names + _known(moved, command, " ".join(names)) + rest


def _known(moved: list[str], command: Any, name: str) -> list[str]:
    """Those of the moved options that a command has."""
    known = {option for one in command.params for option in one.opts}
    kept = list[str]()
    while moved:
        taken = 1 if "=" in moved[0] else 2
        if (option := moved[0].split("=")[0]) in known:
            kept += moved[:taken]
        else:
            ERR.print(f"plume {name} has no use for {option}: it was left out", style="dim", markup=False)
        moved = moved[taken:]
    return kept


def _output_is_gone() -> bool:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def _print_error(err: errors.PlumeError | OSError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(json.dumps({"error": type(err).__name__, "message": str(err)}) + "\n")
    else:
        ERR.print(f"[red]{type(err).__name__}[/red]: ", end="")
        ERR.print(safe(str(err)), markup=False, soft_wrap=True)  # a command in it can be copied


def run() -> None:
    """Console script."""
    sys.exit(main())
