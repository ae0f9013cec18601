"""Build the package and try it as a user gets it: `make release-check`. Ten minutes; the clone is not used after.

    python deploy/release_check.py [--keep FOLDER]

Builds source distribution and wheel, looks into both, and installs each into an empty environment outside the clone.
There the quickstart, the command line and the server run, and every older revision's database is upgraded, checked and
asked. It stops at the first thing that is wrong.
"""

import argparse
import json
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import venv
import zipfile
from contextlib import closing
from email.parser import HeaderParser
from pathlib import Path

CLONE = Path(__file__).parents[1]
NEEDED = (
    "plume_memory/py.typed",
    "plume_memory/_migrations/env.py",
    *(f"plume_memory/training/facts/{words}.py" for words in ("filler", "names", "values", "words")),
    "langchain_plume/__init__.py",
)
OLD = CLONE / "tests" / "store"
"""Databases as the release of each revision wrote them: `schema_<revision>.sql`."""
UNWANTED = ("tests/", "bench/", "eval/", "docs/", "examples/", "deploy/")
WAIT_S = 120


def main() -> None:
    """Build, look, install, run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="build there, and leave it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="plume-release-") as scratch:
        place = asked.keep or Path(scratch)
        run([sys.executable, "-m", "hatchling", "build", "-d", str(place / "dist")], CLONE)
        (wheel,), (source,) = (sorted((place / "dist").glob(ending)) for ending in ("*.whl", "*.tar.gz"))
        look_into(wheel, source)
        python = environment(place / "env")
        for archive in (wheel, source):
            say(f"installing {archive.name}")
            pip(python, "install", f"{archive}[server]")
            try_out(python, place / archive.name.replace(".", "-"))
            pip(python, "uninstall", "--yes", "plume-memory")
    say("all is well")


def look_into(wheel: Path, source: Path) -> None:
    """What must be in them is, what must not is not, and the metadata says what an index needs."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = HeaderParser().parsestr(opened.read(about).decode())
    lacking = [name for name in NEEDED if name not in names]
    require(not lacking, f"{wheel.name} lacks {lacking}")
    extra = [name for name in names if name.startswith(UNWANTED)]
    require(not extra, f"{wheel.name} holds {extra[:5]}")
    for field in ("Version", "Summary", "License-Expression", "Requires-Python", "Description-Content-Type"):
        require(bool(told[field]), f"the metadata has no {field}")
    with tarfile.open(source) as archive:
        has_licence = any(name.endswith("/LICENSE") for name in archive.getnames())
    require(has_licence, f"{source.name} has no LICENSE")
    require(
        told["Version"] in wheel.name and told["Version"] in source.name, "names and metadata differ in the version"
    )
    say(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 2**20:.1f} MiB")


def environment(folder: Path) -> str:
    """An empty environment with PyTorch; its Python."""
    say("making an empty environment")
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    pip(python, "install", "--constraint", str(CLONE / "constraints.txt"), "torch")
    return python


def try_out(python: str, folder: Path) -> None:
    """What the README shows, in an empty folder."""
    folder.mkdir()
    quickstart = folder / "quickstart.py"
    quickstart.write_text((CLONE / "examples" / "quickstart.py").read_text("utf-8"), "utf-8")
    said = run([python, str(quickstart)], folder)
    require("Zurich" in said, f"the quickstart said {said!r}")
    plume = [python, "-m", "plume_memory.cli"]
    run([*plume, "--version"], folder)
    run([*plume, "db", "upgrade", "--db", "sqlite:///new.db"], folder)
    run([*plume, "update", "Bob lives in Oslo.", "--db", "sqlite:///new.db"], folder)
    answer = json.loads(run([*plume, "ask", "Where does Bob live?", "--db", "sqlite:///new.db", "--json"], folder))
    require("Oslo" in answer["text"], f"the command line said {answer['text']!r}")
    run([*plume, "verify", "--db", "sqlite:///new.db"], folder)
    scripts = sorted(OLD.glob("schema_????.sql"))
    require(len(scripts) > 1, f"no databases of older revisions in {OLD}")
    for script in scripts:
        upgrade(plume, script, folder)
    serve(plume, folder)


def upgrade(plume: list[str], script: Path, folder: Path) -> None:
    """A database of an older revision is brought to this release's; its memory verifies and has its texts."""
    with closing(sqlite3.connect(folder / f"{script.stem}.db")) as database:
        database.executescript(script.read_text("utf-8"))
    of = ["--memory", "alice", "--db", f"sqlite:///{script.stem}.db"]
    run([*plume, "db", "upgrade", *of[2:]], folder)
    run([*plume, "verify", *of], folder)
    said = run([*plume, "history", *of], folder)
    require("Alice lives in Chur." in said, f"{script.name}, upgraded, holds {said!r}")


def serve(plume: list[str], folder: Path) -> None:
    """The server gets ready, and lists its models."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen([*plume, "serve", "--port", str(port)], cwd=folder, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + WAIT_S
            while not is_ready(f"{address}/readyz"):
                require(server.poll() is None and time.monotonic() < deadline, f"no server: {folder / 'server.log'}")
                time.sleep(0.5)
            require(server.poll() is None, f"it ended, and another one answers: {folder / 'server.log'}")
            with urllib.request.urlopen(f"{address}/v1/models", timeout=WAIT_S) as models:
                require(bool(json.load(models)["data"]), "the server lists no model")
        finally:
            server.terminate()
            server.wait(WAIT_S)


def is_ready(url: str) -> bool:
    """Whether it answers with 200."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def pip(python: str, *arguments: str) -> None:
    """Run an environment's pip."""
    run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], CLONE.parent)


def run(command: list[str], folder: Path) -> str:
    """Run a command and return what it printed; with its errors where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def require(holds: bool, otherwise: str) -> None:
    """Stop with a sentence unless something holds."""
    if not holds:
        sys.exit(f"release-check: {otherwise}")


def say(line: str) -> None:
    """Print progress."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
