"""Trains the embedding beside a network: two linear maps of what its reader keeps; a text lies near its question.

    python bench/training/embedding.py OUT [--hypernetwork DIR] [--data ../shared/data/train] [--seed 1]

OUT gets a copy of the network with `embedding.safetensors`, and `states.safetensors`, what the reader keeps of every
text and question, which take most of the time: a killed run goes on from there. Loss: cross-entropy over the texts and
over the questions of a batch (InfoNCE, van den Oord et al. 2018), a text's other questions and a question's other texts
left out.

Learns from sentences that hold the answer of a question of SQuAD and SQuADShifts, from the claims of `written/` that
are true, from `written/paraphrases.jsonl`, a note and a question that share no word, and from
`written/conversations*.jsonl`: what is asked of a conversation or of somebody's notes, and which of its texts answer.
Measured on a part of SQuAD that nothing learns from, and on the files of these names in `held_out/`.
One JSON line a figure.
"""

import argparse
import gzip
import json
import random
import re
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from safetensors import torch as safetensors
from torch import Tensor, nn
from torch.nn import functional as F

from plume_memory.engine import Engine
from plume_memory.hypernet.embedding import EmbeddingWeights, save_embedding
from plume_memory.hypernet.fastweight.checkpoint import read_manifest, write_manifest
from plume_memory.lru import Owned
from plume_memory.retrieval.reader import Reader
from plume_memory.training.conversations import WrittenConversations

HERE = Path(__file__).parent
HELD_OUT = HERE / "../experiments/held_out"
WIDTH, BATCH, EPOCHS, RATE, DECAY, DROPOUT = 128, 512, 24, 2e-3, 0.05, 0.3
PARAPHRASES_TIMES = 3
"""How often the paraphrases are seen an epoch: they are few, and what the words cannot find."""
CONVERSATIONS_TIMES = 4
"""The same of conversations: fewer than sentences, and what most memories hold."""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*[\"')\]]*")
_AT_ONCE = 64


class Pair(NamedTuple):
    """A text, and what is asked about it."""

    text: str
    question: str


class _Nobody:
    """Whose texts are read here."""

    place = owner = "training"

    def is_current(self) -> bool:
        """Nothing is erased."""
        return True


def answered(paths: Iterable[Path], most: int, chance: random.Random) -> list[Pair]:
    """Sentences that alone of their passage hold the answer, two questions of a passage at most."""
    passages = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            passages += [json.loads(line) for line in file]
    chance.shuffle(passages)
    found: list[Pair] = []
    for passage in passages:
        for one in chance.sample(passage["qas"], min(2, len(passage["qas"]))):
            if not one["answers"]:
                continue
            answer = one["answers"][0].lower()
            told = [match.group().strip() for match in _SENTENCE.finditer(passage["context"])]
            holding = [text for text in told if answer in text.lower() and 4 < len(text.split()) < 40]
            found += [Pair(holding[0], one["question"])] if len(holding) == 1 else []
        if len(found) >= most:
            break
    return found


def written() -> list[Pair]:
    """What true claims ask about their text, and the paraphrases."""
    found: dict[Pair, None] = {}
    for path in sorted((HERE / "written").glob("claims*.jsonl")):
        for one in map(json.loads, path.read_text("utf-8").splitlines()):
            found |= dict.fromkeys(Pair(one["text"], question) for question, _, is_true in one["claims"] if is_true)
    return [*found, *paraphrases(HERE / "written/paraphrases.jsonl") * PARAPHRASES_TIMES]


def paraphrases(path: Path) -> list[Pair]:
    """Notes, and questions that share no word with them."""
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return [Pair(one["note"], one["question"]) for one in lines]


def conversations(path: Path, chance: random.Random) -> tuple[list[Pair], list[str]]:
    """Questions with the texts that answer them, and all texts, as units have them."""
    found, texts = [], []
    for one in WrittenConversations([path]).told(chance):
        found += [Pair(one.texts[at], question) for question, own in one.asked for at in sorted(own)]
        texts += one.texts
    return found, texts


