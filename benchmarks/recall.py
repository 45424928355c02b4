"""Recall, which a state of fixed size is not made for: ``python -m benchmarks.recall [--quick] [--json FILE]``.

A sequence shows pairs of a key and a value, then one of the keys again; the answer is its value.  One layer each, of
the same width, trained alike on up to 64 pairs: what has to be remembered grows with the pairs, a state does not.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from benchmarks.command import command
from benchmarks.layer_variants import output, variants

KEYS, VALUES, DIM, TERMS = 64, 16, 64, 6
LAYERS = ("PD-SSM", "complex diagonal", "LSTM", "Transformer")
PAIRS = (2, 4, 8, 16, 32, 64)


class Recaller(nn.Module):
    """Encoder, layer, and a classifier of what it puts out at the end."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.encoder, self.layer, self.head = nn.Linear(KEYS + VALUES, DIM), layer, nn.Linear(DIM, VALUES)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(output(self.layer, self.encoder(x))[:, -1])
        return y


def draw(batch: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """``(batch, pairs + 1, KEYS + VALUES)`` and the answers ``(batch,)``."""
    keys = torch.rand(batch, KEYS, generator=generator).argsort(1)[:, :pairs]
    values = torch.randint(VALUES, (batch, pairs), generator=generator)
    shown = torch.cat((one_hot(keys, KEYS), one_hot(values, VALUES)), -1)
    asked = torch.randint(pairs, (batch, 1), generator=generator)
    question = torch.cat((one_hot(keys.gather(1, asked), KEYS), torch.zeros(batch, 1, VALUES, dtype=torch.int64)), -1)
    return torch.cat((shown, question), 1).float(), values.gather(1, asked)[:, 0]


def trained(name: str, steps: int, batch: int, seed: int) -> tuple[Recaller, float]:
    """A layer after its training, and the seconds that took."""
    torch.manual_seed(seed)
    model = Recaller(variants(DIM, TERMS)[name]())
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    start = time.perf_counter()
    for _ in range(steps):
        pairs = int(torch.randint(1, KEYS + 1, (), generator=generator))
        x, answers = draw(batch, pairs, generator)
        optimiser.zero_grad()
        cross_entropy(model(x), answers).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.eval(), time.perf_counter() - start


@torch.no_grad()
def accuracy(model: Recaller, pairs: int, batch: int) -> float:
    """The fraction of right answers on new sequences."""
    x, answers = draw(batch, pairs, torch.Generator().manual_seed(10_000 + pairs))
    return float((model(x).argmax(-1) == answers).double().mean())


def study(steps: int, batch: int, seed: int = 0, questions: int = 2000) -> list[dict[str, Any]]:
    """A line a layer."""
    found = []
    for name in LAYERS:
        model, seconds = trained(name, steps, batch, seed)
        by_pairs = {str(pairs): accuracy(model, pairs, questions) for pairs in PAIRS}
        found.append(
            {"layer": name, "seed": seed, "steps": steps, "batch": batch, "seconds": seconds, "accuracy": by_pairs}
        )
        print(
            f"{name:18s} {seconds:6.0f} s  " + "  ".join(f"{n}: {100 * a:.1f} %" for n, a in by_pairs.items()),
            flush=True,
        )
    return found


def main() -> None:
    """Train, measure, print, store."""
    command(
        __doc__,
        lambda given: {"chance": 1 / VALUES, "layers": study(200 if given.quick else 2000, 64, given.seed)},
        quick="a tenth of the steps",
        extend=lambda parser: parser.add_argument("--seed", type=int, default=0),
    )


if __name__ == "__main__":
    main()
