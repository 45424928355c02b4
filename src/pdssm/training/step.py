"""One step of the optimiser."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pdssm.errors import NotFiniteError
from pdssm.tasks import Batch, Task, sample_batch
from pdssm.training.config import TrainConfig
from pdssm.training.interruption import Interruption
from pdssm.training.optimiser import learning_rate, set_learning_rate
from pdssm.training.outcome import Stop
from pdssm.training.processes import Processes
from pdssm.training.state import TrainState, step_seed


class Stepper:
    """Draws a batch, and moves the weights of ``state`` once; with several processes, as one of them."""

    def __init__(
        self, config: TrainConfig, task: Task, state: TrainState, processes: Processes, interruption: Interruption
    ) -> None:
        self.config, self.task, self.state = config, task, state
        self.processes, self.interruption = processes, interruption
        self.model = processes.prepare(state.model)

    def __call__(self) -> tuple[float, bool]:
        """The mean loss of a label, and whether any of the processes was told to stop."""
        config, state, processes = self.config, self.state, self.processes
        number = state.step * processes.count + processes.index
        batch = sample_batch(self.task, config.seed, "train", number, config.batch, state.curriculum.now)
        self.seed("train")
        loss = self._loss(batch.to(processes.device))
        loss, value, stop = self._shared(loss, len(batch.labels))
        if not math.isfinite(value):
            raise Stop("nan", f"the loss of step {state.step + 1} is {value}")
        loss.backward()
        if config.clip is not None:
            torch.nn.utils.clip_grad_norm_(state.model.parameters(), config.clip)
        set_learning_rate(state.optimiser, learning_rate(config, state.step))
        state.optimiser.step()
        state.optimiser.zero_grad()
        return value, stop

    def _loss(self, batch: Batch) -> Tensor:
        """Of one label, in the mean; NaN where a kernel refuses numbers that are not finite."""
        try:
            with self.autocast():
                logits = self.model(batch.tokens[None], cu_seqlens=batch.cu_seqlens, positions=batch.positions)
                return cross_entropy(logits.float(), batch.labels)
        except NotFiniteError:
            return torch.tensor(math.nan, device=batch.tokens.device)

    def _shared(self, loss: Tensor, labels: int) -> tuple[Tensor, float, bool]:
        """The loss whose gradient, averaged over processes, is that of the mean over all labels; and that mean.

        Also whether any of the processes was told to stop, so that all of them do.
        """
        told_to_stop = self.interruption.requested
        if self.processes.count == 1:
            return loss, loss.item(), told_to_stop
        own = torch.tensor([loss.item() * labels, labels, told_to_stop], dtype=torch.float64, device=loss.device)
        summed, all_labels, stop = self.processes.sum(own).tolist()
        return loss * (labels * self.processes.count / all_labels), summed / all_labels, stop > 0

    def seed(self, purpose: str) -> None:
        """``torch.manual_seed``, but for the generators in use only: for every GPU library that has not started it
        would keep a call and its traceback to be made up for later, at every step.
        """
        value = step_seed(self.config.seed, self.state.step, self.processes.index, purpose)
        torch.default_generator.manual_seed(value)
        if self.processes.device.type == "cuda":
            torch.cuda.manual_seed(value)

    def autocast(self) -> torch.autocast:
        """Half precision, if the config says so."""
        return torch.autocast(self.processes.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")
