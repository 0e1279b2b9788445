"""Adapters of PEFT merged into the model that they change: what its library computes beside every weight, added once.

An adapter is a folder of adapter_config.json and adapter_model.safetensors (or .bin). Its tensors are called by the
modules of the base: "base_model.model.", the module, the part, as in base_model.model.lm_head.lora_A.weight. Merged
are LoRA (Hu et al., 2021), rsLoRA (Kalajdzievski, 2023), DoRA (Liu et al., 2024), (IA)³ (Liu et al., 2022), LoHa
(Hyeon-Woo et al., 2021), LoKr (Yeh et al., 2023), and what is trained whole beside them: modules, biases, rows of
tokens. The arithmetic is in float32. The rule is what peft computes before merging, where its merge_and_unload does
something else: an embedding that the base ties to its output is changed alone, with the output as the file has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.formats.weight_files import PYTORCH, SAFETENSORS
from model.checkpoints.hub import NAME
from model.checkpoints.tensors import TensorInfo, tensor_table
from model.message import Message
from model.runtime.errors import CheckpointError
from model.runtime.transformers_import import import_transformers
from model.runtime.untrusted_json import parse_json, read_bytes

ADAPTER_CONFIG = "adapter_config.json"
LARGEST_CONFIG, MOST_PARTS = 1 << 20, 50_000  # bytes; values
MOST_FIRSTS = 16  # first words of the names in a file, of which one may stand before the names of modules
LONGEST_NAME = 120  # characters of a base's name in a sentence
PREFIX = "base_model.model."
MERGED = {"LORA": "LoRA", "IA3": "IA³", "LOHA": "LoHa", "LOKR": "LoKr"}  # peft_type and what people call it
# Kinds that change no weight.
BESIDE_THE_TEXT = (
    *("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"),
    "ADAPTION_PROMPT",
)
# Settings that are read here, and those that change nothing once training is over.
READ = frozenset(
    "peft_type base_model_name_or_path revision r lora_alpha alpha use_rslora rank_pattern alpha_pattern use_dora "
    "init_lora_weights trainable_token_indices".split()
)
HARMLESS = frozenset(
    "auto_mapping inference_mode peft_version task_type target_modules exclude_modules layers_to_transform "
    "layers_pattern modules_to_save bias fan_in_fan_out lora_bias lora_dropout megatron_config megatron_core "
    "loftq_config eva_config corda_config lora_ga_config runtime_config velora_config qalora_group_size "
    "feedforward_modules init_ia3_weights init_weights rank_dropout module_dropout rank_dropout_scale decompose_both "
    "decompose_factor use_effective_conv2d ensure_weight_tying".split()
)
OFF: tuple[Any, ...] = (None, False, "", [], {})
BEGINNINGS = (None, True, False, "gaussian", "eva", "orthogonal")  # of init_lora_weights, which leave the base alone
PART = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_[AB]\.weight|lora_B\.bias|lora_embedding_[AB]|lora_magnitude_vector(\.weight)?|ia3_l"
    r"|hada_w[12]_[ab]|lokr_w[12](_[ab])?|token_adapter\.trainable_tokens_delta|base_layer\.(weight|bias))"
)
WHOLE = ".modules_to_save."  # in names of older files
LORA, EMBEDDING = ("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B")
LOHA = ("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b")
TOKENS, TOKENS_KIND = "token_adapter.trainable_tokens_delta", "tokens"
SHIFT, MAGNITUDE, SCALES = "lora_B.bias", "lora_magnitude_vector", "ia3_l"
# Families whose layers are transformers' Conv1D, which keeps a matrix as (input, output), and where those are.
CONV1D, IN_LAYERS = ("gpt2", "openai-gpt", "imagegpt", "decision_transformer"), re.compile(r"(^|\.)h\.\d+\.")


class AdapterBaseError(CheckpointError):
    """Adapter whose base is not here, or does not fit it: another base would help."""


@dataclass(frozen=True)
class Adapter:
    """Content of an adapter's folder. kind: its peft_type. tensors: as the file describes them, by name."""

    folder: Path
    kind: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def base(self) -> str:
        """Path or name of the model that it was trained on; "" where it does not say."""
        named = self.settings.get("base_model_name_or_path")
        return named if isinstance(named, str) else ""

    @property
    def revision(self) -> str | None:
        """Revision of the base at Hugging Face, where it says one."""
        revision = self.settings.get("revision")
        return revision if isinstance(revision, str) and revision else None


