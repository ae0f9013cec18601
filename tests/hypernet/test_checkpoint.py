"""Converting the reference's pickle: nothing runs, nothing is dropped, every refusal names its reason."""

import io
import os
import pickle  # noqa: TID251 — to write what the reader must refuse
import zipfile

import pytest
import torch

from plume_memory.errors import CheckpointError, UnsafeCheckpoint
from plume_memory.hypernet.d2l.checkpoint import convert, load, read_manifest
from plume_memory.hypernet.d2l.pickle_reader import read_checkpoint


def refused(ref, tmp_path, match):
    with pytest.raises(CheckpointError, match=match) as caught:
        convert(ref.save(tmp_path / "m.bin"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    return caught.value


# --- what is read -------------------------------------------------------------------------------


def test_the_manifest_says_where_the_weights_come_from(reference, tmp_path):
    manifest = read_manifest(convert(reference().save(tmp_path / "m.bin"), tmp_path / "out"))
    assert manifest.base_model == "base"
    assert len(manifest.source_sha256) == 64
    assert manifest.network.lora_alpha == pytest.approx(2 * 3**1.5)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("option", [{"compiled": True}, {"enums": "by value"}, {"enums": "by name"}])
def test_compiled_and_enum_checkpoints_are_the_same_network(reference, recipe, tmp_path, option):
    plain = load(convert(reference().save(tmp_path / "a.bin"), tmp_path / "a"))
    other = load(convert(reference(recipe(**option)).save(tmp_path / "b.bin"), tmp_path / "b"))
    assert other.config == plain.config
    for name, tensor in plain.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def test_older_checkpoints_get_their_defaults(reference, recipe, tmp_path):
    ref = reference(recipe(pre_head=4))
    for option in ("num_pre_head_layers", "use_bias", "use_per_rank_bias"):
        del ref.hypernet[option]
    config = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out")).config
    assert config.pre_head_blocks == 4
    assert config.use_bias


@pytest.mark.parametrize("stored", [True, False])
def test_without_use_bias_there_is_no_bias_block(reference, recipe, tmp_path, stored):
    ref = reference(recipe(use_bias=False))
    if not stored:
        ref.tensors = {name: t for name, t in ref.tensors.items() if not name.startswith("bias_")}
    folder = convert(ref.save(tmp_path / "m.bin"), tmp_path / "out")
    assert load(folder).bias() is None
    unused = ("bias_A.down_proj", "bias_B.down_proj") if stored else ()
    assert read_manifest(folder).unused == unused


def test_the_bias_block_carries_the_scale(reference, tmp_path):
    ref = reference()
    bias = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out")).bias()
    assert torch.equal(bias.modules["mlp.down_proj"].A, ref.tensors["bias_A.down_proj"])
    assert bias.scale == pytest.approx(2 * 3**1.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_kept(reference, tmp_path, dtype):
    ref = reference()
    ref.tensors = {name: t.to(dtype) for name, t in ref.tensors.items()}
    network = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out"))
    assert network.heads.head.dtype == dtype


def test_views_of_one_storage_and_parameters_are_read(reference, tmp_path):
    ref = reference()
    wide = torch.randn(4, 16)
    ref.tensors["aggregator.perceiver.encoder.latents_q"] = wide.T[3:8, :].repeat(1, 2)
    ref.tensors["aggregator.perceiver.decoder.latents_q"] = torch.nn.Parameter(torch.randn(8, 3).T)
    network = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out"))
    assert torch.equal(network.perceiver.decoder.latents_q, ref.tensors["aggregator.perceiver.decoder.latents_q"])


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "option", "value"),
    [
        ("hypernet", "use_light_weight_lora", True),
        ("hypernet", "use_token_mixing", True),
        ("hypernet", "per_rank_gen", False),
        ("hypernet", "extra_modules", ["input_layernorm"]),
        ("hypernet", "latent_size", 9),
        ("hypernet", "num_pre_head_layers", 2),
        ("hypernet", "per_layer_processing", False),
        ("hypernet", "layer_indices", torch.tensor([1, 0])),
        ("hypernet", "feature_sizes", None),
        ("hypernet", "chunk_lora_merge_mode", "mlp"),
        ("aggregator", "aggregator_type", "pooler"),
        ("aggregator", "layer_to_layer_ctx_encoder", False),
        ("aggregator", "num_blocks", 3),
        ("aggregator", "n_latent_queries", 6),
        ("aggregator", "num_modules", 2),
        ("encoder", "ctx_encoder_type", "early_exit"),
        ("encoder", "ctx_encoder_model_name_or_path", "another/model"),
        ("encoder", "ctx_encoder_last_layer", 1),
    ],
)
def test_an_unsupported_option_is_named(reference, tmp_path, group, option, value):
    ref = reference()
    getattr(ref, group)[option] = value
    refused(ref, tmp_path, option)


def test_weights_that_should_be_shared_and_are_not_are_refused(reference, recipe, tmp_path):
    ref = reference(recipe(blocks=3))
    ref.aggregator["shared_weights"] = True
    refused(ref, tmp_path, "shared_weights")


@pytest.mark.parametrize("fits", [True, False])
def test_use_per_rank_bias_is_read_where_the_shapes_are_known(reference, tmp_path, fits):
    """The reference stores the option and never reads it; a bias of another shape is refused by its name."""
    ref = reference()
    ref.hypernet["use_per_rank_bias"] = True
    if fits:
        assert load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out")).bias() is not None
    else:
        ref.tensors["bias_A.down_proj"] = torch.zeros(2, 3, 3, 24)
        refused(ref, tmp_path, "use_per_rank_bias")


def test_lora_options_are_named(reference, tmp_path):
    ref = reference()
    ref.lora.use_dora = True
    refused(ref, tmp_path, "use_dora")


@pytest.mark.parametrize("change", ["extra", "missing", "shape", "integer"])
def test_no_tensor_is_dropped_silently(reference, tmp_path, change):
    ref = reference()
    name = "layers.0.layers.0.weight"
    if change == "extra":
        name = "token_mixer.weight"
        ref.tensors[name] = torch.zeros(2)
    elif change == "missing":
        del ref.tensors[name]
    elif change == "shape":
        ref.tensors[name] = torch.zeros(3)
    else:
        ref.tensors[name] = torch.zeros(8, dtype=torch.int64)
    refused(ref, tmp_path, name.replace(".", r"\."))


def test_a_folder_in_use_is_not_overwritten_unless_asked(reference, tmp_path):
    source = reference().save(tmp_path / "m.bin")
    convert(source, tmp_path / "out")
    with pytest.raises(CheckpointError, match="ask to overwrite"):
        convert(source, tmp_path / "out")
    convert(source, tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(CheckpointError, match=r"thesis\.tex"):
        convert(source, tmp_path / "out", overwrite=True)
    with pytest.raises(CheckpointError, match="is a file"):
        convert(source, source)


# --- what is dangerous --------------------------------------------------------------------------


class Call:
    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize(
    ("function", "named"), [(os.system, r"\.system"), (eval, r"\.eval"), (getattr, r"\.getattr"), (open, r"\.open")]
)
def test_a_malicious_pickle_executes_nothing_and_is_named(tmp_path, function, named):
    witness = tmp_path / "witness"
    arguments = {
        os.system: (f"touch {witness}",),
        eval: (f"open({str(witness)!r}, 'w')",),
        getattr: ("text", "upper"),
        open: (str(witness), "w"),
    }[function]
    torch.save({"head.weight": Call(function, *arguments)}, tmp_path / "m.bin")
    with pytest.raises(UnsafeCheckpoint, match=named):
        convert(tmp_path / "m.bin", tmp_path / "out")
    assert not witness.exists()


def test_a_state_cannot_rewrite_the_reader(tmp_path):
    """BUILD on an admitted class or function finds nothing it could set."""
    for opcodes in (b"cctx_to_lora.configs\nCtxEncoderArguments\n", b"ctorch._utils\n_rebuild_tensor_v2\n"):
        write_archive(tmp_path / "m.bin", b"\x80\x02" + opcodes + b"}(X\x01\x00\x00\x00aK\x01ub.")
        with pytest.raises(CheckpointError):
            read_checkpoint(tmp_path / "m.bin")


@pytest.mark.parametrize(
    "tensor",
    [
        (0, (9,), (1,)),  # beyond the storage
        (3, (2,), (1,)),
        (-1, (2,), (1,)),
        (0, (2, 2), (1,)),
        (0, (2,), (-1,)),
        (0, (2.0,), (1,)),
        (0, (2,), (10**12,)),
        (0, (10**12,), (0,)),
    ],
)
def test_a_tensor_that_lies_about_its_extent_is_refused(tmp_path, tensor):
    write_archive(tmp_path / "m.bin", pickled_tensor(*tensor), {"data/0": b"\0" * 16})
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path / "m.bin")


@pytest.mark.parametrize("memo", ["named", "numbered", "doubled"])
@pytest.mark.parametrize("use", [b"K\x01s.", b"0."], ids=["as a key", "not used"])
def test_tuples_that_would_take_forever_to_hash_are_refused(tmp_path, memo, use):
    """Each of forty holds the one before twice: a small file, and a trillion tuples written out."""
    twice = {"named": b"q\x00h\x00\x86", "numbered": b"\x940h%ch%c\x86", "doubled": b"2\x86"}[memo]
    nested = b")" + b"".join(twice.replace(b"%c", bytes([depth])) for depth in range(40))
    write_archive(tmp_path / "m.bin", b"\x80\x04}" + nested + use)
    with pytest.raises(CheckpointError, match="a tuple is made of more than"):
        read_checkpoint(tmp_path / "m.bin")


def test_tuples_of_many_things_and_marks_that_are_popped_are_read(tmp_path):
    numbers = b"(" + b"K\x01" * 5000 + b"t"
    write_archive(tmp_path / "m.bin", b"\x80\x04}(0X\x01\x00\x00\x00a" + numbers + b"s.")
    assert read_checkpoint(tmp_path / "m.bin")["a"] == (1,) * 5000


@pytest.mark.parametrize("content", [b"", b"\0" * 15, b"\0" * 17])
def test_a_storage_of_the_wrong_size_is_refused(tmp_path, content):
    write_archive(tmp_path / "m.bin", pickled_tensor(0, (4,), (1,)), {"data/0": content})
    with pytest.raises(CheckpointError, match="storage 0"):
        read_checkpoint(tmp_path / "m.bin")


def test_a_sound_archive_of_that_making_is_read(tmp_path):
    write_archive(tmp_path / "m.bin", pickled_tensor(1, (3,), (1,)), {"data/0": b"\0\0\x80\x3f" * 4})
    assert torch.equal(read_checkpoint(tmp_path / "m.bin")["x"], torch.ones(3))


# --- what is no checkpoint ----------------------------------------------------------------------


def test_foreign_files_are_checkpoint_errors(tmp_path, reference):
    path = tmp_path / "m.bin"
    torch.save({"x": torch.zeros(1)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"before 1\.6"):
        read_checkpoint(path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="zip"):
        read_checkpoint(path)
    with pytest.raises(CheckpointError, match="No such file"):
        read_checkpoint(tmp_path / "none")
    torch.save([torch.zeros(1)], path)
    with pytest.raises(CheckpointError, match="holds a list"):
        read_checkpoint(path)
    torch.save({"x": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="Not a Doc-to-LoRA checkpoint"):
        convert(path, tmp_path / "out")
    whole = reference().save(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


@pytest.mark.parametrize(("change", "match"), [("order", "byte order"), ("deflate", "compressed"), ("none", "0 files")])
def test_archives_torch_would_not_write_are_refused(tmp_path, change, match):
    path = tmp_path / "m.bin"
    members = {"byteorder": b"big" if change == "order" else b"little"}
    compression = zipfile.ZIP_DEFLATED if change == "deflate" else zipfile.ZIP_STORED
    write_archive(path, b"\x80\x02}.", members, compression, name="other" if change == "none" else "data.pkl")
    with pytest.raises(CheckpointError, match=match):
        read_checkpoint(path)


def test_a_converted_folder_that_does_not_fit_is_refused(reference, tmp_path):
    folder = convert(reference().save(tmp_path / "m.bin"), tmp_path / "out")
    config = (folder / "config.json").read_text()
    for text, match in (
        (config.replace('"format": 1', '"format": 2'), "format 2"),
        (config.replace('"rank": 3', '"rank": 4'), "do not fit"),
        (config.replace('"heads": 2', '"heads": 3', 1), "do not fit"),
        (config.replace('"rank": 3', '"rang": 3'), "rank"),
        ("{", "not a manifest"),
    ):
        (folder / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=match):
            load(folder)
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="Convert the checkpoint again"):
        load(folder)
    with pytest.raises(CheckpointError, match="no converted checkpoint"):
        load(tmp_path / "none")


class _Persistent:
    """Pickles as a persistent id; what torch does with a storage."""


class _Pickler(pickle._Pickler):  # the Python one, so that names of absent classes can be written
    def persistent_id(self, obj):
        return ("storage", torch.FloatStorage, "0", "cpu", 4) if isinstance(obj, _Persistent) else None


def pickled_tensor(offset, size, stride):
    buffer = io.BytesIO()
    made = Call(torch._utils._rebuild_tensor_v2, _Persistent(), offset, size, stride, False, {})
    _Pickler(buffer, protocol=2).dump({"x": made})
    return buffer.getvalue()


def write_archive(path, content, members=None, compression=zipfile.ZIP_STORED, name="data.pkl"):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"m/{name}", content)
        for member, value in (members or {}).items():
            archive.writestr(f"m/{member}", value)
