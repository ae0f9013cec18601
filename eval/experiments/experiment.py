"""What an experiment is: the items it needs and the view it makes of their rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eval.datasets.muse import CONTINUAL_STEPS, load
from eval.records import MuseTransition
from eval.report.view import View
from eval.results import Results
from eval.specs import Item, Kind, MethodSpec
from plume_memory.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Selection:
    """What a user chose to run."""

    datasets: tuple[str, ...] = ()
    """Names or files; the experiment's own when empty."""
    methods: tuple[str, ...] = ()
    """Names of methods to keep; all of the experiment's when empty."""
    limit: int | None = None
    """Records per dataset; all when None."""

    def transitions(self, default: Sequence[str], steps: tuple[int, ...] = CONTINUAL_STEPS) -> list[MuseTransition]:
        """The chosen datasets' transitions.

        Raises:
            InvalidInput: a dataset that does not exist.
        """
        names = self.datasets or tuple(default)
        return [transition for name in names for transition in load(name, limit=self.limit, steps=steps)]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One command of `python -m eval`."""

    name: str
    about: str
    methods: tuple[MethodSpec, ...]
    plan: Callable[[Sequence[MethodSpec], Selection], list[Item]]
    """(chosen methods, selection) → items, in the order they are run."""
    view: Callable[[Results], View]


def spec(kind: Kind, name: str | None = None, **settings: float | int | str) -> MethodSpec:
    """A method under its own kind's name, or another."""
    return MethodSpec(name=name or kind, kind=kind, settings=settings)


def shipped(kind: Kind) -> MethodSpec:
    """PLUME or an ablation with the settings that come with the network: what a user's engine does."""
    return MethodSpec(name=kind if kind == "plume" else f"plume-{kind.replace(' ', '-')}", kind=kind, shipped=True)


def choose(methods: Sequence[MethodSpec], names: Sequence[str]) -> list[MethodSpec]:
    """Keep the named methods, in the experiment's order.

    Raises:
        InvalidInput: a name that the experiment does not have.
    """
    known = {method.name for method in methods}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"Unknown method {unknown[0]!r}; this experiment has: {', '.join(m.name for m in methods)}.")
    return [method for method in methods if not names or method.name in names]


def each(methods: Sequence[MethodSpec], transitions: Sequence[MuseTransition]) -> list[Item]:
    """Every method on every transition, method by method."""
    return [Item(method, transition) for method in methods for transition in transitions]


BASELINES = (spec("base"), spec("base with context"), spec("last update"), spec("bm25"))
ABLATIONS = (spec("memory only"), spec("global only"))
WINDOWS = spec("global only", "d2l windows", alpha=1.0, beta=0.0, global_windows="mean")
"""D2L with pieces of the length our networks were trained on, and their mean: `d2l` is one pass over everything."""
PAPER = spec("plume", "plume-paper")
PLUME = shipped("plume")
PLUME_ABLATIONS = (shipped("memory only"), shipped("global only"))
EVERYTHING = (
    *BASELINES,
    spec("d2l"),
    WINDOWS,
    spec("d2l oracle"),
    spec("evidence in prompt"),
    spec("cd"),
    spec("cd oracle"),
    spec("anyedit"),
    *ABLATIONS,
    PAPER,
    PLUME,
)
"""All methods, PLUME last: with the paper's settings, and with those that come with the network."""
EVERYTHING_FAST = tuple(method for method in EVERYTHING if method.kind not in ("cd", "cd oracle", "anyedit"))
"""Without those that train for minutes per record."""
MINI = ("muse-mini",)
