"""GGUF files of llama.cpp as models: their records as the config.json, and their tensors under the names and in the
shapes, that Hugging Face has for the family. What is rebuilt from such a folder is then rebuilt from such a file.

What llama.cpp's converter (`convert_hf_to_gguf.py`) changes is undone here: rows of W_Q and W_K of Llama are in
another order, γ of Gemma's norms has its 1, GPT-2's matrices are (output, input), and Llama 3's stretching of
wavelengths is a table of factors. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.family import MOST
from model.checkpoints.convert.from_huggingface import checked_weights, rebuilt_config
from model.checkpoints.convert.weight_map import Columns
from model.checkpoints.formats.gguf import GgufFile, GgufList, GgufTensor, Record, loaded_dtype
from model.checkpoints.formats.weight_files import READ, require_weights_themselves
from model.checkpoints.tensors import TensorInfo, load_unchanged, stamp_of
from model.message import Message
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError
from model.runtime.files import open_file
from model.text.huggingface.gguf import GgufVocabulary

SUFFIX = ".gguf"
# By key, after the name of the architecture, the setting of config.json.
SIZES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "context_length": "max_position_embeddings",
}
OPTIONAL = {"attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim"}
WINDOW = {"attention.sliding_window": "sliding_window"}
CAPS = {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"}
GPT2_SIZES = {
    "block_count": "n_layer",
    "embedding_length": "n_embd",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "context_length": "n_positions",
}
# Keys that are read elsewhere, or change nothing in a forward pass.
ROPE = (
    *("rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor"),
    "rope.scaling.original_context_length",
)
HARMLESS = ("vocab_size", "tensor_data_layout", "rope.scaling.finetuned", "attention.value_length")
# Keys that must have this value, where they are there.
REQUIRED: dict[str, object] = {"expert_count": 0, "expert_used_count": 0, "attention.causal": True}
# By module in the file, its name in Hugging Face's families.
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
    "output_norm": "model.norm",
    "output": "lm_head",
}
QWEN3_NAMES = LLAMA_NAMES | {
    "blk.{}.attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "blk.{}.attn_k_norm": "model.layers.{}.self_attn.k_norm",
}
GEMMA2_NAMES = LLAMA_NAMES | {
    "blk.{}.post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_norm": "model.layers.{}.pre_feedforward_layernorm",
    "blk.{}.post_ffw_norm": "model.layers.{}.post_feedforward_layernorm",
}
GPT2_NAMES = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "blk.{}.attn_norm": "transformer.h.{}.ln_1",
    "blk.{}.attn_qkv": "transformer.h.{}.attn.c_attn",
    "blk.{}.attn_output": "transformer.h.{}.attn.c_proj",
    "blk.{}.ffn_norm": "transformer.h.{}.ln_2",
    "blk.{}.ffn_up": "transformer.h.{}.mlp.c_fc",
    "blk.{}.ffn_down": "transformer.h.{}.mlp.c_proj",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
TENSOR = re.compile(r"(?:blk\.(?P<layer>\d{1,5})\.)?(?P<module>[a-z_]+)\.(?P<part>weight|bias)")
EMBEDDING, OUTPUT, STRETCHED = "token_embd.weight", "output.weight", "rope_freqs.weight"
UNUSED = re.compile(r"blk\.\d+\.attn_rot_embd(\.weight)?|rope_freqs\.weight")  # tables, read elsewhere or not at all
READ_ON = "its tensors can be looked at under Checkpoints → Read"
LARGE_GEMMA2 = 46  # layers of Gemma 2's largest model, whose queries alone are not divided by √(width of a head)

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Architecture:
    """Family of llama.cpp's whose models are computed with here.

    family: model_type of Hugging Face. wrote: name of its class. names: table of the modules' names. sizes, more: keys
    by which the settings are given, the latter not in every file. constants: settings that the family always has.
    shifted: whether γ of a norm has 1 more than in Hugging Face's files. swapped: whether rows of queries and keys are
    in another order. transposed: modules whose matrices are transposed.
    """

    family: str
    wrote: str
    names: Mapping[str, str] = field(default_factory=lambda: LLAMA_NAMES)
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    more: Mapping[str, str] = field(default_factory=lambda: OPTIONAL)
    constants: Mapping[str, Any] = field(default_factory=dict)
    shifted: bool = False
    swapped: bool = False
    transposed: Collection[str] = ()

    @property
    def rotary(self) -> bool:
        return self.family != "gpt2"


GEMMA = {"hidden_activation": "gelu_pytorch_tanh"}
ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM", more=OPTIONAL | WINDOW, swapped=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", QWEN3_NAMES),
    "gemma": Architecture("gemma", "GemmaForCausalLM", constants=GEMMA, shifted=True),
    "gemma2": Architecture(
        "gemma2", "Gemma2ForCausalLM", GEMMA2_NAMES, more=OPTIONAL | WINDOW | CAPS, constants=GEMMA, shifted=True
    ),
    "gpt2": Architecture(
        "gpt2",
        "GPT2LMHeadModel",
        GPT2_NAMES,
        GPT2_SIZES,
        {},
        transposed=("attn_qkv", "attn_output", "ffn_up", "ffn_down"),
    ),
}


def gguf_in(path: Path) -> Path | None:
    """GGUF file at a path, or the one that is a folder's only file of weights; None: there is none."""
    if path.is_dir():
        files = [file for file in path.iterdir() if file.suffix.lower() in READ and file.is_file()]
        path = files[0] if len(files) == 1 else path
    return path if path.suffix.lower() == SUFFIX and path.is_file() else None


