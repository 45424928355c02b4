"""Stories for the report's tests, made without any training."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from pdssm.automata import DFA, counterexample
from pdssm.automata.affine import read_model
from pdssm.models import ModelConfig, SequenceModel
from pdssm.report import Finding, Story
from pdssm.report.findings import Found, findings
from pdssm.report.symbols import symbol_matrices
from pdssm.tasks import make_task
from pdssm.tasks.targets import target_automaton
from pdssm.training import Evaluation

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;b&gt;")


def evaluation(accuracy: float) -> Evaluation:
    return Evaluation(accuracy, accuracy, accuracy**2, 1 - accuracy, 100, 1000)


def random_model(symbols: int, classes: int, **options: Any) -> SequenceModel:
    """Of random weights, every parameter different from its start."""
    config = {"dim": 12, "mixer_options": {"state_dim": 10, "phase": "shrink"}, **options}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = SequenceModel(ModelConfig(symbols, classes, **config)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def rewired(dfa: DFA, state: int, symbol: int, target: int) -> DFA:
    """With one transition changed."""
    transitions = np.array(dfa.transitions)
    transitions[state, symbol] = target
    return DFA(dfa.alphabet, transitions, dfa.initial, dfa.outputs, dfa.state_names)


def group_story(name: str = "S3 run", group: str = "S3:2", broken: bool = False, **options: Any) -> Story:
    """The word problem of a group, an untrained model, and the target itself as what was extracted."""
    task = make_task(group)
    target = target_automaton(task)
    extracted = rewired(target, 2, 0, int(target.transitions[2, 0] + 1) % len(target)) if broken else target
    model = random_model(task.input_size, task.output_size, **options)
    symbols = tuple(enumerate(task.tokens))
    steps = range(100, 1100, 100)
    story = Story(
        name=name,
        task=task.name,
        summary=task.summary,
        symbols=symbols,
        labels=task.labels,
        chance=task.chance,
        limit=40,
        facts={"Model": "none that was trained"},
        records=[{"kind": "train", "step": step, "loss": 100 / step, "seconds": 1} for step in steps]
        + [
            {"kind": "evaluation", "step": step, "accuracy": step / 1000, "loss": 1}
            for step in steps
            if step % 500 == 0
        ],
        by_length={length: evaluation(min(1, 60 / length)) for length in (5, 10, 40, 100, 1000)},
        matrices=symbol_matrices(model, symbols),
        model=read_model(model),
        target=target,
        extracted=extracted,
        counterexample=counterexample(target, extracted),
    )
    return told(story)


def told(story: Story) -> Story:
    """With findings."""
    more = Finding("unknown", f"Nothing was certified about {story.name}.")
    return dataclasses.replace(story, findings=(*findings(story, Found()), more))


def hostile_story() -> Story:
    """Names that would end a script or open a tag, if they were let."""
    transitions = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    dfa = DFA(HOSTILE, transitions, 0, HOSTILE, ("'", "<svg onload=alert(1)>", "ok"))
    model = random_model(3, 3)
    symbols = tuple(enumerate(HOSTILE))
    return told(
        Story(
            name=HOSTILE[0],
            task=HOSTILE[1],
            summary=HOSTILE[2],
            symbols=symbols,
            labels=HOSTILE,
            chance=1 / 3,
            limit=10,
            facts={HOSTILE[0]: HOSTILE[1]},
            by_length={10: evaluation(0.5), 20: evaluation(0.25)},
            matrices=symbol_matrices(model, symbols),
            model=read_model(model),
            target=dfa,
            extracted=rewired(dfa, 1, 0, 0),
            counterexample=counterexample(dfa, rewired(dfa, 1, 0, 0)),
        )
    )
