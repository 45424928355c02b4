"""A trained model's numbers, for the page to run it: what ``page_model.js`` reads."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from pdssm.automata.affine import AffineModel

MOST_WEIGHTS = 400_000
"""About 2 MB of the page."""


def live_model(model: AffineModel | None) -> dict[str, Any] | None:
    """As JSON, its arrays little-endian float32 in base64; None where there is no model, or too large a one.

    Complex arrays are pairs (re, im), side by side; ``readout`` is that of y = Re(readout x).
    """
    if model is None or model.readout.size + model.head.size > MOST_WEIGHTS:
        return None
    gain, bias, eps = model.norm if model.norm is not None else (None, None, 0.0)
    return {
        "size": len(model.initial),
        "width": len(model.readout),
        "classes": len(model.head),
        "target": model.maps.target.tolist(),
        "source": model.maps.source.tolist(),
        "diag": _packed(model.maps.diag),
        "inputs": _packed(model.maps.inputs),
        "initial": _packed(model.initial),
        "readout": _packed(model.readout),
        "offset": _packed(model.offset),
        "norm": None if gain is None or bias is None else {"gain": _packed(gain), "bias": _packed(bias), "eps": eps},
        "head": _packed(model.head),
        "headBias": _packed(model.head_bias),
    }


def _packed(values: Any) -> str:
    array = np.ascontiguousarray(values)
    if np.iscomplexobj(array):
        array = array.astype(np.complex128).view(np.float64)
    return base64.b64encode(array.astype("<f4").tobytes()).decode()
