"""Training: a loop that can be cut anywhere and goes on to the same bits."""

from pdssm.training.config import TrainConfig, read_config
from pdssm.training.evaluation import Evaluation, accuracy_by_length, evaluate
from pdssm.training.loop import resume, train
from pdssm.training.outcome import Outcome
from pdssm.training.presets import PRESETS
from pdssm.training.run_folder import RunFolder

__all__ = [
    "PRESETS",
    "Evaluation",
    "Outcome",
    "RunFolder",
    "TrainConfig",
    "accuracy_by_length",
    "evaluate",
    "read_config",
    "resume",
    "train",
]
