"""The encoding counts as the tokenizer it was built from does."""

import json
import random

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from plume_memory.segmentation.tokens import SLICE_CHARS, build_encoding, byte_alphabet, token_counter

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
PRE_TOKENIZERS = {
    "gpt2": GPT2,
    "smollm2": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
    "digits together": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), GPT2]),
    "qwen": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), BYTES]),
    "llama3": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), BYTES]),
}
SENTENCES = [
    "The lighthouse keeper's 14 lamps weren't lit in 1987, she'd say.",
    "def f(x):\n    return x ** 2  # 3.5 units\n\n\n",
    "Ünïcode façade — “quotes” 日本語のテキスト 한국어 🎉👩‍👩‍👧",
    "tabs\tand  runs   of    spaces \r\n and ¼ ² Ⅷ ३ numbers 12345",
]
ODD = "abc XYZ 0123456789\n\t\r  '.,éß中文日本語한국🎉👩\u200d¼²Ⅷ३\u00a0\u2003\x00_-+{}()ѐ\u0301sdmtrevl"


def train(pre_tokenizer) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES * 20, trainer)
    return tokenizer


def odd_texts() -> list[str]:
    rng = random.Random(7)
    return SENTENCES + ["".join(rng.choices(ODD, k=rng.randrange(1, 60))) for _ in range(1000)]


@pytest.mark.parametrize("kind", PRE_TOKENIZERS)
def test_ids_equal_those_of_the_tokenizer(kind):
    tokenizer = train(PRE_TOKENIZERS[kind])
    spec = json.loads(tokenizer.to_str())
    encoding = build_encoding(spec, kind)
    assert encoding is not None
    letter_of = {byte: char for char, byte in byte_alphabet().items()}
    for text in odd_texts():
        ranks = encoding.encode_ordinary(text)
        tokens = [encoding.decode_single_token_bytes(rank) for rank in ranks]
        ids = [spec["model"]["vocab"]["".join(letter_of[byte] for byte in token)] for token in tokens]
        assert ids == tokenizer.encode(text).ids, text


def test_the_json_text_and_the_older_merges_are_read_too():
    spec = json.loads(train(GPT2).to_str())
    expected = build_encoding(spec, "a").encode_ordinary(SENTENCES[0])
    spec["model"]["merges"] = [" ".join(merge) for merge in spec["model"]["merges"]]
    assert build_encoding(json.dumps(spec), "b").encode_ordinary(SENTENCES[0]) == expected


def changed(**changes) -> dict:
    spec = json.loads(train(GPT2).to_str())
    model = changes.pop("model", {})
    return {**spec, **changes, "model": {**spec["model"], **model}}


@pytest.mark.parametrize(
    "spec",
    [
        changed(pre_tokenizer=None),
        changed(pre_tokenizer={"type": "Metaspace", "replacement": "▁"}),
        changed(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}),
        changed(normalizer={"type": "Lowercase"}),
        changed(model={"type": "Unigram"}),
        changed(model={"byte_fallback": True}),
        changed(model={"merges": []}),
        changed(model={"merges": [["▁", "a"]]}),
        changed(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False},
                    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
                ],
            }
        ),
    ],
)
def test_another_kind_of_tokenizer_gives_none(spec):
    assert build_encoding(spec, "other") is None


def test_a_long_text_is_counted_exactly_in_slices():
    encoding = build_encoding(train(PRE_TOKENIZERS["qwen"]).to_str(), "qwen")
    text = " ".join(SENTENCES * 2000)
    assert len(text) > 3 * SLICE_CHARS
    assert token_counter(encoding)(text) == len(encoding.encode_ordinary(text))


@pytest.mark.parametrize("char", [" ", "^", "\n"])
def test_a_run_that_would_overflow_the_regex_engine_is_counted(char):
    count = token_counter(build_encoding(train(GPT2).to_str(), "gpt2"))
    assert 0 < count(char * 1_200_000) <= 1_200_000


def test_a_lone_surrogate_is_counted():
    assert token_counter(build_encoding(train(GPT2).to_str(), "gpt2"))("a\ud800b") > 0
