"""Settings files and overrides, on a model that is nobody's."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from plume_memory.errors import InvalidInput
from plume_memory.training.overrides import read_settings


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Delta(Strict):
    kind: Literal["delta"] = "delta"
    write_strength: float = 1.0


class Plain(Strict):
    kind: Literal["plain"] = "plain"
    width: int = 8


class Source(Strict):
    path: str
    weight: float = 1.0


class Settings(Strict):
    model: str = "tiny"
    network: Annotated[Delta | Plain, Field(discriminator="kind")] = Delta()
    betas: tuple[float, float] = (0.9, 0.95)
    weights: dict[str, float] = {}
    sources: tuple[Source, ...] = ()
    extra: Plain | None = None
    tuned: Plain = Plain(width=99)
    more: tuple[Source, ...] = (Source(path="default"),)
    anything: dict[str, Any] = {}


def read(tmp_path: Path, given: Any, *overrides: str) -> Settings:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(given))
    return read_settings(Settings, path, overrides)


def test_values_are_json_or_else_strings(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"weights": {"answer": 1}},
        "model=smollm2-135m",
        "network.write_strength=2e-3",
        "betas=[0.5, 0.6]",
        "weights.kl=0.25",
        "extra.width=3",
        "anything.deep.er=[1]",
    )

    assert found.model == "smollm2-135m"
    assert found.network == Delta(write_strength=2e-3)
    assert found.betas == (0.5, 0.6)
    assert found.weights == {"answer": 1.0, "kl": 0.25}
    assert found.extra == Plain(width=3)
    assert read(tmp_path, {}, "tuned.kind=plain").tuned == Plain(width=99), "the rest of a default stays"
    assert read(tmp_path, {}, "more.0.weight=2").more == (Source(path="default", weight=2.0),)
    assert found.anything == {"deep": {"er": [1]}}


def test_places_in_lists_and_either_kind_of_a_union_can_be_set(tmp_path: Path) -> None:
    found = read(tmp_path, {"sources": [{"path": "a"}, {"path": "b"}]}, "sources.1.weight=3", "model=a=b")

    assert [s.weight for s in found.sources] == [1.0, 3.0]
    assert found.model == "a=b"
    assert read(tmp_path, {}, "network.kind=plain", "network.width=4").network == Plain(width=4)
    assert read(tmp_path, {"extra": {"width": 3}}, "extra=null").extra is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("netwrok.width=3", r"Unknown setting 'netwrok\.width'; the nearest is 'network'"),
        ("network.write_strenght=3", r"the nearest is 'network\.write_strength'"),
        ("network.zzz=3", r"; network has kind, width, write_strength"),
        ("sources.7.weight=3", "'7' is no place in a list of 1"),
        ("sources.0.wieght=3", r"the nearest is 'sources\.0\.weight'"),
        ("model.name=x", "'model' is a value without keys"),
        ("model", "is no override; write key.path=value"),
        ("=3", "is no override"),
        ("betas=[2]", "The settings are not valid: betas"),
        ("model=3", r"model: Input should be a valid string, got 3"),
    ],
)
def test_what_cannot_be_set_is_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, {"sources": [{"path": "a"}]}, override)


def test_unknown_keys_of_the_file_name_the_nearest_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Unknown setting 'modle'; the nearest is 'model'\.$"):
        read(tmp_path, {"modle": "x"})
    with pytest.raises(
        InvalidInput, match=r"Unknown setting 'sources\.0\.wieght'; the nearest is 'sources\.0\.weight'"
    ):
        read(tmp_path, {"sources": [{"path": "a", "wieght": 1}]})
    with pytest.raises(InvalidInput, match=r"Unknown setting 'network\.widht'; the nearest is 'network\.width'"):
        read(tmp_path, {"network": {"kind": "plain", "widht": 1}})
    with pytest.raises(InvalidInput, match=r"valid: network\.width: Input should be a valid integer.*got 'x'"):
        read(tmp_path, {"network": {"kind": "plain", "width": "x"}})
    with pytest.raises(InvalidInput, match=r"\(and 1 more\)"):
        read(tmp_path, {"a": 1, "b": 2, "c": 3, "d": 4})


def test_the_file_must_be_a_json_object(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot read the settings .*none\.json: No such file"):
        read_settings(Settings, tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="holds list, not a JSON object"):
        read(tmp_path, [])
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"bad\.json is not JSON"):
        read_settings(Settings, tmp_path / "bad.json")
