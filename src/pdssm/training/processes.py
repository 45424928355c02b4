"""The processes that train one model together, through accelerate; mostly there is only this one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pdssm.errors import FULL
from pdssm.training.config import Device
from pdssm.training.outcome import Stop


def launched() -> int:
    """How many processes ``accelerate launch`` or ``torchrun`` has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the one of them that talks and writes."""
    return os.environ.get("RANK", "0") == "0"


class Processes:
    """This process's place among them."""

    def __init__(self, device: Device) -> None:
        # Half a second that importing pdssm.training should not take.
        from accelerate import Accelerator  # type: ignore[import-untyped]

        cpu = device == "cpu"
        # accelerate keeps what the first Accelerator of a process was told: one process alone tells it nothing.
        self._accelerator: Any = Accelerator(cpu=cpu and launched() > 1)
        self.index: int = self._accelerator.process_index
        self.count: int = self._accelerator.num_processes
        self.device: torch.device = torch.device("cpu") if cpu else self._accelerator.device

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes."""
        return self.index == 0

    def prepare(self, model: nn.Module) -> nn.Module:
        """One process needs no wrapper, and asking accelerate for none takes two seconds of imports."""
        if self.count == 1:
            return model
        prepared: nn.Module = self._accelerator.prepare_model(model)
        return prepared

    def sum(self, values: Tensor) -> Tensor:
        """Over all processes."""
        if self.count == 1:
            return values
        total: Tensor = self._accelerator.reduce(values, "sum")
        return total

    def wait(self) -> None:
        """For all of them."""
        self._accelerator.wait_for_everyone()

    def write(self, action: Callable[[], None]) -> None:
        """Files are the main process's; where it finds the disk full, all of them stop."""
        message = ""
        if self.is_main:
            try:
                action()
            except OSError as error:
                if error.errno not in FULL:
                    raise
                message = f"{error.filename or 'a file'} could not be written: {error.strerror}"
        if float(self.sum(torch.tensor(float(bool(message)), device=self.device))):
            raise Stop("disk full", message or "the main process could not write a file")

    def close(self) -> None:
        """At the end."""
        if self.count > 1:
            self._accelerator.end_training()
