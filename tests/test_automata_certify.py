"""Certificates: what is proved is so, what is wrong is never proved, and the checker believes nothing."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from benchmarks.certify import corrupted as corrupted_models
from pdssm.automata import DFA, AutomatonError, hold_exact, snap
from pdssm.automata import search as searching
from pdssm.automata.affine import agrees, read_model
from pdssm.automata.certify import Certificate, CertificateError, Unknown, certify, check
from pdssm.automata.compile import compile_dfa, layer_of
from pdssm.automata.enclosures import Discs, image, margins
from pdssm.errors import FileError, RangeError
from pdssm.models import ModelConfig, SequenceModel
from pdssm.scanning import scan

seeds = st.integers(0, 2**32 - 1)


def random_dfa(seed: int, states: int = 8, symbols: int = 3) -> DFA:
    rng = np.random.default_rng(seed)
    return DFA.random(int(rng.integers(1, states + 1)), int(rng.integers(1, symbols + 1)), rng, ("x", "y", "z"))


def random_model(seed: int, vocabulary: int = 3, classes: int = 4, **options: Any) -> SequenceModel:
    torch.manual_seed(seed)
    config = {name: options.pop(name) for name in ("norm", "residual") if name in options}
    mixer = {"state_dim": 6, "dictionary_size": 3, **options}
    return SequenceModel(ModelConfig(vocabulary, classes, dim=7, mixer_options=mixer, **config)).eval()


@pytest.fixture(scope="module")
def ends_in_ab() -> tuple[SequenceModel, DFA]:
    """A model that has learnt a language whose words are told by their last two symbols."""
    dfa, rng = DFA.from_regex("(a|b)*ab", "ab"), np.random.default_rng(0)
    torch.manual_seed(0)
    options = {"state_dim": 8, "dictionary_size": 4, "init": "paper"}
    model = SequenceModel(ModelConfig(2, 2, dim=16, mixer_options=options))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    labels = np.array(dfa.outputs, dtype=np.int64)
    for _ in range(150):
        words = rng.integers(2, size=(32, 16))
        loss = cross_entropy(
            model(torch.from_numpy(words)).flatten(0, 1), torch.from_numpy(labels[dfa.run_many(words)]).flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), dfa


# --------------------------------------------------------------------------------------------- what is proved


@given(seed=seeds)
@settings(max_examples=12, deadline=None)
def test_compiled_models_certify(seed: int) -> None:
    dfa = random_dfa(seed)
    model = compile_dfa(dfa)
    certificate = certify(model, dfa)
    assert certificate
    assert certificate.exact
    assert len(certificate) == len(dfa)
    check(certificate, model, dfa)


def test_a_vocabulary_and_classes_of_their_own() -> None:
    dfa = random_dfa(3)
    names = {"vocabulary": ("<pad>", *reversed(dfa.alphabet)), "classes": ("z", "w", "x", "y")}
    model = compile_dfa(dfa, **names)
    certificate = certify(model, dfa, **names)
    assert certificate
    check(certificate, model, dfa, **names)
    with pytest.raises(AutomatonError):
        check(certificate, model, dfa)


def test_a_trained_model_certifies(ends_in_ab: tuple[SequenceModel, DFA]) -> None:
    model, dfa = ends_in_ab
    certificate = certify(model, dfa)
    assert isinstance(certificate, Certificate)
    assert not certificate.exact
    check(certificate, model, dfa)
    rng = np.random.default_rng(1)
    words = rng.integers(2, size=(8, 300))
    states, onto = model.initial_state(8), np.zeros(8, dtype=np.int64)
    for step in words.T:
        with torch.no_grad():
            _, states = model.step(torch.from_numpy(step), states)
        onto = certificate.following[onto, step]
        assert (np.abs(states[0].numpy() - certificate.centre[onto]) <= certificate.radius[onto]).all()


@pytest.mark.parametrize("backend", ["cpu", "chunked", "associative", "reference"])
def test_the_sets_hold_in_every_order_of_evaluation(ends_in_ab: tuple[SequenceModel, DFA], backend: str) -> None:
    model, dfa = ends_in_ab
    certificate = certify(model, dfa)
    assert isinstance(certificate, Certificate)
    word = np.random.default_rng(2).integers(2, size=5000)
    with torch.no_grad():
        transition, inputs = layer_of(model).generator(model.encoder.weight)
        start = model.initial_state(1)[0]
        states, _ = scan(transition, inputs, start, rows=torch.from_numpy(word)[None], backend=backend)
    onto, visited = 0, []
    for symbol in word:
        onto = int(certificate.following[onto, symbol])
        visited.append(onto)
    away = np.abs(states[0].numpy() - certificate.centre[visited])
    assert (away <= certificate.radius[visited]).all()
    assert (np.abs(states[0].numpy()) <= certificate.sizes[visited] * (1 + 1e-3)).all()


def test_a_learnt_automaton_certifies_though_it_has_more_states() -> None:
    """Two model states for each state of the automaton."""
    dfa = DFA(("a",), np.array([[1], [0]]), 0, (0, 1))
    larger = DFA(("a",), np.array([[1], [2], [3], [0]]), 0, (0, 1, 0, 1))
    certificate = certify(compile_dfa(larger), dfa)
    assert certificate
    assert len(certificate) == 4
    check(certificate, compile_dfa(larger), dfa)


def test_a_snapped_model_certifies(ends_in_ab: tuple[SequenceModel, DFA]) -> None:
    model, dfa = ends_in_ab
    snapped = snap(model, "ab", labels=(False, True), empty=False)
    certificate = certify(snapped.model, dfa, classes=(False, True))
    assert certificate
    assert certificate.exact


def walked(model: SequenceModel, size: int) -> DFA:
    """The automaton of a model whose states are unit vectors and whose answers depend on them alone."""
    nodes, table, labels = [0], [], {0: 0}
    for node in nodes:  # grows while we walk it
        state = torch.eye(size, dtype=torch.complex64)[node].expand(model.config.input_size, -1)
        with torch.no_grad():
            outputs, (reached,) = model.step(torch.arange(model.config.input_size), (state,))
        onto = reached.abs().argmax(-1).tolist()
        assert (reached == torch.eye(size, dtype=torch.complex64)[onto]).all()
        labels.update(zip(onto, outputs.argmax(-1).tolist(), strict=True))
        nodes += [new for new in dict.fromkeys(onto) if new not in nodes]
        table.append([nodes.index(new) for new in onto])
    return DFA(("a", "b"), np.array(table), 0, tuple(labels[node] for node in nodes))


@pytest.mark.parametrize("phase", ["sigmoid", "shrink", "zero"])
def test_held_exact_an_untrained_model_is_some_automaton(phase: str) -> None:
    drawn = (hold_exact(random_model(seed, 2, 3, phase=phase, state_dim=12, skip=False)) for seed in range(50))
    model, dfa = next((model, dfa) for model in drawn if len(dfa := walked(model, 12)) > 3)
    certificate = certify(model, dfa, classes=(0, 1, 2))
    assert certificate
    assert certificate.exact
    *others, last = dfa.outputs
    other = dataclasses.replace(dfa, outputs=(*others, (int(last) + 1) % 3))
    assert not certify(model, other, classes=(0, 1, 2), words=0)
    held = [p for p in model.blocks[0].mixer.generator.parameters() if not p.requires_grad]
    assert len(held) > 4


# ------------------------------------------------------------------------------------------- what is not proved


def corrupted(dfa: DFA, rng: np.random.Generator) -> tuple[SequenceModel, DFA]:
    """A compiled model whose weights are those of another automaton, by one transition, and the one it should be."""
    while True:
        broken = np.array(dfa.transitions)
        state, symbol = int(rng.integers(len(dfa))), int(rng.integers(len(dfa.alphabet)))
        broken[state, symbol] = int(rng.integers(len(dfa)))
        other = dataclasses.replace(dfa, transitions=broken)
        if other.minimised() != dfa.minimised():
            return compile_dfa(other, classes=("x", "y", "z")), dfa


def minimal_dfa(rng: np.random.Generator) -> DFA:
    while True:
        dfa = DFA.random(int(rng.integers(2, 9)), int(rng.integers(1, 4)), rng, ("x", "y", "z")).minimised()
        if len(dfa) > 1:
            return dfa


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_a_wrong_transition_is_never_certified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, dfa = corrupted(minimal_dfa(rng), rng)
    assert not certify(model, dfa, classes=("x", "y", "z"), words=0)


def test_the_wrong_word_is_shown() -> None:
    rng = np.random.default_rng(0)
    model, dfa = corrupted(minimal_dfa(rng), rng)
    unknown = certify(model, dfa, classes=("x", "y", "z"))
    assert isinstance(unknown, Unknown)
    assert unknown.reason == "wrong"
    assert unknown.word is not None
    states, outputs = model.initial_state(1), None
    for symbol in dfa.encode(unknown.word).tolist():
        outputs, states = model.step(torch.tensor([symbol]), states)
    assert outputs is not None
    assert ("x", "y", "z")[int(outputs.argmax())] != dfa.label(unknown.word)
    assert dfa.name(dfa.run(unknown.word[:-1])) == unknown.state
    assert unknown.word[-1] == unknown.symbol


def test_a_readout_that_is_wrong_in_one_state(ends_in_ab: tuple[SequenceModel, DFA]) -> None:
    dfa = random_dfa(5, states=6)
    model = compile_dfa(dfa)
    with torch.no_grad():
        model.head.weight[:, 0] = model.head.weight[:, 0].roll(1)
    unknown = certify(model, dfa, words=0)
    assert isinstance(unknown, Unknown)
    assert unknown.reason == "readout"
    assert (
        dfa.transitions[
            dfa.state_names.index(unknown.state) if dfa.state_names else int(unknown.state),
            dfa.encode([unknown.symbol])[0],
        ]
        == 0
    )
    trained, language = ends_in_ab
    with torch.no_grad():
        trained.head.bias[0] += 100
    try:
        assert not certify(trained, language, words=0)
    finally:
        with torch.no_grad():
            trained.head.bias[0] -= 100


def test_inputs_that_pile_up() -> None:
    """|D| = 1 keeps what b adds: right on short words, and no set closes."""
    dfa = DFA(("a", "b"), np.array([[0, 1], [1, 0]]), 0, (False, True))
    model = compile_dfa(dfa)
    with torch.no_grad():
        layer_of(model).generator.inputs.linear.weight.fill_(1e-4)
    unknown = certify(model, dfa, words=0)
    assert isinstance(unknown, Unknown)
    assert unknown.reason in ("grows", "readout")


def test_fading_memory_cannot_hold_parity() -> None:
    dfa = DFA(("a", "b"), np.array([[0, 1], [1, 0]]), 0, (False, True))
    model = compile_dfa(dfa)
    with torch.no_grad():
        layer_of(model).generator.entries.magnitude[-1].bias.fill_(9.0)
    unknown = certify(model, dfa, words=0)
    assert isinstance(unknown, Unknown)
    assert unknown.reason == "forgets"
    assert "contracts by 0.9998" in str(unknown)


def test_a_rotation_is_rounded_at_every_step() -> None:
    dfa = DFA(("a",), np.array([[1], [2], [0]]), 0, (0, 1, 2))
    model = random_model(0, 1, 3, state_dim=1, dictionary_size=1, phase="sigmoid", init="long", norm="none", skip=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.zero_() if "bias" in name or "phase" in name or "inputs" in name else None
        layer_of(model).generator.entries.magnitude[-1].bias.fill_(64.0)
        layer_of(model).generator.entries.phase[-1].bias.fill_(-float(np.log(2)))  # 2 pi / 3
        layer_of(model).readout.map.weight[:3] = torch.tensor([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])
        model.head.weight[:] = torch.eye(7)[:3]
    unknown = certify(model, dfa, classes=(0, 1, 2), words=0)
    assert isinstance(unknown, Unknown)
    assert unknown.reason in ("grows", "readout")


def test_an_equal_logit_is_no_answer() -> None:
    dfa = DFA(("a",), np.array([[1], [0]]), 0, (False, True))
    model = compile_dfa(dfa)
    with torch.no_grad():
        model.head.weight.zero_()
    assert not certify(model, dfa, words=0)


@pytest.mark.slow
def test_no_corrupted_model_certifies() -> None:
    """Of those that the benchmark makes: a transition or any weight changed, no words tried beforehand."""
    answers = [answer for answer, _ in corrupted_models(150, np.random.default_rng(1))]
    assert len(answers) == 150
    assert not any(answers)


# ------------------------------------------------------------------------------------------------- the checker


FORGERIES: dict[str, Callable[[Certificate], dict[str, Any]]] = {
    "smaller discs": lambda c: {"radius": c.radius * 0.9},
    "no discs": lambda c: {"radius": c.radius * 0},
    "negative": lambda c: {"radius": -c.radius},
    "infinite": lambda c: {"radius": c.radius + np.inf},
    "no number": lambda c: {"radius": c.radius * np.nan},
    "moved": lambda c: {"centre": c.centre + 0.5},
    "swapped": lambda c: {"state": c.state[::-1].copy()},
    "elsewhere": lambda c: {"following": c.following[:, ::-1].copy()},
    "nowhere": lambda c: {"following": c.following + len(c)},
    "before": lambda c: {"following": c.following - len(c)},
    "other classes": lambda c: {"classes": 1 - c.classes},
    "other tokens": lambda c: {"tokens": c.tokens[::-1].copy()},
    "other model": lambda c: {"model": "0" * 64},
    "too few": lambda c: {"centre": c.centre[:, :-1]},
    "fractions": lambda c: {"state": c.state.astype(float)},
    "states without end": lambda c: {"state": c.state + 100},
    "small sizes": lambda c: {"sizes": c.sizes * 0.5},
    "no sizes": lambda c: {"sizes": c.sizes * np.nan},
    "vast": lambda c: {"centre": c.centre * 1e33},
    "empty": lambda c: {name: getattr(c, name)[:0] for name in ("state", "following", "centre", "radius")},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_certificate_is_refused(ends_in_ab: tuple[SequenceModel, DFA], forgery: str) -> None:
    model, dfa = ends_in_ab
    certificate = certify(model, dfa)
    assert isinstance(certificate, Certificate)
    with pytest.raises(CertificateError, match="the certificate"):
        check(dataclasses.replace(certificate, **FORGERIES[forgery](certificate)), model, dfa)


def test_a_certificate_is_for_one_model(ends_in_ab: tuple[SequenceModel, DFA]) -> None:
    model, dfa = ends_in_ab
    certificate = certify(model, dfa)
    with torch.no_grad():
        model.head.bias[0] += 1e-3
    try:
        with pytest.raises(CertificateError, match="another model"):
            check(certificate, model, dfa)
    finally:
        with torch.no_grad():
            model.head.bias[0] -= 1e-3


@pytest.mark.parametrize("fault", ["margins", "image"])
def test_the_checker_notices_what_a_faulty_search_claims(
    ends_in_ab: tuple[SequenceModel, DFA], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A search without margins, or one that forgets the radii, is refused: shared code would share the fault."""
    model, dfa = ends_in_ab
    if fault == "margins":
        dfa = dataclasses.replace(dfa, outputs=tuple(not label for label in dfa.outputs))
        monkeypatch.setattr(
            searching, "margins", lambda _, discs, *__: (np.ones(len(discs.centre)), np.zeros(len(discs.centre)))
        )
    else:
        monkeypatch.setattr(searching, "image", lambda *given: Discs((moved := image(*given)).centre, 0 * moved.radius))
    unknown = certify(model, dfa, words=0)
    assert isinstance(unknown, Unknown)
    assert unknown.reason == "refused"


