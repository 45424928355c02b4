"""Scans: the arguments checked once (``problem``), the ways to solve them (``backends``), the public functions."""

from pdssm.scanning.readout import scan_readout
from pdssm.scanning.scan import scan

__all__ = ["scan", "scan_readout"]