class States:
    """The reader's final hidden states [E], float16; kept in a file as they are made."""

    def __init__(self, reader: Reader, path: Path) -> None:
        self._reader, self._path = reader, path
        self._kept: dict[str, dict[str, Tensor]] = {"texts": {}, "questions": {}}
        if path.exists():
            with safe_open(path, framework="pt") as file:
                for kind in file.keys():  # noqa: SIM118 — no dictionary; a kind that was not begun is missing
                    names = json.loads(file.metadata()[kind])
                    self._kept[kind] |= dict(zip(names, file.get_tensor(kind), strict=True))

    def read(self, texts: Iterable[str], questions: Iterable[str]) -> None:
        """Read what is not there yet."""
        texts = sorted(set(texts) - self._kept["texts"].keys(), key=len)
        questions = sorted(set(questions) - self._kept["questions"].keys(), key=len)
        nobody: Owned = _Nobody()
        saved = time.monotonic()
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            self._kept["texts"] |= dict(zip(some, self._reader.text_states(some, nobody).half().cpu(), strict=True))
            saved = self._saved(saved, "texts", start, len(texts))
        for start in range(0, len(questions), _AT_ONCE):
            some = questions[start : start + _AT_ONCE]
            self._kept["questions"] |= dict(zip(some, self._reader.question_states(some).half().cpu(), strict=True))
            saved = self._saved(saved, "questions", start, len(questions))
        self._save()

    def _saved(self, last: float, what: str, done: int, of: int) -> float:
        if time.monotonic() - last < 60:
            return last
        self._save()
        print(f"{what} {done}/{of}", file=sys.stderr, flush=True)
        return time.monotonic()

    def _save(self) -> None:
        kept = {kind: own for kind, own in self._kept.items() if own}
        names = {kind: json.dumps(list(self._kept[kind])) for kind in self._kept}
        safetensors.save_file({kind: torch.stack(list(own.values())) for kind, own in kept.items()}, self._path, names)

    def texts(self, texts: Sequence[str]) -> Tensor:
        """[texts, E], each of length 1."""
        return F.normalize(torch.stack([self._kept["texts"][one] for one in texts]).float(), dim=1)

    def questions(self, questions: Sequence[str]) -> Tensor:
        """[questions, E], each of length 1."""
        return F.normalize(torch.stack([self._kept["questions"][one] for one in questions]).float(), dim=1)


def trained(states: States, pairs: Sequence[Pair], seed: int) -> EmbeddingWeights:
    """Fit both maps."""
    torch.manual_seed(seed)
    x, y = states.texts([one.text for one in pairs]), states.questions([one.question for one in pairs])
    same_text = torch.tensor(_numbered([one.text for one in pairs]))
    same_question = torch.tensor(_numbered([one.question for one in pairs]))
    (x, x_mean, x_scale), (y, y_mean, y_scale) = _standard(x), _standard(y)
    text, question = nn.Linear(x.shape[1], WIDTH), nn.Linear(x.shape[1], WIDTH)
    question.load_state_dict(text.state_dict())
    sharpness = nn.Parameter(torch.tensor(3.0))
    parameters = [*text.parameters(), *question.parameters(), sharpness]
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    for epoch in range(EPOCHS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - epoch / EPOCHS)
        for some in torch.randperm(len(pairs)).split(BATCH):
            a = F.normalize(text(F.dropout(x[some], DROPOUT)), dim=1)
            b = F.normalize(question(F.dropout(y[some], DROPOUT)), dim=1)
            others = same_text[some][:, None] == same_text[some]
            others |= same_question[some][:, None] == same_question[some]
            others &= ~torch.eye(len(some), dtype=torch.bool)
            likeness = (b @ a.T * sharpness.exp()).masked_fill(others, -1e4)
            own = torch.arange(len(some))
            loss = F.cross_entropy(likeness, own) + F.cross_entropy(likeness.T, own)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(json.dumps({"epoch": epoch, "loss": round(float(loss.detach()), 3)}), flush=True)
    return EmbeddingWeights(
        *_folded(text, x_mean, x_scale),
        *_folded(question, y_mean, y_scale),
    )