def test_what_the_checker_refuses_is_tried_more_finely(
    ends_in_ab: tuple[SequenceModel, DFA], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, dfa = ends_in_ab
    first = certify(model, dfa)
    assert isinstance(first, Certificate)
    refused: list[Certificate] = []

    def strict(certificate: Certificate, *given: Any, **names: Any) -> None:
        if not refused:
            refused.append(certificate)
            raise CertificateError("the certificate is not liked")
        check(certificate, *given, **names)

    monkeypatch.setitem(certify.__globals__, "check", strict)
    second = certify(model, dfa)
    assert isinstance(second, Certificate)
    assert len(second) > len(refused[0]) == len(first)


def test_files(tmp_path: Path, ends_in_ab: tuple[SequenceModel, DFA]) -> None:
    model, dfa = ends_in_ab
    certificate = certify(model, dfa)
    assert certificate
    certificate.save(tmp_path / "proof.npz")
    loaded = Certificate.load(tmp_path / "proof.npz")
    for field in dataclasses.fields(Certificate):
        np.testing.assert_array_equal(getattr(loaded, field.name), getattr(certificate, field.name))
    check(loaded, model, dfa)
    content = (tmp_path / "proof.npz").read_bytes()
    for name, damaged in {"cut": content[:100], "text": b"no archive", "empty": b""}.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(FileError, match=name):
            Certificate.load(tmp_path / name)
    np.savez(tmp_path / "other.npz", format="other", version=1)
    with pytest.raises(FileError, match="has format other"):
        Certificate.load(tmp_path / "other.npz")
    with pytest.raises(FileError, match="missing"):
        Certificate.load(tmp_path / "missing.npz")


# ------------------------------------------------------------------------------------------ the model as numbers


KINDS: dict[str, dict[str, Any]] = {
    "post": {"norm": "post"},
    "pre": {"norm": "pre", "residual": True, "magnitude": "near_one", "phase": "shrink"},
    "none": {"norm": "none", "residual": True, "phase": "zero", "readout": "real", "init": "paper"},
    "row": {"norm": "post", "orientation": "row", "init": "paper", "initial_state": "learned"},
    "bare": {"norm": "none", "skip": False, "bias": False, "magnitude": "near_one", "phase": "zero"},
}


def inside(rng: np.random.Generator, discs: Discs, count: int) -> torch.Tensor:
    """Float32 states at the discs' edges and within."""
    angle, part = rng.uniform(0, 2 * np.pi, (count, *discs.centre.shape[1:])), rng.uniform(0, 0.999, (count, 1))
    return torch.from_numpy((discs.centre + part * discs.radius * np.exp(1j * angle)).astype(np.complex64))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds, spread=st.sampled_from([0.0, 1e-6, 1e-2]))
