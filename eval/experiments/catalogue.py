"""All experiments, in the order of the help page."""

from eval.experiments.continual import CONTINUAL
from eval.experiments.crosstask import CROSSTASK
from eval.experiments.diagnosis import DIAGNOSIS
from eval.experiments.efficiency import EFFICIENCY, RADAR
from eval.experiments.experiment import Experiment
from eval.experiments.locality import ABLATION, LOCALITY
from eval.experiments.main_table import MAIN
from eval.experiments.sweep import AMPLIFY, SWEEP, SWEEP_SHIPPED
from eval.experiments.topk import TOPK

EXPERIMENTS: tuple[Experiment, ...] = (
    MAIN,
    LOCALITY,
    CROSSTASK,
    ABLATION,
    CONTINUAL,
    TOPK,
    SWEEP,
    SWEEP_SHIPPED,
    EFFICIENCY,
    RADAR,
    AMPLIFY,
    DIAGNOSIS,
)
