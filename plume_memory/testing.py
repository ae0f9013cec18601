"""Small real models, a byte tokenizer and a database for tests: yours and ours. CPU, offline, milliseconds.

`tiny_base("llama")` is a random model of a supported family behind the same `BaseModel` the engine
uses, `memory_database()` the store's own `Database`; nothing is mocked.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.policy import AnswerPolicy
from plume_memory.store.database import Database

_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def byte_tokenizer() -> Any:
    """Return a fast tokenizer whose tokens are the 256 bytes and three special tokens (259 ids)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 — only tests pay for it
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 — as above

    vocab = {token: i for i, token in enumerate([*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment,unused-ignore]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment,unused-ignore]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        bos_token="<|im_start|>",
    )
    fast.add_special_tokens({"additional_special_tokens": list(_SPECIAL)})
    fast.chat_template = _TEMPLATE
    return fast


def tiny_base(family: str = "llama", *, seed: int = 0, layers: int = 3, context_window: int = 2048) -> BaseModel:
    """Return a random float32 model of one family: hidden 32, MLP 64, byte vocabulary.

    Raises:
        InvalidInput: not one of llama, mistral, qwen2, qwen3, gemma2.
    """
    import transformers as hf  # noqa: PLC0415 — three seconds; only tests that need a model pay them

    classes: dict[str, tuple[Any, Any]] = {
        "llama": (hf.LlamaConfig, hf.LlamaForCausalLM),
        "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM),
        "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM),
        "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM),
        "mistral": (hf.MistralConfig, hf.MistralForCausalLM),
    }
    if family not in classes:
        raise InvalidInput(f"No tiny model of family {family!r}; have {', '.join(classes)}.")
    config_class, model_class = classes[family]
    tokenizer = byte_tokenizer()
    special: dict[str, Any] = {"sliding_window": 24} if family in ("gemma2", "mistral") else {}
    config = config_class(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=context_window,
        initializer_range=0.3,  # wide enough that greedy answers differ from each other
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,  # a tied random model echoes its last token
        attn_implementation="eager" if family == "gemma2" else "sdpa",
        **special,
    )
    torch.manual_seed(seed)
    model = model_class(config).float()
    digest = hashlib.sha256(f"{family}-{seed}-{layers}".encode()).hexdigest()
    return BaseModel.wrap(model, tokenizer, name=f"tiny-{family}", fingerprint=digest)


def random_factors(base: BaseModel, *, rank: int = 4, seed: int = 0, size: float = 0.1) -> LoraFactors:
    """Return random float32 factors for every layer's `mlp.down_proj` of a model."""
    config = base.config
    generator = torch.Generator().manual_seed(seed)
    layers = config.num_hidden_layers
    A = torch.randn(layers, rank, config.intermediate_size, generator=generator)
    B = torch.randn(layers, rank, config.hidden_size, generator=generator) * size
    return LoraFactors({"mlp.down_proj": Pair(A, B)}, tuple(range(layers)))


class HashParameterizer:
    """H(text) as random factors seeded by the text's sha256: instant, deterministic, different for every text.

    It learns nothing; it is for testing what surrounds a parameterizer. `calls` lists the texts it was asked for.
    With `shares_a` all texts have one A and factors add up in B, as the shipped network's do.
    """

    def __init__(
        self,
        base: BaseModel,
        *,
        rank: int = 2,
        additive: bool = False,
        bias: bool = False,
        shares_a: bool = False,
        max_tokens: int = 8192,
    ) -> None:
        self.additive = additive or shares_a
        self.max_tokens = max_tokens
        self.shared_a = {name: pair.A for name, pair in _shared(base, rank).items()} if shares_a else None
        """Module path → the A of all texts; None where every text has its own."""
        self.bias = random_factors(base, rank=rank, seed=7, size=0.02) if bias else None
        self.calls: list[str] = []
        self._base = base
        self._rank = rank

    @property
    def fingerprint(self) -> str:
        """Names the rule, the rank and whether there is a bias."""
        return f"hash-1-{self._rank}-{self.bias is not None}" + ("-shared" if self.shared_a else "")

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """Return one adapter per text."""
        self.calls.extend(texts)
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little") for text in texts]
        made = [random_factors(self._base, rank=self._rank, seed=seed) for seed in seeds]
        return made if self.shared_a is None else [_with_a(one, self.shared_a) for one in made]


def _shared(base: BaseModel, rank: int) -> Mapping[str, Pair]:
    return random_factors(base, rank=rank, seed=11).modules


def _with_a(factors: LoraFactors, A: Mapping[str, torch.Tensor]) -> LoraFactors:
    return LoraFactors({name: Pair(A[name], pair.B) for name, pair in factors.modules.items()}, factors.layers)


def tiny_engine(
    family: str = "llama",
    *,
    policy: AnswerPolicy | None = None,
    additive: bool = False,
    bias: bool = False,
    shares_a: bool = False,
) -> Engine:
    """Return an engine on a random model with a `HashParameterizer`; answers are short gibberish."""
    base = tiny_base(family)
    chosen = policy or AnswerPolicy(max_new_tokens=8, unit_tokens=64)
    return Engine(base, HashParameterizer(base, additive=additive, bias=bias, shares_a=shares_a), chosen)


def memory_database() -> Database:
    """Return an empty database in this process's memory: gone when it is closed.

    It passes the tests that SQLite files and PostgreSQL pass, but for this: it is one connection, so a reader waits
    for the writer, and a read inside a write in the same thread waits for itself until StoreUnavailable.
    """
    return Database("sqlite://")
