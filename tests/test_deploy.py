"""What is under deploy/ names what there is: options, paths, files, values. None of it can be run in these tests."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from plume_memory.cli.main import app as cli
from plume_memory.server.app import create_app
from plume_memory.store.database import Database
from plume_memory.store.schema import latest_revision

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "plume"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def check_command(words: list[str]) -> None:
    """Find a command line of `plume` in the tree: its command, and each of its options."""
    command: Any = typer.main.get_command(cli)
    for at, word in enumerate(words):
        if word.startswith("--"):
            options = {option for one in command.params for option in one.opts}
            assert word in options, f"{' '.join(words)}: {command.name} has no {word}"
        elif at == 0 or not words[at - 1].startswith("--"):
            assert word in getattr(command, "commands", {}), f"{' '.join(words)}: {word} is no command"
            command = command.commands[word]


def environment_of(words: list[str]) -> set[str]:
    """The variables that a command reads for its options."""
    command: Any = typer.main.get_command(cli)
    for word in words:
        command = command.commands[word]
    return {one.envvar for one in command.params if one.envvar}


def rendered(path: Path) -> Any:
    """A template as YAML: lines that are template alone left out, values put in, anything else a word."""
    found = []
    for line in path.read_text().splitlines():
        if re.fullmatch(r"\s*\{\{.*\}\}\s*", line):
            if "toYaml" in line:
                found[-1] += " {}"
            continue
        found.append(re.sub(r"\{\{.*?\}\}", _value, line))
    return yaml.safe_load("\n".join(found))


def _value(template: re.Match[str]) -> str:
    named = re.search(r"\.Values\.([\w.]+)", template.group())
    return "word" if named is None else json.dumps(str(_of_values(named.group(1))))


def _of_values(dotted: str) -> Any:
    found = VALUES
    for part in dotted.split("."):
        assert part in found, f"values.yaml has no {dotted}"
        found = found[part]
    return found


def chart(name: str) -> Any:
    return rendered(CHART / "templates" / f"{name}.yaml")


def test_the_image_runs_commands_that_there_are() -> None:
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)[0]) == ["plume"]
    check_command(json.loads(re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)[0]))
    for line in re.findall(r"^RUN plume ([\w -]+?)(?: smollm2-135m)? \\$", DOCKERFILE, re.MULTILINE):
        check_command(line.split())
    extras = re.findall(r"\[([\w,]+)\]\"", DOCKERFILE)[0].split(",")
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    assert (ROOT / "constraints.txt").exists()


def test_the_image_is_not_roots_and_says_whether_it_lives() -> None:
    assert re.search(r"^USER 10001$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.index("RUN plume models fetch") < DOCKERFILE.index("USER 10001")
    assert "/healthz" in re.findall(r"^HEALTHCHECK .*\n?.*$", DOCKERFILE, re.MULTILINE)[0]


def test_compose_runs_commands_that_there_are_with_variables_that_they_read() -> None:
    services = COMPOSE["services"]
    for name in ("server", "migrate"):
        check_command(services[name]["command"])
    known = environment_of(["serve"])
    assert {name for name in services["server"]["environment"] if name.startswith("PLUME_")} <= known
    assert "PLUME_DB" in environment_of(["db", "upgrade"])
    for text in re.findall(r"run --rm server (.+?)(?: \.\.\.)?$", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE):
        check_command(text.split())


def test_compose_is_of_one_piece() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"server", "migrate", "bucket", "database", "store"}
    for one in services.values():
        assert set(one.get("depends_on", [])) <= set(services)
        assert {volume.partition(":")[0] for volume in one.get("volumes", [])} <= set(COMPOSE["volumes"])
    assert (DEPLOY / services["server"]["build"]["context"] / services["server"]["build"]["dockerfile"]).exists()
    assert int(services["server"]["stop_grace_period"].removesuffix("s")) > 25 + 3


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_template_is_yaml_and_names_values_that_there_are(path: Path) -> None:
    found = rendered(path)
    assert found["kind"]
    assert found["apiVersion"]
    assert found["metadata"]["name"].startswith("word")


def test_every_value_is_used() -> None:
    used = {
        name for path in (CHART / "templates").iterdir() for name in re.findall(r"\.Values\.([\w.]+)", path.read_text())
    }

    def leaves(found: Any, at: str) -> list[str]:
        if at in used or not isinstance(found, dict):
            return [at]
        return [leaf for name, inner in found.items() for leaf in leaves(inner, f"{at}.{name}")]

    assert [leaf for name, found in VALUES.items() for leaf in leaves(found, name) if leaf not in used] == []


def test_the_chart_has_what_keeps_a_server_up() -> None:
    kinds = {rendered(path)["kind"] for path in TEMPLATES}
    assert kinds == {"Deployment", "Service", "Job", "PodDisruptionBudget", "HorizontalPodAutoscaler"}
    pod = chart("deployment")["spec"]["template"]["spec"]
    [server] = pod["containers"]
    check_command(server["args"])
    assert {one["name"] for one in server["env"] if one["name"].startswith("PLUME_")} <= environment_of(["serve"])
    assert pod["terminationGracePeriodSeconds"] > 25 + 3
    check_command(chart("migrate")["spec"]["template"]["spec"]["containers"][0]["args"])


def test_probes_and_metrics_are_asked_where_they_are(tmp_path: Path) -> None:
    from plume_memory.pool import MemoryPool

    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}") as pool:
        app = create_app(pool)
        paths = set(app.openapi()["paths"])
        metrics = app.state.serving.metrics.text().decode()
    pod = chart("deployment")["spec"]["template"]
    [server] = pod["spec"]["containers"]
    probes = [server[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {*probes, pod["metadata"]["annotations"]["prometheus.io/path"]} <= paths
    watched = chart("hpa")["spec"]["metrics"][0]["pods"]["metric"]["name"]
    assert f"\n{watched} " in metrics


def test_the_release_check_upgrades_a_database_of_every_older_revision(tmp_path: Path) -> None:
    check = runpy.run_path(str(DEPLOY / "release_check.py"))
    scripts = sorted(check["OLD"].glob("schema_????.sql"))
    assert len(scripts) == len(list((DEPLOY.parent / "migrations" / "versions").glob("[0-9]*.py")))
    check["upgrade"]([sys.executable, "-m", "plume_memory.cli"], scripts[0], tmp_path)
    with Database(f"sqlite:///{tmp_path / 'schema_0001.db'}") as database:
        assert database.revision() == latest_revision()


def test_what_the_release_check_needs_in_the_wheel_is_here() -> None:
    root = DEPLOY.parent
    for name in runpy.run_path(str(DEPLOY / "release_check.py"))["NEEDED"]:
        place = root / name.replace("plume_memory/_migrations", "migrations")
        assert place.is_file() or (root / "integrations" / name).is_file(), name
