"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from pdssm.errors import FULL, NotFiniteError, check_choice
from pdssm.models import SequenceModel
from pdssm.training.config import TrainConfig
from pdssm.training.environment import environment
from pdssm.training.evaluation import evaluate
from pdssm.training.interruption import Interruption
from pdssm.training.loggers import LOGGERS, NoLogger, make_logger
from pdssm.training.optimiser import learning_rate
from pdssm.training.outcome import Outcome, Reason, Stop
from pdssm.training.processes import Processes
from pdssm.training.progress import make_progress
from pdssm.training.run_folder import RunFolder
from pdssm.training.state import TrainState
from pdssm.training.step import Stepper


def train(config: TrainConfig, folder: str | Path, *, logger: str = "tensorboard", quiet: bool = False) -> Outcome:
    """Train a new model in a new folder."""
    config = config.self_contained()
    config.model_config(config.make_task())  # whatever is wrong is said before a folder exists
    return _train(config, RunFolder(folder), logger, quiet, new=True)


def resume(folder: str | Path, *, logger: str = "tensorboard", quiet: bool = False) -> Outcome:
    """Go on with a run, from its newest sound checkpoint, to the same bits as if it had never been cut."""
    run = RunFolder(folder)
    return _train(run.config(), run, logger, quiet, new=False)


def _train(config: TrainConfig, run: RunFolder, logger: str, quiet: bool, new: bool) -> Outcome:
    check_choice("logger", logger, LOGGERS)
    with _own_settings(config), Interruption() as interruption:
        processes = Processes(config.device)
        if new and processes.is_main:
            run.begin(config)
        with run.locked() if processes.is_main else nullcontext():
            return Trainer(config, run, processes, interruption, logger, quiet).run()


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
        self,
        config: TrainConfig,
        folder: RunFolder,
        processes: Processes,
        interruption: Interruption,
        logger: str,
        quiet: bool,
    ) -> None:
        self.config, self.folder, self.processes = config, folder, processes
        self.task = config.make_task()
        torch.manual_seed(config.seed)
        self.model = SequenceModel(config.model_config(self.task)).to(processes.device)
        self.state = TrainState(config, self.model)
        self.step = Stepper(config, self.task, self.state, processes, interruption)
        self._restore()
        main, step = processes.is_main, self.state.step
        self.logger = make_logger(logger, folder.path, step) if main else NoLogger(folder.path, 0)
        self.progress = make_progress(folder.path.name, step, config.steps, quiet or not main)

    def run(self) -> Outcome:
        """To the end, whatever it is."""
        try:
            reason, message = self._steps()
        except Stop as stop:
            reason, message = stop.reason, f"{stop.message}; {self._kept()}"
        finally:
            self._close()
        return self._outcome(reason, message)

    # ---------------------------------------------------------------------------------------------- the loop

    def _steps(self) -> tuple[Reason, str]:
        config, state = self.config, self.state
        began, seconds, done = time.perf_counter(), state.seconds, state.step
        while not self._ended():
            loss, told_to_stop = self.step()
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
            if told_to_stop and not self._ended():
                self._save()
                raise Stop("interrupted", "told to stop by a signal")
        if state.step < config.steps:
            return "reached", f"accuracy {state.accuracy:.4%} is above {config.stop_above:.4%}"
        return "finished", f"all {config.steps} steps are done"

    def _ended(self) -> bool:
        config, state = self.config, self.state
        reached = config.stop_above is not None and state.accuracy is not None and state.accuracy > config.stop_above
        return reached or state.step >= config.steps

    # --------------------------------------------------------------------------- what happens between the steps

    def _evaluate(self) -> None:
        config, state = self.config, self.state
        self._check_weights()
        self.step.seed("evaluation")
        with state.average.in_place():
            try:
                found = evaluate(
                    self.model, self.task, config.eval_lengths, config.eval_samples, seed=config.seed,
                    chunk=config.eval_chunk, share=(self.processes.index, self.processes.count),
                    autocast=self.step.autocast(), total=self.processes.sum,
                )  # fmt: skip
            except NotFiniteError as error:
                raise Stop("nan", f"after step {state.step} {error}") from error
            state.accuracy = found.accuracy
            if state.best is None or found.accuracy > state.best:
                state.best, state.best_step = found.accuracy, state.step
                model, step = self.model, state.step
                self.processes.write(lambda: self.folder.save_best(step, model.config, model.state_dict()))
        values = {"accuracy": found.accuracy, "loss": found.loss, "best": state.best}
        if self.task.label_at == "every":
            values |= {"last": found.last, "whole": found.whole}
        self._record("evaluation", **values)

    def _record(self, kind: str, **values: float) -> None:
        state = self.state

        def write() -> None:
            extra = {"seconds": round(state.seconds, 3), "longest": state.curriculum.longest}
            self.folder.record(kind, state.step, **values, **extra)
            self.logger.log(state.step, kind, values)

        self.processes.write(write)

    def _save(self) -> None:
        self._check_weights()
        tensors, counters = self.state.tensors(), self.state.counters()
        self.processes.write(lambda: self.folder.save_checkpoint(tensors, counters))

    def _check_weights(self) -> None:
        if not self.state.finite():
            raise Stop("nan", f"the weights after step {self.state.step} are not finite")

    # ---------------------------------------------------------------------------------------- start and end

    def _restore(self) -> None:
        main = self.processes.is_main
        if main:
            self.folder.remove_parts()
        else:
            self.processes.wait()  # the main process puts damaged checkpoints aside
        found = self.folder.load_newest()
        if main:
            self.processes.wait()
        if found is not None:
            self.state.restore(*found)
        if main:
            self.folder.rewind(self.state.step)
            self.folder.record_environment(environment(str(self.processes.device)))
            if self.state.step:
                self.folder.record("event", self.state.step, event="resumed")

    def _kept(self) -> str:
        newest = self.folder.newest_step()
        return "no checkpoint was due before" if newest is None else f"the checkpoint of step {newest} is kept"

    def _close(self) -> None:
        self.progress.close()
        try:
            self.logger.close()
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _outcome(self, reason: Reason, message: str) -> Outcome:
        state = self.state
        if self.processes.is_main:
            try:
                self.folder.remove_parts()
                self.folder.record("event", state.step, event=reason, message=message, seconds=round(state.seconds, 3))
            except OSError as error:  # the disk that is full, perhaps; the reason is said all the same
                if error.errno not in FULL:
                    raise
        self.progress.say(f"{reason} at step {state.step}: {message}")
        self.processes.close()
        return Outcome(
            self.folder.path, reason, message, state.step, state.seconds, state.accuracy, state.best, state.best_step
        )
