"""The training loop."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pdssm.models import SequenceModel
from pdssm.tasks import sample_batch
from pdssm.training.config import TrainConfig
from pdssm.training.environment import environment
from pdssm.training.evaluation import evaluate
from pdssm.training.interruption import Interruption
from pdssm.training.loggers import NoLogger, make_logger
from pdssm.training.optimiser import learning_rate, set_learning_rate
from pdssm.training.progress import make_progress
from pdssm.training.run_folder import RunFolder
from pdssm.training.state import TrainState, step_seed

Reason = Literal["finished", "reached", "nan", "disk full", "interrupted"]
EXIT_CODES: dict[str, int] = {"finished": 0, "reached": 0, "nan": 1, "disk full": 1, "interrupted": 130}
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    reason: Reason
    message: str
    step: int
    seconds: float
    """Spent in all its sessions together."""
    accuracy: float | None
    best: float | None
    best_step: int | None

    @property
    def exit_code(self) -> int:
        """0 where it came to its end, 1 where it had to stop, 130 where it was told to."""
        return EXIT_CODES[self.reason]


class Stop(Exception):  # noqa: N818 - the end of a run is no error of the program
    """The run ends here."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def train(config: TrainConfig, folder: str | Path, *, logger: str = "tensorboard", quiet: bool = False) -> Outcome:
    """Train a new model in a new folder."""
    run = RunFolder(folder)
    run.begin(config)
    return _train(config, run, logger, quiet)


def resume(folder: str | Path, *, logger: str = "tensorboard", quiet: bool = False) -> Outcome:
    """Go on with a run, from its newest sound checkpoint, to the same bits as if it had never been cut."""
    run = RunFolder(folder)
    return _train(run.config(), run, logger, quiet)


def _train(config: TrainConfig, run: RunFolder, logger: str, quiet: bool) -> Outcome:
    with _own_settings(config), Interruption() as interruption:
        return Trainer(config, run, logger, quiet, interruption).run()