def base_label(named: str) -> str:
    """Name of a base for a sentence: as at Hugging Face, else the last one of a path, for pages name no folders."""
    short = named if NAME.fullmatch(named) else PurePosixPath(named.replace("\\", "/")).name
    return short[:LONGEST_NAME] or "?"


def is_adapter(path: Path) -> bool:
    """True if a folder has an adapter of PEFT, and no weights of a whole model."""
    if not (path / ADAPTER_CONFIG).is_file():
        return False
    return not any((path / f"{name}{end}").is_file() for name in (SAFETENSORS, PYTORCH) for end in ("", ".index.json"))


def read_adapter(folder: Path) -> Adapter:
    """Adapter in a folder; no values are read.

    Raises:
        CheckpointError: a file is damaged, or the adapter is of a kind that has no merged weights here; the sentence
            names the kind and what to do.
    """
    content = parse_json(read_bytes(folder / ADAPTER_CONFIG, LARGEST_CONFIG), ADAPTER_CONFIG, parts=MOST_PARTS)
    if not isinstance(content, dict):
        raise CheckpointError("adapter_config.json must hold a JSON object, not {kind}", kind=type(content).__name__)
    kind = str(content.get("peft_type", ""))[:40].upper()
    adapter = Adapter(folder, kind, content, {info.name: info for info in tensor_table(folder)})
    _refuse_unmergeable(adapter)
    return adapter


def _refuse_unmergeable(adapter: Adapter) -> None:
    name = adapter.folder.name
    if adapter.kind in BESIDE_THE_TEXT:
        raise CheckpointError(
            "{file} is an adapter of the kind {kind}, which puts trained vectors beside the text and changes no "
            "weight, so that no merged model exists: its tensors can be looked at under Checkpoints → Read",
            file=name,
            kind=adapter.kind,
        )
    if adapter.kind not in MERGED:
        raise CheckpointError(
            "{file} is an adapter of the kind {value}, which is not merged here ({merged} are): merge it into "
            "its base with peft (merge_and_unload), save that and open it",
            file=name,
            value=adapter.kind or "?",
            merged=", ".join(MERGED),
        )
    if (start := adapter.settings.get("init_lora_weights")) not in BEGINNINGS:
        raise CheckpointError(
            "{file} was begun with init_lora_weights {begun!r}, which changes the base too: save it as plain "
            "LoRA (path_initial_model_for_weight_conversion of peft's save_pretrained) and open that",
            file=name,
            begun=str(start)[:40],
        )
    for setting, value in adapter.settings.items():
        if setting not in READ and setting not in HARMLESS and value not in OFF:
            raise CheckpointError(
                "{file}: adapter_config.json says {setting} {value!r}, and what that changes is not known here: "
                "merge it into its base with peft (merge_and_unload), save that and open it",
                file=name,
                setting=setting[:40],
                value=str(value)[:60],
            )


# What becomes of one weight.


@dataclass(frozen=True)
class LowRank:
    """W + s · left · right, as of LoRA. left (output, rank), right (rank, input); transposed: W is (input, output)."""

    left: Tensor
    right: Tensor
    scale: float
    transposed: bool = False

    def __call__(self, weight: Tensor) -> Tensor:
        return weight + self.change()

    def change(self) -> Tensor:
        """ΔW in the shape of W."""
        change = self.scale * (self.left.float() @ self.right.float())
        return change.mT if self.transposed else change


@dataclass(frozen=True)
class Hadamard:
    """W + s · (a₁ b₁) ⊙ (a₂ b₂), as of LoHa. first, second: with the scale 1."""

    first: LowRank
    second: LowRank
    scale: float

    def __call__(self, weight: Tensor) -> Tensor:
        return weight + self.change()

    def change(self) -> Tensor:
        """ΔW in the shape of W."""
        return self.scale * self.first.change() * self.second.change()