@settings(max_examples=15, deadline=None)
def test_the_bounds_hold_what_the_model_computes(kind: str, seed: int, spread: float) -> None:
    """Maps, images and margins, against the model's own float32 steps from states in the discs."""
    model, rng = random_model(seed, **KINDS[kind]), np.random.default_rng(seed)
    affine = read_model(model)
    assert agrees(model, affine)
    point = (rng.normal(size=(1, 6)) + 1j * rng.normal(size=(1, 6))).astype(np.complex64).astype(np.complex128)
    discs = Discs(point, np.full((1, 6), spread))
    for token in range(3):
        moved = image(affine.maps, token, discs, np.abs(discs.centre) + discs.radius)
        states = inside(rng, discs, 50)
        with torch.no_grad():
            outputs, (reached,) = model.step(torch.full((50,), token), (states,))
        assert (np.abs(reached.numpy() - moved.centre) <= moved.radius * (1 + 1e-6)).all()
        for label in range(4):
            least, _ = margins(affine, moved, token, np.array([label]))
            others = np.delete(outputs.numpy().astype(np.float64), label, axis=1).max(1)
            assert (outputs[:, label].numpy() - others >= least - 1e-12).all()


def test_the_bounds_are_near_what_the_model_computes() -> None:
    """A bound of infinity would pass the test above."""
    affine = read_model(random_model(0))
    discs = Discs(np.ones((1, 6), dtype=np.complex128), np.full((1, 6), 1e-6))
    assert image(affine.maps, 0, discs, np.ones((1, 6))).radius.max() < 1e-3
    lead = [margins(affine, discs, 0, np.array([label]))[0] for label in range(4)]
    runner_up = [margins(affine, Discs(discs.centre, 0 * discs.radius), 0, np.array([label]))[0] for label in range(4)]
    np.testing.assert_allclose(lead, runner_up, atol=1e-3)
    assert max(lead) > 0


