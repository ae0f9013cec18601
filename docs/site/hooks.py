"""What MkDocs does not find in docs/: README and its siblings, examples, the reference, and files that pages link to.

Pages are written for GitHub, with links relative to where they lie in the repository. Here each link is turned to where
its target lies in the site; a file outside docs/ that a page links to is taken along, under files/.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, relpath
from typing import Any

import langchain_plume
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import plume_memory
from plume_memory.cli.main import app
from plume_memory.hypernet.shipped import shipped_hypernetwork

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMED = {
    ROOT / "README.md": "index.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "SECURITY.md": "security.md",
    ROOT / "examples": "examples.md",
    ROOT / "examples" / "time_travel.ipynb": "time-travel.md",
}
"""Files of the repository that have a name of their own in the site."""
LINK = re.compile(r'(\]\(|(?:src|srcset)=")([^)\s"#]+)')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made here and what is linked to."""
    made = {
        "examples.md": examples_page(),
        "time-travel.md": notebook_page(ROOT / "examples" / "time_travel.ipynb"),
        "reference/library.md": reference_page("The library", "plume_memory", plume_memory.__all__),
        "reference/langchain.md": reference_page("LangChain", "langchain_plume", langchain_plume.__all__),
        "reference/policy.md": policy_page(),
        "reference/errors.md": "# Errors\n\n::: plume_memory.errors\n    options: {show_root_heading: false}\n",
        "reference/command-line.md": command_line_page(),
    }
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    pages = [Path(str(file.abs_src_path)) for file in files.documentation_pages() if file.abs_src_path]
    seen = {path for path in NAMED if path.suffix != ".md"}
    pages += [path for path in NAMED if path.suffix == ".md"]
    while pages:
        page = pages.pop()
        if page not in seen and not page.is_relative_to(DOCS):
            files.append(File.generated(config, site_uri(page), abs_src_path=str(page)))
        seen.add(page)
        if page.suffix == ".md":
            pages += [target for target in targets(page) if target not in seen and target.is_file()]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to where their targets lie in the site, and drop what GitHub allows behind a fence's language."""
    markdown = re.sub(r"^```python [\w-]+$", "```python", markdown, flags=re.MULTILINE)
    if page.file.abs_src_path is None:
        return markdown
    source, here = Path(page.file.abs_src_path), dirname(page.file.src_uri)

    def turned(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[2]))
        return match[1] + relpath(site_uri(target), here or ".") if target.exists() else match[0]

    return LINK.sub(turned, markdown)


def targets(page: Path) -> Iterator[Path]:
    """The files that a page links to."""
    for _, link in LINK.findall(page.read_text(encoding="utf-8")):
        target = Path(os.path.normpath(page.parent / link))
        if target.exists():
            yield target


def site_uri(path: Path) -> str:
    """Where a file of the repository lies in the site."""
    if path in NAMED:
        return NAMED[path]
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return "files/" + path.relative_to(ROOT).as_posix()


def examples_page() -> str:
    """Every example, whole."""
    parts = ["# Examples to copy\n\nEach is a file of `examples/`, under 80 lines, and run by the tests."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        title = path.stem.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n```python\n{path.read_text(encoding='utf-8')}```")
    return "\n\n".join(parts) + "\n"


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code, what it printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        printed = "".join("".join(output["text"]) for output in cell["outputs"])
        parts.append(f"```python\n{source}\n```\n\n```\n{printed}```")
    return "\n\n".join(parts) + "\n"


def reference_page(title: str, package: str, names: list[str]) -> str:
    """What a package exports, from its docstrings."""
    shown = [name for name in names if not name.startswith("_")]
    whole = {"ParametricMemory": "\n    options: {inherited_members: true}"}  # half of it stands in its base
    return f"# {title}\n\n" + "\n\n".join(f"::: {package}.{name}{whole.get(name, '')}" for name in shown) + "\n"


def policy_page() -> str:
    """Every number of the policy: the paper's, the shipped network's, and what it is."""
    paper, folder = plume_memory.AnswerPolicy.paper(), shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    brought = json.loads((folder / "config.json").read_bytes())["policy"]
    rows = []
    for name, field in type(paper).model_fields.items():
        own = f"`{brought[name]}`" if name in brought else ""
        rows.append(f"| `{name}` | `{getattr(paper, name)}` | {own} | {field.description or ''} |")
    return "\n".join(
        [
            "# The policy\n",
            "The numbers that decide an answer, fields of `AnswerPolicy`. Why each is what it is stands in",
            "[the decisions](../decisions/README.md).\n",
            "| field | the paper's | the shipped network's | what it is |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def command_line_page() -> str:
    """What `plume --help` and `plume COMMAND --help` say."""
    group: Any = typer.main.get_command(app)
    parts = [f"# The command line\n\n{group.help}\n\n{group.epilog}"]
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        if inner is None:
            parts.append(command_section(f"plume {name}", command))
        else:
            parts += [command_section(f"plume {name} {own}", one) for own, one in inner.items()]
    return "\n\n".join(parts) + "\n"


def command_section(called: str, command: Any) -> str:
    """One command: what it does, its arguments and options."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([called, "[OPTIONS]", *(one.name.upper() for one in arguments)])
    rows = []
    for one in command.params:
        shown = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
        if one in arguments:
            shown = f"`{one.name.upper()}`"
        said = [(one.help or "").replace("|", "\\|")]
        said += (
            [f"Default: `{one.default}`."]
            if isinstance(one.default, str | int) and one.default not in ("", False)
            else []
        )
        said += [f"Environment: `{one.envvar}`."] if one.envvar else []
        rows.append(f"| {shown} | {' '.join(filter(None, said))} |")
    table = "\n".join(["| | |", "|---|---|", *rows])
    return f"## `{called}`\n\n{command.help}\n\n```\n{usage}\n```\n\n{table if rows else ''}"
