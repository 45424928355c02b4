"""The search for sets that close: centres that follow the model, the least radii around them, the readout's margin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdssm.automata.affine import AffineModel
from pdssm.automata.certificate import Reason, Unknown
from pdssm.automata.closing import close
from pdssm.automata.covers import Cover
from pdssm.automata.dfa import DFA
from pdssm.automata.enclosures import Arriving, Discs, birth_loss, copied, image, margins
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import Floats
from pdssm.automata.token_maps import Complex

SETTLING, RESTS, SLOW = 1600, 1e-12, 64
"""Steps in which centres settle; they rest when they move by this part of their size; and are too slow when in so
many steps that does not halve."""


class Problem(NamedTuple):
    """A model and what it should compute."""

    model: AffineModel
    dfa: DFA
    tokens: IntArray
    classes: IntArray


class Found(NamedTuple):
    """Discs that close, and the bounds of what is added up in them."""

    centre: Complex
    radius: Floats
    sizes: Floats


class Search:
    """For discs that close over one cover."""

    def __init__(self, problem: Problem, cover: Cover) -> None:
        self.problem, self.cover = problem, cover
        self.hopeless = False
        """Whether no other cover could help: the readout fails on a state that a word leads to."""
        self.affine, self.symbols = problem.model, range(len(problem.tokens))

    def run(self) -> Found | Unknown:
        """Discs that close and on which the readout is right, or where that failed."""
        walked = self._walked() if self.cover.points is None else self.cover.points
        failure = self._failure_on_the_way(walked)
        if failure is not None:
            self.hopeless = True
            return failure
        if self.cover.points is not None:
            return Found(walked, np.zeros(walked.shape), np.abs(walked))
        centre = self._settled(walked)
        sizes, bounded = close(np.zeros(centre.shape), self._sizes, lambda _: False)
        if not bounded:
            return self._growing(sizes, self._sizes(sizes))
        failures: list[Unknown] = []

        def fails(radius: Floats) -> bool:
            failure = self._failure(Discs(centre, radius))
            failures.extend([] if failure is None else [failure])
            return failure is not None

        radius, closed = close(np.zeros(centre.shape), lambda r: self._grown(Discs(centre, r), sizes), fails)
        if closed:
            return Found(centre, radius, sizes)
        return failures[-1] if failures else self._growing(radius, self._grown(Discs(centre, radius), sizes))

    # ------------------------------------------------------------------------------------------------ centres

    def _settled(self, centre: Complex) -> Complex:
        """Each part's mean of what comes in, followed until it rests, or hardly moves."""
        arriving = np.bincount(self.cover.following.ravel(), minlength=len(centre)).astype(float)
        arriving[0] += 1
        last = np.inf
        for step in range(SETTLING):
            total = np.zeros_like(centre)
            total[0] = self.affine.initial
            for symbol in self.symbols:
                np.add.at(total, self.cover.following[:, symbol], self._moved(centre, symbol))
            mean = total / arriving[:, None]
            change, centre = float(np.abs(mean - centre).max()), mean
            if change < RESTS * (1 + np.abs(centre).max()):
                break
            if step % SLOW == 0:
                if not change < last / 2:
                    break
                last = change
        return centre

    def _walked(self) -> Complex:
        """Where a shortest word leads."""
        centre = np.zeros((len(self.cover.state), len(self.affine.initial)), dtype=np.complex128)
        centre[0] = self.affine.initial
        known, level = {0}, [0]
        while level:
            reached = []
            for symbol in self.symbols:
                moved = self._moved(centre[level], symbol)
                for row, node in enumerate(self.cover.following[level, symbol].tolist()):
                    if node not in known:
                        known.add(node)
                        reached.append(node)
                        centre[node] = moved[row]
            level = reached
        return centre

    def _moved(self, centre: Complex, symbol: int) -> Complex:
        return copied(self.affine.maps, int(self.problem.tokens[symbol]), centre)[0]

    # -------------------------------------------------------------------------------------------------- radii

    def _sizes(self, sizes: Floats) -> Floats:
        """The sums of sizes that arrive from these, and x_0's."""
        grown = np.zeros(sizes.shape)
        grown[0] = np.abs(self.affine.initial)
        for symbol in self.symbols:
            arriving = Arriving(self.affine.maps, int(self.problem.tokens[symbol])).sizes(sizes)
            np.maximum.at(grown, self.cover.following[:, symbol], arriving)
        return grown

    def _grown(self, discs: Discs, sizes: Floats) -> Floats:
        """The radii that hold the images of the sets, and x_0."""
        start = np.abs(self.affine.initial)
        radius = np.zeros(discs.radius.shape)
        radius[0] = np.abs(discs.centre[0] - self.affine.initial) + birth_loss(len(start)) * start
        for symbol in self.symbols:
            onto = self.cover.following[:, symbol]
            moved = image(self.affine.maps, int(self.problem.tokens[symbol]), discs, sizes)
            np.maximum.at(radius, onto, np.abs(moved.centre - discs.centre[onto]) + moved.radius)
        return radius

    # ----------------------------------------------------------------------------------------------- the answer

    def _failure(self, discs: Discs) -> Unknown | None:
        """The set and symbol where the readout is wrong or too near to it."""
        worst: tuple[float, int, int, int] | None = None
        like = self.affine.alike()[self.problem.tokens]
        for token in np.unique(like):
            symbols = np.flatnonzero(like == token)
            onto = np.unique(self.cover.following[:, symbols])
            lead, rival = margins(self.affine, discs.take(onto), token, self.problem.classes[self.cover.state[onto]])
            at = int(lead.argmin())
            if not lead[at] > 0 and (worst is None or lead[at] < worst[0]):
                before, which = np.argwhere(self.cover.following[:, symbols] == onto[at])[0]
                worst = float(lead[at]), int(before), int(symbols[which]), int(rival[at])
        if worst is None:
            return None
        return self._unclear(*worst)

    def _failure_on_the_way(self, walked: Complex) -> Unknown | None:
        """The same, on the states that words lead to: x_0 itself is never read out."""
        for symbol, token in enumerate(self.problem.tokens.tolist()):
            onto = self.cover.following[:, symbol]
            moved = self._moved(walked, symbol)
            lead, rival = margins(
                self.affine, Discs(moved, np.zeros(moved.shape)), token, self.problem.classes[self.cover.state[onto]]
            )
            at = int(lead.argmin())
            if not lead[at] > 0:
                return self._unclear(float(lead[at]), at, symbol, int(rival[at]))
        return None

    def _unclear(self, least: float, before: int, symbol: int, other: int) -> Unknown:
        own = self.problem.classes[self.cover.state[self.cover.following[before, symbol]]]
        detail = f"class {own} is above class {other} by {least:.3g} at the least"
        return self._unknown("readout", before, symbol, detail)

    def _growing(self, radius: Floats, grown: Floats) -> Unknown:
        node, component = np.unravel_index((grown - radius).argmax(), grown.shape)
        before, symbol = np.argwhere(self.cover.following == node)[0]
        detail = f"the sets do not close: component {component} grows beyond {radius[node, component]:.3g}"
        return self._unknown("grows", int(before), int(symbol), detail)

    def _unknown(self, reason: Reason, node: int, symbol: int, detail: str) -> Unknown:
        dfa = self.problem.dfa
        return Unknown(reason, dfa.name(int(self.cover.state[node])), dfa.alphabet[symbol], detail)