def test_a_wrong_reading_is_noticed() -> None:
    model = random_model(0)
    affine = read_model(model)
    moved = affine.maps._replace(inputs=affine.maps.inputs + 1e-3)
    assert not agrees(model, dataclasses.replace(affine, maps=moved))
    turned = affine.maps._replace(target=(affine.maps.target + 1) % 6)
    assert not agrees(model, dataclasses.replace(affine, maps=turned))


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"layers": 2}, "layers of the model is 2; expected 1"),
        ({"ffn": 2}, "ffn of the model is 2; expected 0"),
        ({"head": "mean"}, "head of the model is 'mean'"),
        ({"mixer": "real_diagonal"}, "mixer of the model is 'real_diagonal'; expected 'pdssm'"),
        ({"mixer_options": {"conv": 2}}, "conv of the model is 2"),
        ({"mixer_options": {"readout": "mlp"}}, "readout of the model is 'mlp'"),
        ({"mixer_options": {"stochastic": True}}, "stochastic of the model is True"),
        ({"mixer_options": {"dense_inference": True}}, "dense_inference of the model is True"),
    ],
)
def test_models_of_another_form(config: dict[str, Any], message: str) -> None:
    with pytest.raises(AutomatonError, match=message):
        read_model(SequenceModel(ModelConfig(2, 2, dim=4, **config)))


def test_samples_and_doubles_are_refused() -> None:
    with pytest.raises(AutomatonError, match="inputs of the model is 'samples'"):
        read_model(SequenceModel(ModelConfig(2, 2, inputs="samples", dim=4)))
    with pytest.raises(AutomatonError, match=r"element type of the model is torch\.float64"):
        read_model(random_model(0).double())


def test_sizes_that_do_not_match() -> None:
    dfa = DFA(("a", "b"), np.array([[0, 1], [1, 0]]), 0, (False, True))
    with pytest.raises(AutomatonError, match="vocabulary has 2 tokens and the model 3"):
        certify(random_model(0, 3, 2), dfa)
    with pytest.raises(AutomatonError, match="classes has 2 labels and the model 4"):
        certify(random_model(0, 2, 4), dfa)
    with pytest.raises(AutomatonError, match="enclosures is 1; expected at least 2"):
        certify(compile_dfa(dfa), dfa, enclosures=1)
    with pytest.raises(RangeError, match="history is -1"):
        certify(compile_dfa(dfa), dfa, history=-1)