@dataclass(frozen=True)
class Kronecker:
    """W + s · (first ⊗ second), as of LoKr; both are matrices."""

    first: Tensor
    second: Tensor
    scale: float

    def __call__(self, weight: Tensor) -> Tensor:
        return weight + self.change()

    def change(self) -> Tensor:
        """ΔW in the shape of W."""
        return self.scale * torch.kron(self.first, self.second)


@dataclass(frozen=True)
class Dora:
    """m · V / ‖V‖ with V = W + s · left · right and the norm of each output's row. magnitude: m (output)."""

    low_rank: LowRank
    magnitude: Tensor

    def __call__(self, weight: Tensor) -> Tensor:
        changed = self.low_rank(weight)
        rows = changed.mT if self.low_rank.transposed else changed
        rows = rows * (self.magnitude.float() / torch.linalg.vector_norm(rows, dim=1))[:, None]
        turned: Tensor = rows.mT if self.low_rank.transposed else rows
        return turned


@dataclass(frozen=True)
class Scaled:
    """W · scales, as of (IA)³. scales: in a shape that is W's, or 1."""

    scales: Tensor

    def __call__(self, weight: Tensor) -> Tensor:
        return weight * self.scales.float()


@dataclass(frozen=True)
class Shifted:
    """b + s · shift, of a bias."""

    shift: Tensor
    scale: float

    def __call__(self, weight: Tensor) -> Tensor:
        return weight + self.scale * self.shift.float()


@dataclass(frozen=True)
class Rows:
    """W with other rows for some tokens. ids: of them. rows (token, width)."""

    ids: Tensor
    rows: Tensor

    def __call__(self, weight: Tensor) -> Tensor:
        return weight.index_copy(0, self.ids, self.rows.float())


Step = LowRank | Hadamard | Kronecker | Dora | Scaled | Shifted | Rows


