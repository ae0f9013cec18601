"""The PLUME paper's figures, for the column beside ours (METHOD: the paper's results). Percent; Qwen3-4B."""

MODEL = "Qwen3-4B"
SMALLER_MODEL = "Gemma-2-2B"
DATASETS = ("squad", "ropes", "2wikimultihopqa", "multifieldqa_en", "qasper")

RECALL: dict[str, tuple[float, ...]] = {
    "base with context": (95.86, 97.82, 60.11, 64.50, 61.75),
    "base": (24.61, 82.88, 31.75, 22.48, 1.28),
    "anyedit": (15.77, 76.43, 16.25, 13.23, 7.40),
    "cd": (40.57, 74.69, 36.15, 30.78, 16.78),
    "d2l": (54.96, 86.99, 36.30, 27.15, 16.88),
    "plume": (80.65, 94.61, 47.24, 37.76, 28.53),
}
"""ROUGE-L recall by method kind and dataset."""

JUDGE: dict[str, tuple[float, ...]] = {
    "base with context": (91.69, 95.91, 52.35, 60.08, 53.95),
    "base": (15.19, 64.99, 24.67, 11.33, 1.89),
    "anyedit": (12.44, 67.48, 15.00, 9.25, 4.02),
    "cd": (27.85, 67.00, 30.67, 23.33, 9.57),
    "d2l": (37.27, 81.33, 30.84, 12.00, 11.02),
    "plume": (76.81, 90.26, 41.48, 34.01, 24.48),
}

SMALLER: dict[str, tuple[tuple[float, float], ...]] = {
    "d2l": ((49.17, 31.36), (57.53, 48.69), (21.09, 15.96), (11.44, 6.55), (14.22, 7.96)),
    "plume": ((74.80, 68.60), (62.70, 55.78), (29.85, 24.82), (23.29, 19.42), (24.51, 20.35)),
}
"""(recall, judge) with `SMALLER_MODEL`, by method kind and dataset."""

CROSSTASK: dict[str, dict[str, tuple[float, float]]] = {
    "plume": {"gsm8k": (45.39, 41.47), "cruxeval": (62.31, 50.62)},
    "d2l": {"gsm8k": (23.18, 16.42), "cruxeval": (39.48, 13.63)},
}
"""(recall, judge)."""

LOCALITY = {"plume": 84.24, "base with context": 96.42, "d2l": 84.24 - 10.25, "cd": 84.24 - 20.30}
NORMALISED_RECALL = {"plume": 81.36, "memory only": 57.28, "global only": 63.95}
NORMALISED_LOCALITY = {"plume": 87.37, "memory only": 87.37 - 11.03, "global only": 87.37 - 4.80}
"""Both in percent of reading; of locality the paper gives the differences."""
CONTINUAL = {3: 79.27, 5: 78.72, 10: 78.05, 15: 77.74, 20: 77.18}
"""Recall after so many updates."""
TOP_K = {1: 45.90, 3: 67.73, 5: 71.79, 8: 74.93, 10: 75.86}
"""Teacher-forced recall within k candidates."""
SWEEP: dict[str, dict[float, float]] = {
    "beta": {0.125: 71.94, 0.75: 80.65, 3.0: 70.62},
    "tau": {0.2: 80.10, 0.3: 80.65, 0.4: 80.24, 1.0: 78.77},
    "lambda_max": {1.0: 80.65, 5.0: 79.21},
}
"""Recall on SQuAD by parameter and value."""
EFFICIENCY: dict[str, dict[str, float]] = {
    "plume, squad": {"update_s": 0.447, "update_gib": 0.438, "generation_s": 1.592, "generation_gib": 0.059},
    "d2l, squad": {"generation_s": 1.577, "generation_gib": 0.039},
    "plume, 2wikimultihopqa": {
        "update_s": 1.832,
        "update_gib": 11.536,
        "generation_s": 5.152,
        "generation_gib": 0.068,
    },
}
"""On an A800."""
