"""Exports factors as stock vLLM serves them: a PEFT folder under a name that is used once, of a rank that it has.

vLLM keeps an adapter, and the prefixes it has computed with it, under the adapter's name: a name that came to mean
other weights would answer from the old ones. So the name is made of the content. Knows no vLLM: its rules are its
documentation's (0.33).
"""

import hashlib
import json
import shlex
from pathlib import Path

from plume_memory.errors import InvalidInput
from plume_memory.lora.algebra import padded
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import export_peft, to_bytes

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` may be."""
_NAME_CHARS = 24


def export_vllm(
    factors: LoraFactors, directory: Path, *, base_model: str, base_fingerprint: str, revision: str | None = None
) -> Path:
    """Write a folder for vLLM into a directory, atomically, and return it. Its name is the adapter's.

    Equal factors of an equal model get an equal name, and no others. The rank is rounded up with rows of zeros, which
    change nothing; the scale is folded into B.

    Args:
        factors: the adapter.
        directory: where adapters are kept; a LoRA resolver of vLLM's looks there by name.
        base_model: name or path that vLLM loads the base model from.
        base_fingerprint: of the base model.
        revision: of the base model's name, where it is one of the hub.

    Raises:
        InvalidInput: the rank is above all that vLLM serves.
    """
    content = to_bytes(factors, fingerprints={"model": base_fingerprint})
    folder = directory / f"plume-{hashlib.sha256(content).hexdigest()[:_NAME_CHARS]}"
    fitting = padded(factors, served_rank(factors.rank))
    export_peft(fitting, folder, base_model=base_model, base_fingerprint=base_fingerprint, revision=revision)
    return folder


def served_rank(rank: int) -> int:
    """Return the least rank that vLLM serves and that holds this one.

    Raises:
        InvalidInput: there is none.
    """
    found = next((each for each in RANKS if each >= rank), None)
    if found is None:
        raise InvalidInput(
            f"The adapter has rank {rank}, and vLLM serves at most {RANKS[-1]}. Networks that give every text one A "
            "keep one rank; of others the rank grows with the memory: export an earlier version, or a smaller memory."
        )
    return found


def flags_of(folder: Path) -> list[str]:
    """Return the command that starts vLLM with an exported folder, as words.

    It names the modules that the adapter is of: else vLLM makes room for adapters of all modules in every slot.
    """
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return [
        *("vllm", "serve", config["base_model_name_or_path"]),
        *("--enable-lora", "--max-lora-rank", str(config["r"])),
        *("--lora-target-modules", *sorted({path.rpartition(".")[2] for path in config["target_modules"]})),
        *("--lora-modules", f"{folder.name}={folder.absolute()}"),
    ]


def shown_command(folder: Path) -> str:
    """Return `flags_of` as a line for a shell."""
    return shlex.join(flags_of(folder))