@dataclass(frozen=True)
class Change:
    """A weight of the base and what the adapter makes of it.

    name: in the merged model. weight: in the base. kind: of the change, in a word of PEFT's. start: the adapter's own
    values in the place of the weight's. step: what is done to them; None: nothing more.
    """

    name: str
    weight: TensorInfo
    kind: str
    start: TensorInfo | None = None
    step: Step | None = None

    @property
    def low_rank(self) -> LowRank | Hadamard | Kronecker | None:
        """Factors of ΔW, where it is made of factors alone."""
        factored = isinstance(self.step, LowRank | Hadamard | Kronecker)
        return self.step if factored and self.start is None else None  # type: ignore[return-value]

    def merged(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Merged weight, computed in float32."""
        weight = (self.start or self.weight).load().float()
        return (self.step(weight) if self.step else weight).to(dtype)


@dataclass(frozen=True)
class Merged:
    """Checkpoint of a base with the changes of an adapter.

    settings: of its config.json. table: its tensors, of which those that are changed are computed when they are loaded.
    changes: without weights that stay as they are.
    """

    settings: dict[str, Any]
    table: list[TensorInfo]
    changes: list[Change]


def merge(
    adapter: Adapter, settings: Mapping[str, Any], table: Sequence[TensorInfo], dtype: torch.dtype = torch.float32
) -> Merged:
    """Base with an adapter merged into it; nothing is computed yet.

    settings: of the base's config.json. table: of its tensors. dtype: of the merged weights.

    Raises:
        AdapterBaseError: a tensor of the adapter fits none of the base.
        CheckpointError: the adapter contradicts itself, or what it changes cannot be told.
    """
    merging = _Merging(adapter, settings, table)
    changes = merging.changes()
    unchanged, untied = merging.untied(changes)
    of_name = {change.name: change for change in (*changes, *unchanged)}
    merged = [info for info in table if info.name not in of_name]
    merged = [replace(info, place=info.name) for info in merged]  # what was tied to a weight may not be any more
    merged += [
        TensorInfo(
            change.name,
            change.weight.shape,
            str(dtype).removeprefix("torch."),
            change.weight.elements * dtype.itemsize,
            change.name,
            load=partial(change.merged, dtype),
        )
        for change in of_name.values()
    ]
    more = {"tie_word_embeddings": False} if untied else {}
    return Merged({**settings, **more}, merged, changes)


@dataclass
class _Merging:
    """Adapter beside the tensors of its base. names: of these, by their names of today. aliases: see `_tied_names`."""

    adapter: Adapter
    settings: Mapping[str, Any]
    table: Sequence[TensorInfo]
    names: dict[str, TensorInfo] = field(default_factory=dict)
    firsts: set[str] = field(default_factory=set)
    aliases: dict[str, str] | None = None

    def __post_init__(self) -> None:
        for info in self.table:
            self.names[_modern(info.name)] = info
        firsts = {name.partition(".")[0] for name in self.names}
        self.firsts = firsts if len(firsts) <= MOST_FIRSTS else set()
        self.ranks = Patterns(self.adapter.settings.get("rank_pattern"))
        self.alphas = Patterns(self.adapter.settings.get("alpha_pattern"))

    def changes(self) -> list[Change]:
        """Change of every tensor that the adapter is about; each of its own tensors is used once."""
        modules: dict[str, dict[str, TensorInfo]] = {}
        whole: dict[str, TensorInfo] = {}
        for name, info in self.adapter.tensors.items():
            if not name.startswith(PREFIX):
                raise self._unknown(info)
            if not _is_real(info):
                raise self._unknown(info)
            inner = name.removeprefix(PREFIX).replace(WHOLE, ".")
            if match := PART.fullmatch(inner):
                part = match["part"].removesuffix(".weight") if match["part"].startswith(MAGNITUDE) else match["part"]
                modules.setdefault(match["module"], {})[part] = info
            else:
                whole[inner] = info
        changes = [change for name, parts in modules.items() for change in self._module(name, parts)]
        changes += [self._whole(name, info) for name, info in whole.items()]
        by_name: dict[str, Change] = {}
        for change in changes:
            if (other := by_name.setdefault(change.name, change)) is not change and not _same(change, other):
                raise CheckpointError(
                    "{file} changes {name} twice: it is damaged", file=self.adapter.name, name=change.name
                )
        if not by_name:
            raise CheckpointError("{file} holds no tensor: it is no adapter, or not whole", file=self.adapter.name)
        return list(by_name.values())

    # One module of the adapter.

    def _module(self, module: str, parts: dict[str, TensorInfo]) -> list[Change]:
        """Changes of a module's weight and bias. parts: of the adapter's tensors, by what stands after the module."""
        whole = {name: parts.pop(f"base_layer.{name}", None) for name in ("weight", "bias")}
        if whole["bias"] is not None:
            bias = self._fitting(f"{module}.bias", whole["bias"].shape, whole["bias"])
        shift, changes = parts.pop(SHIFT, None), []
        if shift is not None:
            scale = self._scale(module, parts["lora_A.weight"].shape[0] if "lora_A.weight" in parts else 0)
            bias = self._fitting(f"{module}.bias", shift.shape, shift)
            changes.append(Change(bias[0], bias[1], "bias", whole["bias"], Shifted(shift.load(), scale)))
        elif whole["bias"] is not None:
            changes.append(Change(*bias, "bias", whole["bias"]))
        if parts.keys() == {SCALES} and whole["bias"] is None:
            changes += self._scaled_bias(module, parts[SCALES])
        if parts:
            first = next(iter(parts.values()))
            step, kind, shape = self._step(module, parts)
            changes.append(Change(*self._fitting(f"{module}.weight", shape, first), kind, whole["weight"], step))
        elif whole["weight"] is not None:
            own = whole["weight"]
            changes.append(Change(*self._fitting(f"{module}.weight", own.shape, own), "modules_to_save", own))
        if parts and whole["weight"] is not None:
            self._fitting(f"{module}.weight", whole["weight"].shape, whole["weight"])
        return changes

    def _step(self, module: str, parts: dict[str, TensorInfo]) -> tuple[Step, str, tuple[int, ...]]:
        """Step that changes a weight by these parts, its kind, and the shape that the weight must have."""
        transposed = self.settings.get("model_type") in CONV1D and bool(IN_LAYERS.search(module))
        kinds = parts.keys() - {MAGNITUDE}
        if kinds == set(LORA) or kinds == set(EMBEDDING):
            right, left = (parts[name] for name in (LORA if kinds == set(LORA) else EMBEDDING))
            return self._lora(module, left, right, parts.get(MAGNITUDE), transposed or kinds == set(EMBEDDING))
        if kinds == set(LOHA) and MAGNITUDE not in parts:
            one, two, three, four = (parts[name] for name in LOHA)
            shape = self._product(one, two)
            if self._product(three, four) != shape:
                raise self._apart(one, three)
            scale = self._scale(module)
            factors = (LowRank(one.load(), two.load(), 1.0), LowRank(three.load(), four.load(), 1.0))
            return Hadamard(*factors, scale), "LoHa", shape
        if kinds == {SCALES}:
            return self._scaled(module, parts[SCALES], transposed)
        if kinds == {TOKENS}:
            ids, rows = self._token_ids(module), parts[TOKENS]
            if len(rows.shape) != 2 or len(ids) != rows.shape[0]:
                raise self._unknown(rows)
            weight = self._match(f"{module}.weight", rows)[1]
            if len(weight.shape) != 2 or int(ids.max()) >= weight.shape[0]:
                raise self._unknown(rows)
            return Rows(ids, rows.load()), TOKENS_KIND, (weight.shape[0], rows.shape[1])
        if kinds and all(name.startswith("lokr") for name in kinds) and MAGNITUDE not in parts:
            return self._lokr(module, parts)
        some = ", ".join(sorted(parts))
        raise CheckpointError(
            "{file}: of {module} there are {some}, which make no change of a weight: the file is damaged, or not whole",
            file=self.adapter.name,
            module=module[:120],
            some=some,
        )

    def _lora(
        self, module: str, left: TensorInfo, right: TensorInfo, magnitude: TensorInfo | None, transposed: bool
    ) -> tuple[Step, str, tuple[int, ...]]:
        shape = self._product(left, right)
        low_rank = LowRank(left.load(), right.load(), self._scale(module, right.shape[0]), transposed)
        turned = (shape[1], shape[0]) if transposed else shape
        if (magnitude is not None) != (self.adapter.settings.get("use_dora") is True):
            raise CheckpointError(
                "{file}: adapter_config.json says use_dora {settings}, and {module} contradicts it: the two "
                "files do not belong together",
                file=self.adapter.name,
                settings=self.adapter.settings.get("use_dora"),
                module=module[:120],
            )
        if magnitude is None:
            return low_rank, "LoRA", turned
        if math.prod(magnitude.shape) != shape[0]:
            raise self._apart(left, magnitude)
        return Dora(low_rank, magnitude.load().flatten()), "DoRA", turned

    def _lokr(self, module: str, parts: dict[str, TensorInfo]) -> tuple[Step, str, tuple[int, ...]]:
        factors: list[list[TensorInfo]] = []
        for name in ("lokr_w1", "lokr_w2"):
            pair = [parts.get(f"{name}_{letter}") for letter in "ab"]
            given = [info for info in (parts.get(name), *pair) if info is not None]
            if len(given) != (2 if name not in parts else 1):
                raise CheckpointError(
                    "{file}: {module} lacks a part of {name}: it is damaged",
                    file=self.adapter.name,
                    module=module[:120],
                    name=name,
                )
            factors.append(given)
        one, two = (self._product(given[0], given[-1] if len(given) == 2 else None) for given in factors)
        shape = (one[0] * two[0], one[1] * two[1])
        self._fitting(f"{module}.weight", shape, factors[0][0])  # before the product of the factors takes memory
        first, second = (
            LowRank(given[0].load(), given[1].load(), 1.0).change() if len(given) == 2 else given[0].load().float()
            for given in factors
        )
        return Kronecker(first, second, self._scale(module)), "LoKr", shape

    def _scaled(self, module: str, scales: TensorInfo, transposed: bool) -> tuple[Step, str, tuple[int, ...]]:
        """(IA)³: a row of scales is of the inputs, a column of the outputs."""
        _name, weight = self._match(f"{module}.weight", scales)
        if len(scales.shape) != 2 or 1 not in scales.shape or len(weight.shape) != 2:
            raise self._unknown(scales)
        vector = scales.load().mT if transposed else scales.load()
        shape = tuple(own if scaled == 1 else scaled for scaled, own in zip(vector.shape, weight.shape, strict=True))
        return Scaled(vector), "IA3", shape

    def _scaled_bias(self, module: str, scales: TensorInfo) -> list[Change]:
        """Bias of outputs that (IA)³ scales, where the base has one."""
        if len(scales.shape) != 2 or scales.shape[1] != 1 or (bias := self._lookup(f"{module}.bias")) is None:
            return []
        if bias[1].shape != scales.shape[:1]:
            raise self._misfit(scales, bias[1])
        return [Change(*bias, "bias", None, Scaled(scales.load().flatten()))]

    def _whole(self, name: str, info: TensorInfo) -> Change:
        """Tensor that was trained whole: of modules_to_save, or a bias."""
        named = self._fitting(name, info.shape, info)
        return Change(*named, "bias" if name.endswith(".bias") else "modules_to_save", info)

    # Names and numbers.

    def _fitting(self, name: str, shape: tuple[int, ...], info: TensorInfo) -> tuple[str, TensorInfo]:
        """Tensor of the base under a name, with the name that the merged one has, if it has this shape."""
        merged, weight = self._match(name, info)
        if weight.shape != tuple(shape):
            raise self._misfit(info, weight)
        if not _is_real(weight):
            raise AdapterBaseError(
                "{file} changes {name}, which this base keeps as {dtype}, in which nothing is merged: choose the "
                "base in float32, bfloat16 or float16",
                file=self.adapter.name,
                name=weight.name,
                dtype=weight.dtype,
            )
        return merged, weight

    def _match(self, name: str, info: TensorInfo) -> tuple[str, TensorInfo]:
        if (match := self._lookup(name)) is None:
            whole = name.removesuffix("bias") + "weight"
            if name.endswith(".bias") and self._lookup(whole) is not None:
                raise CheckpointError(
                    "{file} adds a bias ({name}) where its base has none beside {whole}, so that no merged model "
                    "of this base exists: peft alone runs it; its tensors can be looked at under Checkpoints → "
                    "Read",
                    file=self.adapter.name,
                    name=info.name,
                    whole=whole[:120],
                )
            raise AdapterBaseError(
                "{file}: {name} {shape} is of {name_2}, which this base has not: choose the base that the "
                "adapter was trained on ({shown_base})",
                file=self.adapter.name,
                name=info.name,
                shape=tuple(info.shape),
                name_2=name[:120],
                shown_base=base_label(self.adapter.base),
            )
        return match

    def _lookup(self, name: str) -> tuple[str, TensorInfo] | None:
        """Tensor of the base by the name of a module's, and its name in the merged model; None: it has none.

        Files may have another first word, or none, before the rest of a name. A matrix that the base ties to another's
        has the other's values and keeps its own name.
        """
        if (info := self._plain(name)) is not None:
            return info.name, info
        if (original := self._tied_names().get(name)) is None or (info := self._plain(original)) is None:
            return None
        return (info.name if len(info.shape) == 1 else name), info

    def _tied_names(self) -> dict[str, str]:
        """Names of tensors of the base that are tied to another's, and that one's; asked of transformers, once."""
        if self.aliases is None:
            self.aliases = _tied_names(self.settings)
        return self.aliases

    def untied(self, changes: Sequence[Change]) -> tuple[list[Change], bool]:
        """Weights that stay as they are where one to which the base ties them is changed, rows of tokens changed in
        both, and whether anything is untied.

        Raises:
            CheckpointError: it cannot be told what is tied, or more than an output is.
        """
        names = {change.name for change in changes}
        more: list[Change] = []
        untied = any(change.name != change.weight.name for change in changes)
        for change in changes:
            shape = change.weight.shape
            if len(shape) != 2 or shape[0] != self.settings.get("vocab_size") or change.name != change.weight.name:
                continue
            if not isinstance(self.settings.get("architectures"), list):
                raise CheckpointError(
                    "{file} changes {name}, and config.json of the base does not say in architectures whether "
                    "its output is tied to it: write it there",
                    file=self.adapter.name,
                    name=change.name,
                )
            partners = self._partners(change)
            if len(partners) > 1 or (partners and self.settings.get("is_encoder_decoder") is True):
                raise CheckpointError(
                    "{file} changes {name}, which its base ties to other weights ({partners}), and they are not "
                    "told apart here: merge it into its base with peft (merge_and_unload), save that and open it",
                    file=self.adapter.name,
                    name=change.name,
                    partners=", ".join(partners)[:120],
                )
            for partner in partners:
                own = self.names.get(partner)
                if change.kind == TOKENS_KIND:
                    more += [] if own is None or own.name in names else [replace(change, name=own.name, weight=own)]
                    continue
                untied = True
                more += [] if own is not None or partner in names else [Change(partner, change.weight, "kept")]
        return more, untied

    def _partners(self, change: Change) -> list[str]:
        """Other names of tensors that the base ties to this one."""
        partners = []
        for pair in self._tied_names().items():
            mine = [self._plain(name) is change.weight for name in pair]
            if any(mine):
                partners.append(pair[mine.index(True) ^ 1])
        return partners

    def _plain(self, name: str) -> TensorInfo | None:
        """Tensor of the base by the name of a module's, which the file itself has."""
        others = [name, name.partition(".")[2], *(f"{each}.{name}" for each in self.firsts)]
        matches = [self.names[other] for other in others if other in self.names]
        return matches[0] if matches else None

    def _scale(self, module: str, rank: int | None = None) -> float:
        """alpha / r, or alpha / √r with use_rslora. rank: of the factors, which the config must say too."""
        settings = self.adapter.settings
        r = self.ranks.of(module, settings.get("r", 8))
        alpha = self.alphas.of(module, settings.get("lora_alpha", settings.get("alpha", 8)))
        if type(r) is not int or not 1 <= r < 1 << 31:
            raise CheckpointError(
                "{file}: adapter_config.json: the rank ({asked}) must be a whole number above 0",
                file=self.adapter.name,
                asked=str(r)[:40],
            )
        if rank not in (None, r):
            raise CheckpointError(
                "{file}: adapter_config.json says the rank {asked} for {module}, and the file has {rank}: the "
                "two do not belong together",
                file=self.adapter.name,
                asked=r,
                module=module[:120],
                rank=rank,
            )
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
            raise CheckpointError(
                "{file}: adapter_config.json: alpha ({alpha}) must be a number",
                file=self.adapter.name,
                alpha=str(alpha)[:40],
            )
        return float(alpha) / (math.sqrt(r) if settings.get("use_rslora") is True else r)

    def _token_ids(self, module: str) -> Tensor:
        """Ids of the tokens whose rows are trained in a module."""
        given = self.adapter.settings.get("trainable_token_indices")
        if isinstance(given, dict):
            given = next((ids for name, ids in given.items() if f".{module}".endswith(f".{name}")), None)
        if (
            not isinstance(given, list)
            or not all(type(each) is int and 0 <= each < 1 << 31 for each in given)
            or not given
        ):
            raise CheckpointError(
                "{file}: adapter_config.json must list the tokens of {module} in trainable_token_indices",
                file=self.adapter.name,
                module=module[:120],
            )
        return torch.tensor(given)

    def _product(self, left: TensorInfo, right: TensorInfo | None) -> tuple[int, ...]:
        """Shape of left · right, or of left alone."""
        last = left if right is None else right
        fits = right is None or left.shape[1:] == right.shape[:1]
        if len(left.shape) != 2 or len(last.shape) != 2 or not fits:
            raise self._apart(left, last)
        return left.shape[0], last.shape[1]

    # Sentences.

    def _apart(self, one: TensorInfo, other: TensorInfo) -> CheckpointError:
        return CheckpointError(
            "{file}: {name} {shape} and {name_2} {shape_2} do not fit each other: the file is damaged",
            file=self.adapter.name,
            name=one.name,
            shape=tuple(one.shape),
            name_2=other.name,
            shape_2=tuple(other.shape),
        )

    def _misfit(self, info: TensorInfo, weight: TensorInfo) -> AdapterBaseError:
        return AdapterBaseError(
            "{file}: {name} {shape} does not fit {name_2} {shape_2} of this base: choose the base that the "
            "adapter was trained on ({shown_base})",
            file=self.adapter.name,
            name=info.name,
            shape=tuple(info.shape),
            name_2=weight.name,
            shape_2=tuple(weight.shape),
            shown_base=base_label(self.adapter.base),
        )

    def _unknown(self, info: TensorInfo) -> CheckpointError:
        return CheckpointError(
            "{file} holds {name} {shape} of type {dtype}, of which no change is known here: the file is damaged, "
            "or of another kind than its adapter_config.json says",
            file=self.adapter.name,
            name=info.name,
            shape=tuple(info.shape),
            dtype=info.dtype,
        )


def _same(change: Change, other: Change) -> bool:
    """True if two changes of one weight are the same, as of an embedding and the output that is tied to it."""
    return change.weight is other.weight and torch.allclose(change.merged(), other.merged(), atol=1e-6)


def _is_real(info: TensorInfo) -> bool:
    dtype = getattr(torch, info.values, None)
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point and info.elements > 0


def _modern(name: str) -> str:
    """Name of a tensor with today's names of norms in the place of TensorFlow's."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _tied_names(settings: Mapping[str, Any]) -> dict[str, str]:
    """Names of parameters that a model of transformers ties to another, and of that one; empty: none, or not known."""
    wrote = settings.get("architectures")
    if not isinstance(wrote, list) or len(wrote) != 1 or not str(wrote[0]).isidentifier():
        return {}
    transformers = import_transformers()  # only where an embedding is changed, or an output that the file has not
    family = str(settings.get("model_type", ""))
    model_class, mapping = getattr(transformers, str(wrote[0]), None), transformers.CONFIG_MAPPING
    tied = getattr(model_class, "_tied_weights_keys", None)
    if family not in mapping or not isinstance(tied, dict):
        return {}
    usual = getattr(mapping[family](), "tie_word_embeddings", False)
    return dict(tied) if settings.get("tie_word_embeddings", usual) is True else {}


# rank_pattern and alpha_pattern have regular expressions, and a stranger's may take for ever: few of them are followed.

PLAIN = re.compile(r"\^?([\w-]|\\?\.|\\-)*\$?", re.A)
REPEATED = re.compile(r"\^?([\w-]|\\?\.|\\-)*(\.|\\d)[*+]([\w-]|\\?\.|\\-)*\$?", re.A)
MOST_REPEATED, LONGEST_PATTERN = 64, 250


class Patterns:
    """Values by regular expressions for the last parts of a module's name, of which the first that matches counts.

    A point in a name stands for itself, though in an expression it stands for any sign.

    Raises:
        CheckpointError: an expression is more than names with one repetition, or there are too many of these.
    """

    def __init__(self, patterns: Any) -> None:
        if not isinstance(patterns, dict) and patterns not in OFF:
            raise CheckpointError(
                Message("adapter_config.json: rank_pattern and alpha_pattern must be values by the names of modules")
            )
        self._values = list((patterns or {}).values())
        self._whole: dict[str, int] = {}  # numbers of values by names of modules, by their ends, by expressions
        self._ends: dict[str, int] = {}
        self._repeated: list[tuple[re.Pattern[str], int]] = []
        for number, pattern in enumerate(patterns or {}):
            for each in pattern.split("|"):
                self._add(each, number)

    def of(self, module: str, usual: Any) -> Any:
        """Value of the first expression that matches, else the usual one."""
        parts = module.split(".")
        ends = [".".join(parts[at:]) for at in range(len(parts))]
        indices = [self._ends[end] for end in ends if end in self._ends]
        indices += [self._whole[module]] if module in self._whole else []
        indices += [number for expression, number in self._repeated if expression.match(module)]
        return self._values[min(indices)] if indices else usual

    def _add(self, pattern: str, number: int) -> None:
        if PLAIN.fullmatch(pattern):
            name = pattern.removesuffix("$").replace("\\", "")
            names = self._whole if name.startswith("^") else self._ends
            names.setdefault(name.removeprefix("^"), number)
            return
        many = len(self._repeated) >= MOST_REPEATED or len(pattern) > LONGEST_PATTERN
        if many or not REPEATED.fullmatch(pattern):
            raise CheckpointError(
                "adapter_config.json: the pattern {pattern!r} is more than a name with one repetition, and is "
                "not followed: write the names of the modules",
                pattern=pattern[:60],
            )
        self._repeated.append((re.compile(rf"(.*\.)?({pattern})$"), number))
