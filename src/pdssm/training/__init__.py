"""Training: a loop that can be cut anywhere and goes on to the same bits."""

from pdssm.training.config import TrainConfig
from pdssm.training.evaluation import Evaluation, accuracy_by_length, evaluate
from pdssm.training.loop import Outcome, resume, train
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
    "resume",
    "train",
]
