"""How the kernels are compiled: without the GIL, and kept on disk until a source they are made of changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numba import njit

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")

# Sums may be taken in several lanes at once: in another order than written, but in the same one every time.
compiled_sum: Any = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})


def compiled_with(sources: Iterable[Path]) -> Callable[[Any], Any]:
    """``compiled`` for functions that call what other files define.

    Numba asks only whether a function's own file has changed, and would go on with the others as they were.
    """
    others = stamp(sources)

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        index = dispatcher._cache._cache_file
        index._source_stamp = (index._source_stamp, others)
        return dispatcher

    return decorate


def stamp(sources: Iterable[Path]) -> str:
    """A digest of the files' contents."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()