@contextmanager
def _own_settings(config: TrainConfig) -> Iterator[None]:
    """Threads and random numbers of this run; the caller's own come back afterwards."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.set_num_threads(config.threads or threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


class Trainer:
    """Model, data, optimiser and folder of one run; with several processes, one of them in each."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, logger: str, quiet: bool, interruption: Interruption
    ) -> None:
        # Half a second that importing pdssm.training should not take.
        from accelerate import Accelerator  # type: ignore[import-untyped]

        self.config, self.folder, self.interruption = config, folder, interruption
        self.accelerator = Accelerator(cpu=config.device == "cpu")
        self.process, self.processes = self.accelerator.process_index, self.accelerator.num_processes
        self.task = config.make_task()
        torch.manual_seed(config.seed)
        self.model = SequenceModel(config.model_config(self.task)).to(self.accelerator.device)
        # One process needs no wrapper, and asking accelerate for none takes two seconds of imports.
        self.parallel = self.accelerator.prepare_model(self.model) if self.processes > 1 else self.model
        self.state = TrainState(config, self.model)
        main = self.accelerator.is_main_process
        self._restore(main)
        self.logger = make_logger(logger, folder.path, self.state.step) if main else NoLogger(folder.path, 0)
        self.progress = make_progress(folder.path.name, config.steps, quiet or not main)

    def run(self) -> Outcome:
        """To the end, whatever it is."""
        try:
            reason, message = self._steps()
        except Stop as stop:
            reason, message = stop.reason, stop.message
        except OSError as error:
            if error.errno not in FULL:
                raise
            reason, message = "disk full", f"{error.filename or 'a file'} could not be written: {error.strerror}"
        finally:
            self._close()
        return self._outcome(reason, message)

    # ---------------------------------------------------------------------------------------------- the loop

    def _steps(self) -> tuple[Reason, str]:
        config, state = self.config, self.state
        began, seconds, done = time.perf_counter(), state.seconds, state.step
        while not self._ended():
            loss = self._step()
            state.observe(loss)
            state.seconds = seconds + time.perf_counter() - began
            last = state.step == config.steps
            if state.step % config.log_every == 0 or last:
                speed = (state.step - done) / (state.seconds - seconds)
                self._record("train", loss=state.loss, lr=learning_rate(config, state.step - 1), steps_per_second=speed)
            if state.step % config.eval_every == 0 or last:
                self._evaluate()
                state.seconds = seconds + time.perf_counter() - began
            if state.step % config.checkpoint_every == 0 or self._ended():
                self._save()
            self.progress.update(state)
            if self.stopping and not self._ended():
                self._save()
                raise Stop("interrupted", "interrupted by a signal; resume it to go on")
        if state.step < config.steps:
            return "reached", f"accuracy {state.accuracy:.4%} is above {config.stop_above:.4%}"
        return "finished", f"all {config.steps} steps are done"

    def _ended(self) -> bool:
        config, state = self.config, self.state
        reached = config.stop_above is not None and state.accuracy is not None and state.accuracy > config.stop_above
        return reached or state.step >= config.steps

    def _step(self) -> float:
        """One step of the optimiser; the mean loss of a label."""
        config, state = self.config, self.state
        number = state.step * self.processes + self.process
        batch = sample_batch(self.task, config.seed, "train", number, config.batch, state.curriculum.now)
        batch = batch.to(self.accelerator.device)
        self._seed("train")
        with self._autocast():
            logits = self.parallel(batch.tokens[None], cu_seqlens=batch.cu_seqlens, positions=batch.positions)
            loss = cross_entropy(logits.float(), batch.labels)
        loss, value = self._shared(loss, len(batch.labels))
        if not math.isfinite(value):
            raise Stop("nan", f"the loss of step {state.step + 1} is {value}; the last checkpoint is kept")
        self.accelerator.backward(loss)
        if config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        set_learning_rate(state.optimiser, learning_rate(config, state.step))
        state.optimiser.step()
        state.optimiser.zero_grad()
        return value

    def _shared(self, loss: Tensor, labels: int) -> tuple[Tensor, float]:
        """The loss whose gradient, averaged over processes, is that of the mean over all labels; and that mean.

        Also whether any of the processes was told to stop, so that all of them do.
        """
        self.stopping = self.interruption.requested
        if self.processes == 1:
            return loss, loss.item()
        own = torch.tensor([loss.item() * labels, labels, self.stopping], dtype=torch.float64, device=loss.device)
        total: Any = self.accelerator.reduce(own, "sum")
        self.stopping = bool(total[2] > 0)
        return loss * (labels * self.processes / float(total[1])), float(total[0] / total[1])

    stopping = False

    def _seed(self, purpose: str) -> None:
        """``torch.manual_seed``, but for the generators in use only: for every GPU library that has not started it
        would keep a call and its traceback to be made up for later, at every step.
        """
        value = step_seed(self.config.seed, self.state.step, self.process, purpose)
        torch.default_generator.manual_seed(value)
        if self.accelerator.device.type == "cuda":
            torch.cuda.manual_seed(value)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.accelerator.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    # --------------------------------------------------------------------------- what happens between the steps

    def _evaluate(self) -> None:
        config, state = self.config, self.state
        self._seed("evaluation")
        with state.average.in_place():
            found = evaluate(
                self.model, self.task, config.eval_lengths, config.eval_samples, seed=config.seed,
                chunk=config.eval_chunk, share=(self.process, self.processes), autocast=self._autocast(),
                total=lambda counts: self.accelerator.reduce(counts, "sum"),
            )  # fmt: skip
            state.accuracy = found.accuracy
            if state.best is None or found.accuracy > state.best:
                state.best, state.best_step = found.accuracy, state.step
                if self.accelerator.is_main_process:
                    self.folder.save_best(state.step, self.model.config, self.model.state_dict())
        values = {"accuracy": found.accuracy, "loss": found.loss, "best": state.best}
        if self.task.label_at == "every":
            values |= {"last": found.last, "whole": found.whole}
        self._record("evaluation", **values)

    def _record(self, kind: str, **values: float) -> None:
        if self.accelerator.is_main_process:
            extra = {"seconds": round(self.state.seconds, 3), "longest": self.state.curriculum.longest}
            self.folder.record(kind, self.state.step, **values, **extra)
            self.logger.log(self.state.step, kind, values)

    def _save(self) -> None:
        if not self.state.finite():
            raise Stop("nan", f"weights after step {self.state.step} are not finite; the last checkpoint is kept")
        if self.accelerator.is_main_process:
            self.folder.save_checkpoint(self.state.tensors(), self.state.counters())

    # ---------------------------------------------------------------------------------------- start and end

    def _restore(self, main: bool) -> None:
        if main:
            self.folder.remove_parts()
        found = self.folder.load_newest()
        if found is not None:
            self.state.restore(*found)
        self.accelerator.wait_for_everyone()
        if main:
            self.folder.rewind(self.state.step)
            self.folder.record_environment(environment(str(self.accelerator.device)))
            if self.state.step:
                self.folder.record("event", self.state.step, event="resumed")

    def _close(self) -> None:
        self.progress.close()
        try:
            self.logger.close()
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _outcome(self, reason: Reason, message: str) -> Outcome:
        state = self.state
        if self.accelerator.is_main_process:
            try:
                self.folder.remove_parts()
                self.folder.record("event", state.step, event=reason, message=message, seconds=round(state.seconds, 3))
            except OSError as error:  # the disk that is full, perhaps; the reason is said all the same
                if error.errno not in FULL:
                    raise
        self.progress.say(f"{reason} at step {state.step}: {message}")
        if self.processes > 1:
            self.accelerator.end_training()
        return Outcome(
            self.folder.path, reason, message, state.step, state.seconds, state.accuracy, state.best, state.best_step
        )