def _numbered(texts: Sequence[str]) -> list[int]:
    """The same number for the same text."""
    places = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return [places[text] for text in texts]


def _standard(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean, scale = x.mean(0), x.std(0) + 1e-5
    return (x - mean) / scale, mean, scale


def _folded(linear: nn.Linear, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The map of states of length 1 as they are."""
    weight = linear.weight.detach() / scale
    return weight, linear.bias.detach() - weight @ mean


def measure(name: str, weights: EmbeddingWeights, states: States, asked: Sequence[Pair], beside: Sequence[str]) -> None:
    """Print how often a question's text is among the k nearest of all texts."""
    texts = list(dict.fromkeys([*(one.text for one in asked), *beside]))
    places = {text: at for at, text in enumerate(texts)}
    a = F.normalize(F.linear(states.texts(texts), weights.text, weights.text_bias), dim=1)
    b = states.questions([one.question for one in asked])
    likeness = F.normalize(F.linear(b, weights.question, weights.question_bias), dim=1) @ a.T
    own = torch.tensor([places[one.text] for one in asked])
    before = (likeness > likeness[torch.arange(len(own)), own][:, None]).sum(1)
    shares = {f"@{k}": round(float((before < k).float().mean()), 3) for k in (1, 3, 8, 12, 32)}
    print(json.dumps({"what": name, "questions": len(asked), "texts": len(texts), **shares}), flush=True)


def main() -> None:
    """Read, fit, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--hypernetwork", type=Path, default=HERE / "../../plume_memory/hypernet/weights/smollm2-135m")
    parser.add_argument("--data", type=Path, default=HERE / "../../../shared/data/train")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    squad = [given.data / f"squad_v1.1_trainpart{part}.jsonl.gz" for part in ("", "2", "3", "4")]
    pairs = answered(squad[:3], 3200, chance)
    for source in ("reddit", "amazon_reviews"):
        pairs += answered([given.data / f"squadshifts_{source}_test.jsonl.gz"], 700, chance)
    held_out = answered(squad[3:], 600, chance)
    pairs += written()
    for path in sorted((HERE / "written").glob("conversations*.jsonl")):
        pairs += conversations(path, chance)[0] * CONVERSATIONS_TIMES
    talked = {path.stem: conversations(path, chance) for path in sorted(HELD_OUT.glob("conversations*.jsonl"))}
    unseen = paraphrases(HELD_OUT / "paraphrases.jsonl")
    engine = Engine.load("smollm2-135m", hypernetwork=str(given.hypernetwork), dtype="float32")
    given.out.mkdir(parents=True, exist_ok=True)
    states = States(engine.reader, given.out / "states.safetensors")
    every = [*pairs, *held_out, *unseen, *(one for asked, _ in talked.values() for one in asked)]
    turns = [text for _, texts in talked.values() for text in texts]
    states.read([*turns, *(one.text for one in every)], [one.question for one in every])
    weights = trained(states, pairs, given.seed)
    measure("squad", weights, states, held_out, ())
    for name, (asked, texts) in talked.items():
        measure(name, weights, states, asked, texts)
    measure("paraphrases", weights, states, unseen, ())
    measure("paraphrases among all", weights, states, unseen, [one.text for one in (*pairs, *held_out)])
    folder = given.out / "hypernetwork"
    shutil.copytree(given.hypernetwork, folder, dirs_exist_ok=True)
    sha256 = save_embedding(weights, folder)
    write_manifest(read_manifest(folder).model_copy(update={"embedding_sha256": sha256}), folder)


if __name__ == "__main__":
    main()
