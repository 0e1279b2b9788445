"""Training in one process, or in several through Hugging Face accelerate."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from model.data.datasets import IGNORED, Batch
from model.network.transformer import Network
from model.runtime.device import choose_device

Loss = Callable[[Network, Batch, float], Tensor]  # summed over the predicted tokens; the float is label smoothing
NetworkLoss = Callable[[Batch, float], Tensor]

# Where launchers write how many processes there are.
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


class Processes:
    """The processes that train together: here a single one, which does all of the work."""

    count, rank = 1, 0

    @property
    def main(self) -> bool:
        """True if this process prints and writes files."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        return choose_device()

    def prepare(self, network: Network, loss: Loss) -> NetworkLoss:
        """Loss of the network, whose backward pass gives the mean of all processes' gradients."""
        return partial(loss, network)

    def share(self, batch: Batch) -> Batch:
        """This process's rows of a batch: every `count`-th one from `rank` on."""
        return batch

    def without_exchange(self, loss: NetworkLoss) -> AbstractContextManager[None]:
        """Context in which gradients accumulate in each process, to be exchanged later."""
        return nullcontext()

    def sums(self, *values: float) -> list[float]:
        """Sum of each value over all processes."""
        return list(values)

    def any(self, here: bool) -> bool:
        """True if `here` is true in any process."""
        return self.sums(float(here))[0] > 0

    def close(self) -> None:
        """Leave the group of processes, where there is one."""


class LaunchedProcesses(Processes):
    """Processes that share the rows of every batch and exchange gradients (torch's DistributedDataParallel).

    Raises:
        ValueError: accelerate is not installed, or configured for more than data-parallel training.
    """

    def __init__(self) -> None:
        try:
            from accelerate import Accelerator
            from accelerate.utils import DistributedDataParallelKwargs
        except ImportError as error:
            raise ValueError(
                f"training in several processes needs accelerate: pip install accelerate ({error})"
            ) from error
        wrapping = DistributedDataParallelKwargs(broadcast_buffers=False)  # the same in all from the beginning
        # Precision is the trainer's: whatever `accelerate config` has written, it is not applied a second time.
        self.accelerator = Accelerator(
            cpu=choose_device().type == "cpu", mixed_precision="no", kwargs_handlers=[wrapping]
        )
        kind = self.accelerator.distributed_type.value
        if not kind.startswith("MULTI_"):
            self.close()
            raise ValueError(
                f"accelerate was launched for {kind}: only data-parallel training works, as with --multi_gpu"
            )
        self.count, self.rank = self.accelerator.num_processes, self.accelerator.process_index

    @property
    def device(self) -> torch.device:
        device: torch.device = self.accelerator.device
        return device

    def prepare(self, network: Network, loss: Loss) -> NetworkLoss:
        prepared: NetworkLoss = self.accelerator.prepare(_LossModule(network, loss))
        return prepared

    def share(self, batch: Batch) -> Batch:
        # All processes have to take part in the exchange: one without rows computes one that counts nothing.
        has_rows = self.rank < len(batch.labels)
        rows = slice(self.rank, None, self.count) if has_rows else slice(1)
        inputs = tuple(None if tensor is None else tensor[rows] for tensor in batch.inputs)
        labels = batch.labels[rows]
        return Batch(inputs, labels, batch.whole) if has_rows else Batch(inputs, torch.full_like(labels, IGNORED))

    def without_exchange(self, loss: NetworkLoss) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self.accelerator.no_sync(loss)
        return context

    def sums(self, *values: float) -> list[float]:
        # MPS has no float64, and no processes either.
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        sums: list[float] = self.accelerator.reduce(tensor, reduction="sum").tolist()
        return sums

    def close(self) -> None:
        self.accelerator.end_training()


class _LossModule(nn.Module):
    """The loss as a module, for wrappers that act on calls of a module's forward."""

    def __init__(self, network: Network, loss: Loss) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, batch: Batch, label_smoothing: float) -> Tensor:
        return self.loss(self.network, batch, label_smoothing)


def launched() -> Processes:
    """Processes of this run: one, unless `accelerate launch`, torchrun or mpirun started several.

    Raises:
        ValueError: several were asked for, and only this one was started; or their number is unclear; or the weights
            are to be spread over them (FSDP).
    """
    if any(_size(name) > 1 for name in SIZES):
        if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":  # which accelerate passes over on the CPU
            raise ValueError(
                "accelerate was launched for FSDP: here each process holds all weights (DDP), so leave out --use_fsdp: "
                "accelerate launch --multi_gpu --num_processes 2 -m model train"
            )
        return LaunchedProcesses()
    if {"ACCELERATE_USE_CPU", "MASTER_ADDR"} <= set(os.environ) and "WORLD_SIZE" not in os.environ:
        raise ValueError(
            "accelerate launch has started one process only, as it does on the CPU whatever --num_processes says: use "
            "accelerate launch --multi_gpu --num_processes 2 -m model train without --cpu, or no launcher"
        )
    return Processes()


def _size(name: str) -> int:
    text = os.environ.get(name, "1")
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"{name} ({text!r}) in the environment must be a number of processes: unset it to train in one"
        ) from None


def prints_errors() -> bool:
    """True if this process prints errors: the first on its machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"
