"""The checker of certificates: it shares the model's reading with the search for them, and no arithmetic.

Float64, each sum widened by its own rounding (``UP``), plus that of float32 in any order of summation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdssm.automata.affine import AffineModel, agrees, fingerprint, read_model
from pdssm.automata.certificate import Certificate
from pdssm.automata.compile import label_numbers, output_classes, token_letters
from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.validation import Label
from pdssm.models import SequenceModel

U = 2.0**-24
UP = 1 + 1e-10  # more than float64 loses in a sum of 100,000 terms


class CertificateError(AutomatonError):
    """A certificate that proves nothing about this model and this automaton."""


def check(
    certificate: Certificate,
    model: SequenceModel,
    dfa: DFA,
    *,
    vocabulary: Sequence[str] | None = None,
    classes: Sequence[Label] | None = None,
) -> None:
    """Raise unless the certificate proves the model right after every word; arguments as for ``certify``."""
    c, affine = certificate, read_model(model)
    letters = token_letters(dfa, dfa.alphabet if vocabulary is None else vocabulary)
    tokens = np.array([np.flatnonzero(letters == symbol)[0] for symbol in range(len(dfa.alphabet))])
    labels = label_numbers(dfa, output_classes(dfa) if classes is None else classes)
    count, size, kinds = len(c.centre), len(affine.initial), [c.state.dtype.kind, c.following.dtype.kind]
    _need(c.model == fingerprint(model), "is for another model")
    _need(agrees(model, affine), "cannot be judged: this machine computes other maps than were read")
    _need(np.array_equal(c.tokens, tokens) and len(letters) == model.config.input_size, "is for other tokens")
    _need(np.array_equal(c.classes, labels) and (labels < model.config.output_size).all(), "is for other classes")
    _need(c.state.shape == (count,) and c.following.shape == (count, len(tokens)), "has states of other shapes")
    _need(
        c.centre.shape == c.radius.shape == c.sizes.shape == (count, size) and kinds == ["i", "i"],
        "has discs of other shapes",
    )
    _need(((c.following >= 0) & (c.following < count)).all(), "leads nowhere")
    _need(count > 0 and ((c.state >= 0) & (c.state < len(dfa))).all(), "has a state that the automaton has not")
    _need(c.state[0] == dfa.initial, "does not begin in the automaton's initial state")
    _need((c.state[c.following] == dfa.transitions[c.state]).all(), "leads to another state than the automaton")
    _need(((np.abs(c.centre) < 1e30) & (c.radius >= 0) & (c.radius < 1e30)).all(), "has no finite discs")
    start = np.abs(affine.initial)
    away = np.abs(affine.initial - c.centre[0]) + (0 if c.exact else np.expm1(64 * (size + 1) * U)) * start
    _need((away * UP <= c.radius[0]).all() and (start <= c.sizes[0]).all(), "does not hold the initial state")
    _need((c.sizes < 1e30).all(), "has no finite sizes")
    for p, s in np.ndindex(*c.following.shape):
        _need(_stays(affine, c, p, s), f"is left from enclosure {p} by symbol {dfa.alphabet[s]!r}")
    like = affine.alike()[tokens]
    for p, token in {(int(c.following[p, s]), int(like[s])) for p, s in np.ndindex(*c.following.shape)}:
        _need(_answers(affine, c, p, token), f"may answer wrongly in enclosure {p} after token {token}")


def _need(holds: object, fault: str) -> None:
    if not holds:
        raise CertificateError(f"the certificate {fault}")


def _stays(affine: AffineModel, c: Certificate, p: int, s: int) -> bool:
    """Whether A x + b, with all its rounding, stays in the next enclosure's discs."""
    maps, token, onto = affine.maps, int(c.tokens[s]), int(c.following[p, s])
    target, source, d, e, b, f = (array[token] for array in maps[:6])
    x, r, m, n = c.centre[p][source], c.radius[p][source], c.sizes[p][source], len(b)
    y, terms = b.copy(), (b != 0) * 1
    np.add.at(y, target, d * x)
    if c.exact:
        np.add.at(terms, target, (x != 0) & ((d != 0) | (e > 0)))
        turned = (np.isin(d, (1, -1, 1j, -1j)) & (e == 0)) | (x == 0) | ((d == 0) & (e == 0))
        return bool((y == c.centre[onto]).all() and turned.all() and (terms <= 1).all() and not f.any())
    reach, size, inputs = np.zeros(n), np.zeros(n), np.abs(b) + f
    np.add.at(reach, target, (np.abs(d) + e) * (r + (n + 4) * U * (r + m)) + e * np.abs(x))
    np.add.at(size, target, (np.abs(d) + e) * m)
    reach += f + np.expm1(64 * (n + 1) * U) * inputs + 2.0**-126 * n * (1 + c.sizes[p].max())
    away = np.abs(y - c.centre[onto]) + 1e-12 * (size + inputs + np.abs(c.centre[onto]))
    return bool(((away + reach) * UP <= c.radius[onto]).all() and ((size + inputs) * UP <= c.sizes[onto]).all())


def _answers(affine: AffineModel, c: Certificate, p: int, token: int) -> bool:
    """Whether the right logit is the greatest on a whole enclosure, whatever is rounded."""
    x, r, own = c.centre[p], c.radius[p], int(c.classes[c.state[p]])
    weights, dim = affine.readout, affine.readout.shape[0]
    y = (weights @ x).real + affine.offset[token]
    off = (2 * len(x) + 7) * U * (np.abs(weights) @ (np.abs(x) + r) + affine.offset_size[token])
    off = (off + affine.offset_error[token]) * UP + 2.0**-125 * len(x)
    size, head, bias = np.abs(y) + np.abs(weights) @ r, affine.head, affine.head_bias
    least = most = np.float64(1)
    values = size + off
    if affine.norm is not None:
        gain, shift, eps = affine.norm
        sway = np.sqrt((np.abs(weights - weights.mean(0)) ** 2).mean(0)) @ r
        least, most = np.maximum(np.sqrt(y.var() + eps) - sway, eps**0.5) / UP, (np.sqrt(y.var() + eps) + sway) * UP
        head, bias = head * gain - (head * gain).mean(1)[:, None], bias + head @ shift
        part = (np.sqrt((off**2).mean()) + (2 * dim + 15) * U * ((size + off) ** 2).mean() / least * 1.5) / least
        if part > 0.2:  # the variance is lost in the rounding
            return False
        far, off = size + size.mean(), off + off.mean() + (dim + 1) * U * (size + off).mean()
        off = np.abs(gain) * (off * (1 + 1.5 * part) + far * (1.5 * part + 12 * U)) / least + 4 * U * np.abs(shift)
        values = np.abs(gain) * dim**0.5 + np.abs(shift) + off
    wrong = np.abs(affine.head) @ off + (dim + 1) * U * (np.abs(affine.head) @ values + np.abs(affine.head_bias))
    lead = (head[own] - head) @ y
    if r.any():
        lead = lead - np.abs((head[own] - head) @ weights) @ r * UP
    lead = np.where(lead > 0, lead / most, lead / least) + bias[own] - bias - (wrong[own] + wrong) * UP
    return bool((np.delete(lead, own) > 0).all())
