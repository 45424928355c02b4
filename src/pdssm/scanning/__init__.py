"""Scans: the arguments checked once (``problem``), the ways to solve them (``backends``), the public functions."""

from pdssm.scanning.decay import decay_readout
from pdssm.scanning.readout import scan_readout
from pdssm.scanning.scan import scan
from pdssm.scanning.selective import selective_readout

__all__ = ["decay_readout", "scan", "scan_readout", "selective_readout"]
