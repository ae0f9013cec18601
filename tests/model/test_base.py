"""Loading models, and the frame of their chat templates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from plume_memory.errors import InvalidInput, MissingChatTemplate, ModelError, UnknownArchitecture
from plume_memory.model.base import BaseModel
from plume_memory.model.prompt import ChatFormat, Piece
from plume_memory.testing import byte_tokenizer, tiny_base

GEMMA_TEMPLATE = (
    "{{ bos_token }}"
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' "
    "+ m['content'] + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


def saved(folder: Path, base: BaseModel, *, template: bool = True) -> Path:
    base.model.save_pretrained(folder)
    tokenizer = byte_tokenizer()
    if not template:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_folder_loads_and_gives_the_same_logits(tmp_path: Path, tiny: BaseModel) -> None:
    loaded = BaseModel.load(str(saved(tmp_path, tiny)), device="cpu", dtype="float32")

    ids = torch.tensor([[4, 8, 15, 16, 23]])
    with torch.no_grad():
        assert torch.equal(loaded.model(input_ids=ids).logits, tiny.model(input_ids=ids).logits)
    assert loaded.stop_ids == tiny.stop_ids
    assert not any(p.requires_grad for p in loaded.model.parameters())


def test_answering_loads_none_of_hugging_faces_modules(tmp_path: Path, tiny: BaseModel) -> None:
    """They take as much memory again, and a second to import."""
    loaded = BaseModel.load(str(saved(tmp_path, tiny)), device="cpu", dtype="float32")
    ids, positions = torch.tensor([[4, 8, 15, 16, 23]]), torch.arange(5)[None]
    with torch.inference_mode():
        found = loaded.passes.logits(loaded.passes.run(ids, positions))
        torch.testing.assert_close(found, tiny.model(input_ids=ids).logits, atol=1e-5, rtol=1e-5)
    assert "model" not in loaded.__dict__
    code = (
        "import sys\nfrom plume_memory.model.base import BaseModel\n"
        f"BaseModel.load({str(tmp_path)!r}, device='cpu').passes\n"
        "assert not [name for name in sys.modules if name.count('.modeling_') and '.auto.' not in name and "
        "name.startswith('transformers.models.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_weights_of_another_shape_than_the_config_says_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, tiny_base("llama"))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    with pytest.raises(ModelError, match=r"gate_proj.weight is \[64, 32\], the config asks for \[48, 32\]"):
        BaseModel.load(str(tmp_path), device="cpu")


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, tiny_base("llama"), template=False)

    with pytest.raises(MissingChatTemplate, match="has no chat template"):
        BaseModel.load(str(folder), device="cpu")


def test_an_unsupported_and_an_unknown_architecture_are_refused(tmp_path: Path) -> None:
    for kind, message in (
        ("gpt2", "is a 'gpt2' model; supported are llama"),
        ("no-such-kind", "does not know"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
        with pytest.raises(UnknownArchitecture, match=message):
            BaseModel.load(str(tmp_path), device="cpu")


def test_a_config_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": "wide"}))

    with pytest.raises(UnknownArchitecture, match="cannot read its config"):
        BaseModel.load(str(tmp_path), device="cpu")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    tiny_base("llama").model.config.save_pretrained(tmp_path)

    with pytest.raises(ModelError, match=r"holds no \.safetensors file"):
        BaseModel.load(str(tmp_path), device="cpu")


def test_a_pickle_beside_the_config_is_never_read(tmp_path: Path) -> None:
    tiny_base("llama").model.config.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/plume-pwned'\ntR.")

    with pytest.raises(ModelError, match=r"holds no \.safetensors file"):
        BaseModel.load(str(tmp_path), device="cpu")


def test_weights_that_lack_layers_are_refused_not_filled_with_noise(tmp_path: Path) -> None:
    saved(tmp_path, tiny_base("llama"))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))

    with pytest.raises(ModelError, match=r"lack \d+ of the tensors the config asks for"):
        BaseModel.load(str(tmp_path), device="cpu")


def test_truncated_weights_and_a_broken_tokenizer_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, tiny_base("llama"))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ModelError, match="cannot be loaded"):
        BaseModel.load(str(folder), device="cpu")
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="no tokenizer that transformers can read"):
        BaseModel.load(str(folder), device="cpu")


def test_the_fingerprint_follows_the_template_and_not_the_program_that_wrote_the_config(tmp_path: Path) -> None:
    folders = [saved(tmp_path / name, tiny_base("llama")) for name in ("a", "b", "c")]
    config = json.loads((folders[1] / "config.json").read_text())
    (folders[1] / "config.json").write_text(json.dumps({**config, "transformers_version": "9.9"}))
    template = folders[2] / "chat_template.jinja"
    template.write_text(template.read_text() + " ")

    a, b, c = (BaseModel.load(str(folder), device="cpu").fingerprint for folder in folders)

    assert a == b != c


def test_unknown_device_and_dtype_are_refused(tmp_path: Path) -> None:
    folder = str(saved(tmp_path, tiny_base("llama")))
    with pytest.raises(InvalidInput, match="Unknown device 'gpu'"):
        BaseModel.load(folder, device="gpu")
    with pytest.raises(InvalidInput, match="Unknown dtype 'int4'"):
        BaseModel.load(folder, device="cpu", dtype="int4")
    with pytest.raises(InvalidInput, match="'xpu' is not supported"):
        BaseModel.load(folder, device="xpu")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="sees no CUDA device"):
            BaseModel.load(folder, device="cuda")


def test_the_frame_carries_an_empty_system_turn() -> None:
    chat = ChatFormat.of(byte_tokenizer(), "tiny")

    assert chat.prefix == "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n"
    assert chat.suffix == "<|im_end|>\n<|im_start|>assistant\n"
    assert chat.prompt_ids("  hi \n") == chat.tokenizer(f"{chat.prefix}hi{chat.suffix}")["input_ids"]


def test_a_template_without_a_system_role_gets_it_folded_into_the_first_user_turn() -> None:
    """Gemma's frame in the reference: an empty system text leaves three line breaks after `user`."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = GEMMA_TEMPLATE
    chat = ChatFormat.of(tokenizer, "gemma")

    assert chat.prefix == "<|im_start|><start_of_turn>user\n\n\n"
    framed = chat.framed([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert framed.head == (Piece("<|im_start|><start_of_turn>user\nBe brief.\n\n", said=False),)


def test_a_frame_split_around_the_evidence_joins_to_the_prompt() -> None:
    chat = ChatFormat.of(byte_tokenizer(), "tiny")
    framed = chat.framed(
        [
            {"role": "user", "content": "Who are you?"},
            {"role": "assistant", "content": "A model."},
            {"role": "user", "content": "Where is Alice?"},
        ]
    )

    assert framed.prompt_ids() == chat.ids(framed.head) + framed.continuation_ids()
    told = (*framed.head, Piece("Alice is here.\n\n", said=True))
    assert framed.evidence_ids(" Alice is here.\n") == chat.ids(told)


def test_a_conversation_must_end_with_the_user() -> None:
    chat = ChatFormat.of(byte_tokenizer(), "tiny")
    for turns in ([], [{"role": "assistant", "content": "Hello"}], [{"role": "system", "content": "x"}]):
        with pytest.raises(InvalidInput, match="needs a user turn at its end"):
            chat.framed(turns)  # type: ignore[arg-type]


@pytest.mark.model
def test_smollm2_gets_no_default_system_text(smollm2: BaseModel) -> None:
    assert smollm2.chat.prefix == "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n"
    assert smollm2.stop_ids >= {2}
