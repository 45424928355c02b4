"""Models: encoder, blocks of mixers, head."""

from pdssm.models.config import ModelConfig
from pdssm.models.sequence_model import SequenceModel

__all__ = ["ModelConfig", "SequenceModel"]