class GgufModel:
    """A GGUF file as the folder of Hugging Face that it was made from.

    settings: of config.json. tensors: by Hugging Face's names and in its shapes, dequantized when they are loaded.
    assumed: what the file does not say, in short sentences.

    Raises:
        CheckpointError: the file is damaged, of another architecture or a part of a model, or not all of it is
            understood; the sentence says which, and what can be done with it.
    """

    def __init__(self, path: Path, bounded: bool = False) -> None:
        """bounded: whether a tensor that would take more than 1 GiB is not loaded, as where one is looked at."""
        require_weights_themselves(path, path.stat().st_size)
        self.path, self._stamp, self.assumed = path, stamp_of(path), list[str]()
        self._file, self._bounded = GgufFile(path), bounded
        self._records = self._file.records
        self.name = self._architecture_name()
        self.architecture = ARCHITECTURES[self.name]
        self._stored = {tensor.name: tensor for tensor in self._file.tensors}
        self._require_known_keys()
        self.settings = self._settings()
        self.tensors = [self._info(tensor) for tensor in self._used()]

    @property
    def described(self) -> str:
        """Architecture and precision in short: "llama, Q4_K_M"."""
        return f"{self.name}, {self._precision()}"

    @property
    def config(self) -> TransformerConfig | None:
        """Config of the network of ours that computes what the file's model does; None: it is not rebuilt as ours.

        Raises:
            CheckpointError: records and tensors contradict each other, or a record is out of its range.
        """
        try:
            return rebuilt_config(self.settings, [info.name for info in self.tensors])
        except CheckpointError as error:
            raise self._contradicted(error) from error

    def weights(self, config: TransformerConfig) -> Mapping[str, Tensor]:
        """Weights by our names and in the shapes of our parameters, each dequantized when it is asked for.

        Raises:
            CheckpointError: a tensor is of another shape than the records ask for, or of a type that cannot be
                dequantized.
        """
        for info in self.tensors:
            if not info.loaded:
                raise CheckpointError(
                    "{file}: {name} is of the type {dtype}, which the package gguf cannot turn into numbers: "
                    "convert the file to F16; {read_on}",
                    file=self.path.name,
                    name=info.name,
                    dtype=info.dtype,
                    read_on=READ_ON,
                )
        shapes = {info.name: info.shape for info in self.tensors}
        loads = {info.name: info.load for info in self.tensors}
        try:
            return checked_weights(self.settings, config, shapes, lambda name: loads[name]())
        except CheckpointError as error:
            raise self._contradicted(error) from error

    def vocabulary(self) -> GgufVocabulary:
        """Tokens of the file, and how texts are cut into them.

        Raises:
            CheckpointError: the lists are damaged or too long.
        """
        ids = {name: number for name in SPECIAL if (number := self._id(f"tokenizer.ggml.{SPECIAL[name]}")) is not None}
        return GgufVocabulary(
            family=self.name,
            model=self._text("tokenizer.ggml.model"),
            pre=self._text("tokenizer.ggml.pre"),
            tokens=self._file.values("tokenizer.ggml.tokens"),
            merges=self._file.values("tokenizer.ggml.merges"),
            scores=self._file.values("tokenizer.ggml.scores"),
            types=self._file.values("tokenizer.ggml.token_type"),
            ids=ids,
            begins=self._switch("tokenizer.ggml.add_bos_token"),
            ends=self._switch("tokenizer.ggml.add_eos_token"),
            space=self._switch("tokenizer.ggml.add_space_prefix"),
            chat_template=self._text("tokenizer.chat_template"),
        )

    def _contradicted(self, error: CheckpointError) -> CheckpointError:
        return CheckpointError(
            "{file}: its records and tensors contradict each other: {error}; {read_on}",
            file=self.path.name,
            error=error,
            read_on=READ_ON,
        )

    def _architecture_name(self) -> str:
        kind, name = self._text("general.type") or "model", self._text("general.architecture")
        if kind != "model":
            raise CheckpointError(
                "{file} is by its general.type no model but {kind!r}: open the model that it belongs to; {read_on}",
                file=self.path.name,
                kind=kind[:40],
                read_on=READ_ON,
            )
        if not name:
            raise CheckpointError(
                "{file} does not say general.architecture: convert it again; {read_on}",
                file=self.path.name,
                read_on=READ_ON,
            )
        if self._records.get("split.count", 1) != 1:
            raise CheckpointError(
                "{file} is one of several files of a model: join them with llama-gguf-split --merge; {read_on}",
                file=self.path.name,
                read_on=READ_ON,
            )
        if name not in ARCHITECTURES:
            raise CheckpointError(
                "{file} is of the architecture {name!r}, and GGUF files of {architectures} are computed with: "
                "open the folder of Hugging Face that it was made from; {read_on}",
                file=self.path.name,
                name=name[:40],
                architectures=", ".join(ARCHITECTURES),
                read_on=READ_ON,
            )
        return name

    def _require_known_keys(self) -> None:
        """Refuse a file with a record of its architecture that is not known, for it may change what is computed."""
        own = self.architecture
        experts = self._records.get(f"{self.name}.expert_count", 0)
        if experts != 0 or any("_exps." in name for name in self._stored):
            raise CheckpointError(
                "{file} is a mixture of experts of the architecture {name!r}, which is not put together from "
                "GGUF: open the folder of Hugging Face that it was made from; {read_on}",
                file=self.path.name,
                name=self.name,
                read_on=READ_ON,
            )
        known = {*own.sizes, *own.more, *HARMLESS, *(ROPE if own.rotary else ())}
        for key, value in self._records.items():
            name = key.removeprefix(f"{self.name}.")
            if name == key or name in known or (name in REQUIRED and value == REQUIRED[name]):
                continue
            value_text = "a list" if isinstance(value, GgufList) else str(value)
            raise CheckpointError(
                "{file} says {key} ({shown}), which is not known here and may change what is computed: open the "
                "folder of Hugging Face that it was made from; {read_on}",
                file=self.path.name,
                key=key[:80],
                shown=value_text[:40],
                read_on=READ_ON,
            )

    def _settings(self) -> dict[str, Any]:
        """Settings as in a config.json."""
        own = self.architecture
        settings: dict[str, Any] = {"model_type": own.family, "architectures": [own.wrote], **own.constants}
        for key, setting in {**own.sizes, **own.more}.items():
            value = self._number(key) if key.endswith(REAL) else self._count(key)
            if value is None and key in own.sizes:
                raise CheckpointError(
                    "{file} does not say {name}.{key}: convert it again; {read_on}",
                    file=self.path.name,
                    name=self.name,
                    key=key,
                    read_on=READ_ON,
                )
            if value is not None:
                settings[setting] = value
        embedding = self._stored.get(EMBEDDING)
        if embedding is None or len(embedding.shape) != 2:
            raise CheckpointError(
                "{file} has no matrix token_embd.weight: get the file again; {read_on}",
                file=self.path.name,
                read_on=READ_ON,
            )
        settings["vocab_size"] = self._count("vocab_size") or embedding.shape[0]
        settings["tie_word_embeddings"] = not self._has_output()
        for name in ("bos", "eos", "pad", "unk"):
            settings[f"{name}_token_id"] = self._id(f"tokenizer.ggml.{SPECIAL[f'{name}_token']}")
        if own.rotary:
            settings |= self._rotary(settings)
        if own.family == "llama":
            settings["attention_bias"] = "blk.0.attn_q.bias" in self._stored
            settings["mlp_bias"] = "blk.0.ffn_up.bias" in self._stored
            if settings.get("sliding_window") is not None:
                settings |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
        elif own.family == "gemma2":
            settings |= self._gemma2(settings)
        return settings

    def _rotary(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of rotary positions and of the width of heads."""
        channels = settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"])
        for key in ("attention.value_length", "rope.dimension_count"):
            if self._number(key) not in (None, channels):
                raise CheckpointError(
                    "{file} says {name}.{key} {number}, and its heads are {channels} channels wide: such a model "
                    "is not put together from GGUF; {read_on}",
                    file=self.path.name,
                    name=self.name,
                    key=key,
                    number=self._number(key),
                    channels=channels,
                    read_on=READ_ON,
                )
        base = self._number("rope.freq_base")
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0 if base is None else base}
        kind, factor = self._text(f"{self.name}.rope.scaling.type"), self._number("rope.scaling.factor")
        if kind in ("linear", "yarn") and factor not in (None, 0, 1):
            rope |= {"rope_type": kind, "factor": factor}
            if kind == "yarn" and (before := self._number("rope.scaling.original_context_length")) is not None:
                rope["original_max_position_embeddings"] = before
        elif kind not in ("", "none", "linear", "yarn"):
            raise CheckpointError(
                "{file} stretches its positions by {kind!r}, which is not put together from GGUF: open the "
                "folder of Hugging Face that it was made from; {read_on}",
                file=self.path.name,
                kind=kind[:40],
                read_on=READ_ON,
            )
        if STRETCHED in self._stored:
            table = self._stored[STRETCHED]
            factors = self._load(table).double().flatten().tolist() if math.prod(table.shape) <= MOST_FACTORS else []
            scaling = llama3_scaling(factors, rope["rope_theta"], channels)
            if scaling is None:
                raise CheckpointError(
                    "{file}: the factors in rope_freqs.weight are not those of Llama 3: open the folder of "
                    "Hugging Face that it was made from; {read_on}",
                    file=self.path.name,
                    read_on=READ_ON,
                )
            rope |= scaling
        return {"rope_parameters": rope}

    def _gemma2(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of Gemma 2 that llama.cpp knows by the number of layers: the file does not have them."""
        channels = settings["hidden_size"] // settings["num_attention_heads"]
        scale = channels if settings["num_hidden_layers"] == LARGE_GEMMA2 else settings.get("head_dim", channels)
        self.assumed.append(Message("scores are divided by √{scale}, as in Gemma 2 of this size", scale=scale))
        return {"query_pre_attn_scalar": scale}

    def _has_output(self) -> bool:
        """True if the output's matrix is another one than the embedding's; older files have it twice."""
        first, second = self._stored.get(EMBEDDING), self._stored.get(OUTPUT)
        if first is None or second is None or (first.kind, first.shape) != (second.kind, second.shape):
            return second is not None
        with open_file(self.path) as file:
            for begin in range(0, first.bytes, PIECE):
                pieces = []
                for tensor in (first, second):
                    file.seek(tensor.start + begin)
                    pieces.append(file.read(min(PIECE, first.bytes - begin)))
                if pieces[0] != pieces[1]:
                    return True
        return False

    def _used(self) -> Iterable[GgufTensor]:
        """Tensors of the model, in the order of the file."""
        for tensor in self._file.tensors:
            if UNUSED.fullmatch(tensor.name) or (tensor.name == OUTPUT and self.settings["tie_word_embeddings"]):
                continue
            yield tensor

    def _info(self, tensor: GgufTensor) -> TensorInfo:
        """A tensor by its name and in its shape in Hugging Face's folder."""
        own = self.architecture
        match = TENSOR.fullmatch(tensor.name)
        module, layer = (match["module"], match["layer"]) if match else ("", None)
        pattern = module if layer is None else f"blk.{{}}.{module}"
        if match is None or pattern not in own.names:
            raise CheckpointError(
                "{file} has a tensor {name!r}, which models of the architecture {name_2!r} do not have here: "
                "open the folder of Hugging Face that it was made from; {read_on}",
                file=self.path.name,
                name=tensor.name[:60],
                name_2=self.name,
                read_on=READ_ON,
            )
        name = f"{own.names[pattern].replace('{}', layer or '')}.{match['part']}"
        change = self._change(module, match["part"])
        loaded = loaded_dtype(tensor, self._bounded)
        info = TensorInfo(name, tensor.shape, tensor.kind, tensor.bytes, name, partial(self._load, tensor), loaded)
        return info if change is None else self._changed(info, change)

    def _changed(self, info: TensorInfo, change: Change) -> TensorInfo:
        try:
            # Shapes alone: no values are read.
            shape = tuple(change(torch.empty(info.shape, device="meta")).shape)
        except RuntimeError as error:
            raise CheckpointError(
                "{name}: {name_2} has shape {shape}, which does not fit its records; {read_on}",
                name=self.path.name,
                name_2=info.name,
                shape=info.shape,
                read_on=READ_ON,
            ) from error
        return replace(info, shape=shape, load=partial(_applied, change, info.load))

    def _change(self, module: str, part: str) -> Change | None:
        """Inverse of the converter's change of a tensor; None: it has not changed it."""
        own = self.architecture
        if own.swapped and module in ("attn_q", "attn_k"):
            heads = self.settings["num_attention_heads"]
            shared = self.settings.get("num_key_value_heads")
            return partial(unswapped, heads=heads if module == "attn_q" or shared is None else shared)
        if own.shifted and module.endswith("norm") and part == "weight":
            return one_less
        if module in own.transposed and part == "weight":
            return Columns()
        return None

    def _load(self, tensor: GgufTensor) -> Tensor:
        return load_unchanged(self.path, self._stamp, partial(self._file.load, tensor, self._bounded))

    def _precision(self) -> str:
        """Name of the mixture of types, as llama.cpp calls it, else of the type of most values."""
        from gguf import LlamaFileType

        number = self._records.get("general.file_type")
        names = {kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
        if isinstance(number, int) and number in names and names[number] != "GUESSED":
            return names[number]
        counts: Counter[str] = Counter()
        for tensor in self._file.tensors:
            counts[tensor.kind] += math.prod(tensor.shape)
        return counts.most_common(1)[0][0] if counts else "?"

    def _text(self, key: str) -> str:
        value = self._records.get(key)
        return value if isinstance(value, str) else ""

    def _switch(self, key: str) -> bool | None:
        value = self._records.get(key)
        return value if isinstance(value, bool) else None

    def _id(self, key: str) -> int | None:
        value: Record | None = self._records.get(key)
        return value if type(value) is int and 0 <= value < 1 << 31 else None

    def _count(self, key: str) -> int | None:
        """Whole number above 0 in a record of the architecture; None: it has no such record.

        Raises:
            CheckpointError: the record is something else.
        """
        number = self._number(key)
        if number is not None and (not isinstance(number, int) or not 1 <= number <= MOST):
            raise CheckpointError(
                "{file}: {name}.{key} ({found}) must be a whole number from 1 to {most:,}; {read_on}",
                file=self.path.name,
                name=self.name,
                key=key,
                found=str(number)[:40],
                most=MOST,
                read_on=READ_ON,
            )
        return number if isinstance(number, int) else None

    def _number(self, key: str) -> int | float | None:
        """Number in a record of the architecture; None: it has no such record.

        Raises:
            CheckpointError: the record is something else; a list has a number for each layer.
        """
        value = self._records.get(f"{self.name}.{key}")
        if isinstance(value, GgufList):
            values = set(self._file.values(f"{self.name}.{key}")) if value.count <= 1 << 16 else set()
            if len(values) != 1:
                raise CheckpointError(
                    "{file} says {name}.{key} for each layer, and its layers differ: such a model is not put "
                    "together from GGUF; {read_on}",
                    file=self.path.name,
                    name=self.name,
                    key=key,
                    read_on=READ_ON,
                )
            value = values.pop()
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise CheckpointError(
                "{file}: {name}.{key} ({found}) must be a number; {read_on}",
                file=self.path.name,
                name=self.name,
                key=key,
                found=str(value)[:40],
                read_on=READ_ON,
            )
        return value


REAL = ("epsilon", "softcapping")  # ends of keys of numbers that need not be whole
MOST_FACTORS = 1 << 16
PIECE = 1 << 24  # bytes that are compared at a time
# Special tokens by Hugging Face's names, and the ends of their keys in the file.
SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "mask_token": "mask_token_id",
    "eot_token": "eot_token_id",
}


def as_family(path: Path, names: Collection[str]) -> list[TensorInfo]:
    """Tensors of a GGUF file as a folder of Hugging Face with tensors of these names has them, without their values.

    names: of the folder; where they have no prefix, as those of a bare model, neither have these.

    Raises:
        CheckpointError: as `GgufModel`.
    """
    model = GgufModel(path, bounded=True)
    infos = []
    for info in model.tensors:
        name = info.name if info.name in names else info.name.partition(".")[2]
        infos.append(replace(info, name=name, place=name) if name in names else info)
    return infos


def _applied(change: Change, load: Callable[[], Tensor]) -> Tensor:
    return change(load())


def unswapped(rows: Tensor, heads: int) -> Tensor:
    """Rows of W_Q or W_K in Hugging Face's order: of each head, those of all first halves of the turned pairs of
    channels, then those of all second halves. llama.cpp has a pair's two rows side by side.
    """
    pairs: Tensor = rows.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def one_less(gain: Tensor) -> Tensor:
    """γ of a norm that multiplies by 1 + γ."""
    return (gain.double() - 1).float()


def llama3_scaling(factors: list[float], base: float, width: int) -> dict[str, Any] | None:
    """Parameters of Llama 3's stretching of wavelengths (Grattafiori et al., 2024) that make these factors; empty: they
    are all 1. None: no parameters with its low_freq_factor of 1 and high_freq_factor of 4 make them.

    factors: of the wavelengths, from the shortest on. width: of a head, in channels.
    """
    if not factors or len(factors) != width // 2 or not base > 0 or not all(1 <= value < 1e6 for value in factors):
        return None
    largest = max(factors)
    if largest == 1:
        return {}
    lengths = [2 * math.pi * base ** (2 * place / width) for place in range(len(factors))]
    unscaled = [length for length, value in zip(lengths, factors, strict=True) if value == 1]
    stretched = [length for length, value in zip(lengths, factors, strict=True) if value == largest]
    trained = [8192.0, math.sqrt(4 * max(unscaled, default=min(stretched) / 4) * min(stretched))]
    for length, value in zip(lengths, factors, strict=True):
        if 1 < value < largest:
            share = (1 / value - 1 / largest) / (1 - 1 / largest)
            trained.append(length * (3 * share + 1))
    for tokens in (round(value) for value in trained if 1 <= value < 1e9):
        expected = [_llama3_factor(length, largest, tokens) for length in lengths]
        if all(math.isclose(one, other, rel_tol=1e-4) for one, other in zip(expected, factors, strict=True)):
            parameters = {"rope_type": "llama3", "factor": largest, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            return parameters | {"original_max_position_embeddings": tokens}
    return None


def _llama3_factor(length: float, factor: float, tokens: int) -> float:
    """Factor of a wavelength, for a model that was trained on texts of so many tokens."""
    share = min(1.0, max(0.0, (tokens / length - 1) / 3))
    return 1 / ((1 - share) / factor + share)
