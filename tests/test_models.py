"""``SequenceModel``: what it is made of, what it computes where, and its files."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pdssm import ModelConfig, PDSSMError, SequenceModel
from pdssm.errors import FileError, ShapeError
from pdssm.models.files import CONFIG, WEIGHTS, _fingerprint


def model(seed: int = 0, **changes: Any) -> SequenceModel:
    torch.manual_seed(seed)
    return SequenceModel(ModelConfig(**{"input_size": 5, "output_size": 3, "dim": 8, **changes}))


def tokens(batch: int, time: int, seed: int = 1) -> Tensor:
    return torch.randint(0, 5, (batch, time), generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------- the config


@given(st.data())
@settings(max_examples=40)
def test_a_config_round_trips_through_json(data: st.DataObject) -> None:
    options = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "state_dim": st.one_of(st.none(), st.integers(1, 9)),
                "orientation": st.sampled_from(["row", "column"]),
                "temperature": st.floats(0.1, 2.0),
                "stochastic": st.booleans(),
            },
        )
    )
    config = ModelConfig(
        input_size=data.draw(st.integers(1, 9)), output_size=data.draw(st.integers(1, 9)),
        inputs=data.draw(st.sampled_from(["tokens", "samples"])), dim=data.draw(st.integers(1, 9)),
        layers=data.draw(st.integers(1, 3)), mixer="pdssm", mixer_options=options,
        norm=data.draw(st.sampled_from(["none", "pre", "post"])), residual=data.draw(st.booleans()),
        ffn=data.draw(st.integers(0, 3)), dropout=data.draw(st.floats(0, 0.9)),
        head=data.draw(st.sampled_from(["every", "last", "mean"])),
    )  # fmt: skip
    assert ModelConfig.from_json(config.to_json()) == config
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_a_config_is_frozen() -> None:
    config = ModelConfig(5, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.dim = 4  # type: ignore[misc]
    given_options = {"state_dim": 4}
    config = ModelConfig(5, 3, mixer_options=given_options)
    given_options["state_dim"] = 5
    assert config.mixer_options == {"state_dim": 4}


# ------------------------------------------------------------------------------------------- every architecture

EVERY = [
    {"norm": norm, "residual": residual, "ffn": ffn, "head": head, "inputs": inputs, "layers": layers}
    for norm, residual, ffn, head, inputs, layers in itertools.product(
        ("none", "pre", "post"), (False, True), (0, 2), ("every", "last", "mean"), ("tokens", "samples"), (2,)
    )
]


def plainly(m: SequenceModel, x: Tensor) -> Tensor:
    """One sequence (time, ...) through the architecture as its docstring says it, the mixers as given."""
    config = m.config
    h = m.encoder(x)
    for block in m.blocks:
        y = block.mixer(block.norm(h)[None] if config.norm == "pre" else h[None])[0]
        h = h + y if config.residual else y
        h = block.norm(h) if config.norm == "post" else h
        if config.ffn:
            y = h + block.ffn(block.ffn_norm(h) if config.norm == "pre" else h)
            h = block.ffn_norm(y) if config.norm == "post" else y
    h = {"every": h, "last": h[-1], "mean": h.mean(0)}[config.head]
    return m.head(m.norm(h))


@pytest.mark.parametrize("changes", EVERY, ids=lambda c: "-".join(map(str, c.values())))
def test_every_architecture(changes: dict[str, Any]) -> None:
    """Against the plain composition; packed and masked against each sequence alone; all parameters reached."""
    m = model(**changes).double()
    lengths = [4, 1, 6]
    mask = torch.zeros(3, 6, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, 6 - length if row else 0 : 6 if row else length] = True
    x = tokens(3, 6) if changes["inputs"] == "tokens" else torch.randn(3, 6, 5, dtype=torch.float64)
    expected = [plainly(m, x[row, mask[row]]) for row in range(3)]
    masked = m(x, mask=mask)
    packed = m(x[mask][None], cu_seqlens=torch.tensor([0, *lengths]).cumsum(0))
    if changes["head"] == "every":
        assert masked.shape == (3, 6, 3)
        torch.testing.assert_close(masked[mask], torch.cat(expected))
        torch.testing.assert_close(packed[0], torch.cat(expected))
    else:
        assert masked.shape == (3, 3)
        torch.testing.assert_close(masked, torch.stack(expected))
        torch.testing.assert_close(packed, torch.stack(expected))
    dense = m(x)
    torch.testing.assert_close(dense, torch.stack([plainly(m, row) for row in x]))
    dense.square().sum().backward()
    for name, parameter in m.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("head", ["every", "last"])
@pytest.mark.parametrize("mixer_options", [{}, {"conv": 3}], ids=str)
def test_stepping_a_model(head: str, mixer_options: dict[str, Any]) -> None:
    m = model(head=head, layers=2, norm="pre", residual=True, ffn=1, mixer_options=mixer_options)
    x = tokens(2, 7)
    with torch.no_grad():
        state, outputs = m.initial_state(2), []
        for t in range(7):
            y, state = m.step(x[:, t], state)
            outputs.append(y)
        got = torch.stack(outputs, 1) if head == "every" else outputs[-1]
        expected, final = m(x, return_state=True)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
        half, middle = m(x[:, :3], return_state=True)
        rest, again = m(x[:, 3:], middle, return_state=True)
        torch.testing.assert_close(torch.cat((half, rest), 1) if head == "every" else rest, expected)
        for one, two, three in zip(state, again, final, strict=True):
            for a, b, c in zip(*(s if isinstance(s, tuple) else (s,) for s in (one, two, three)), strict=True):
                torch.testing.assert_close(a, c, rtol=1e-5, atol=1e-6)
                torch.testing.assert_close(b, c)


def test_dropout() -> None:
    m = model(dropout=0.5, ffn=1, residual=True)
    x = tokens(2, 7)
    assert not torch.equal(m(x), m(x))
    m.eval()
    assert torch.equal(m(x), m(x))
    kept = model(dropout=0.0, ffn=1, residual=True)
    assert torch.equal(kept(x), m(x))


# --------------------------------------------------------------------------------------- computing only what is needed


def generator_rows(m: SequenceModel, *arguments: Any, block: int = 0, **options: Any) -> list[int]:
    """How many inputs the block's generator gets."""
    seen: list[int] = []
    mixer = m.blocks[block].mixer
    handle = mixer.generator.register_forward_pre_hook(lambda module, given: seen.append(given[0][..., 0].numel()))
    m(*arguments, **options)
    handle.remove()
    return seen


def test_the_first_layer_works_on_distinct_tokens() -> None:
    x = tokens(3, 20)
    assert generator_rows(model(), x) == [5]
    assert generator_rows(model(norm="pre", residual=True, dropout=0.1, ffn=2), x) == [5]
    assert generator_rows(model(), x, mask=x > 0) == [5]
    many = model(input_size=1000)
    assert generator_rows(many, x) == [int(x.unique().numel())]
    # Later layers see inputs that all differ, and so does every layer of samples.
    assert generator_rows(model(layers=2), x, block=1) == [60]
    assert generator_rows(model(inputs="samples"), torch.randn(3, 20, 5)) == [60]
    # Noise makes equal tokens differ.
    assert generator_rows(model(mixer_options={"stochastic": True}), x) == [60]
    # A convolution: distinct windows.  Of width 2 there are at most 5 * 5 and those at the start.
    windows = {tuple(row[max(0, t - 1) : t + 1].tolist()) for row in x for t in range(20)}
    assert generator_rows(model(mixer_options={"conv": 2}), x) == [len(windows)]


def test_distinct_tokens_change_nothing() -> None:
    """The table of a small vocabulary, of the distinct tokens of a large one, and the inputs themselves: one result."""
    x = tokens(2, 30)
    for options in ({}, {"conv": 3}):
        small = model(mixer_options=options, norm="pre").double()
        large = model(input_size=1000, mixer_options=options, norm="pre").double()
        shared = {key: value for key, value in small.state_dict().items() if key != "encoder.weight"}
        large.load_state_dict({**large.state_dict(), **shared})
        with torch.no_grad():
            large.encoder.weight[:5] = small.encoder.weight
        y, z = small(x), large(x)
        torch.testing.assert_close(y, z)
        h = small.encoder(x)
        block = small.blocks[0]
        torch.testing.assert_close(small.head(small.norm(block.mixer(block.norm(h)))), y)
        grads = [torch.autograd.grad(out.square().sum(), m.encoder.weight)[0] for m, out in ((small, y), (large, z))]
        torch.testing.assert_close(grads[0], grads[1][:5])
        assert not grads[1][5:].any()


def test_positions_are_all_that_is_read_out() -> None:
    m = model(layers=2, ffn=1)
    x, at = tokens(3, 20), torch.tensor([19, 39, 41, 59])
    seen: dict[str, int] = {}
    modules = {"readout": m.blocks[1].mixer.readout, "ffn": m.blocks[1].ffn, "head": m.head}
    for name, module in modules.items():
        module.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0].shape[0]}))
    y = m(x, positions=at)
    assert seen == {"readout": 4, "ffn": 4, "head": 4}
    torch.testing.assert_close(y, m(x).flatten(0, 1)[at])
    last = model(layers=2, ffn=1, head="last")
    last.blocks[1].mixer.readout.register_forward_pre_hook(lambda _, given: seen.update(last=given[0].shape[0]))
    last(x)
    assert seen["last"] == 3


@settings(max_examples=15)
@given(data=st.data())
def test_positions_with_padding(data: st.DataObject) -> None:
    m = model()
    mask = torch.tensor(data.draw(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3)))
    mask[0, 2] = True
    steps = mask.flatten().nonzero()[:, 0]
    at = torch.tensor(data.draw(st.lists(st.sampled_from(steps.tolist()), max_size=6)), dtype=torch.int64)
    x = tokens(*mask.shape)
    torch.testing.assert_close(m(x, mask=mask, positions=at), m(x, mask=mask).flatten(0, 1)[at])


def test_freezing_a_model() -> None:
    m = model(layers=2).eval()
    x = tokens(2, 9)
    expected = m(x)
    assert torch.equal(m.freeze()(x), expected)
    with torch.no_grad():
        m.blocks[1].mixer.generator.dictionary.add_(1.0)
    with pytest.raises(PDSSMError, match="dictionary has changed since freeze"):
        m(x)
    assert torch.isfinite(m.unfreeze()(x)).all()


# ---------------------------------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    model(dim=2, mixer_options={"state_dim": 2, "dictionary_size": 2, "temperature": 0.5}).save_pretrained(folder)
    return folder


def copy_of(saved: Path, folder: Path) -> Path:
    for name in (CONFIG, WEIGHTS):
        (folder / name).write_bytes((saved / name).read_bytes())
    return folder


def test_a_model_round_trips(saved: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == [CONFIG, WEIGHTS]
    again = SequenceModel.from_pretrained(saved)
    again.save_pretrained(tmp_path / "new" / "folder")
    for name in (CONFIG, WEIGHTS):
        assert (saved / name).read_bytes() == (tmp_path / "new" / "folder" / name).read_bytes()
    assert all(parameter.requires_grad for parameter in again.parameters())
    for dtype in (torch.float64, torch.bfloat16):
        other = model().to(dtype)
        other.save_pretrained(tmp_path)
        x = tokens(1, 4)
        assert torch.equal(SequenceModel.from_pretrained(tmp_path)(x), other(x))
    with torch.no_grad():
        again.head.weight.zero_()  # the weights own their memory


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_file_is_refused(saved: Path, tmp_path_factory: Any, name: str, data: st.DataObject) -> None:
    """Cut at any byte, or any bit flipped: the error names the file."""
    folder = copy_of(saved, tmp_path_factory.mktemp("damaged"))
    content = bytearray((folder / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    (folder / name).write_bytes(content)
    with pytest.raises(FileError, match=name):
        SequenceModel.from_pretrained(folder)


def rewritten(folder: Path, change: Any, honest: bool = True) -> None:
    """The config file changed; with ``honest``, by someone who also writes the right fingerprint."""
    described = json.loads((folder / CONFIG).read_text())
    described = change(described) or described
    if honest and isinstance(described, dict):
        described["config_sha256"] = _fingerprint(described)
    (folder / CONFIG).write_text(json.dumps(described))


REFUSED: dict[str, tuple[Any, str]] = {
    "another version": (lambda d: d.update(version=2), r"has version 2; expected 1"),
    "another format": (lambda d: d.update(format="other"), r"has format 'other'; expected 'pdssm.SequenceModel'"),
    "a list": (lambda d: [1, 2], r"has format 'list'"),
    "no config": (lambda d: d.pop("config") and None, r"has no 'config'; expected one"),
    "no checksum": (lambda d: d.pop("sha256") and None, r"has no 'sha256'; expected one"),
    "an unknown entry": (lambda d: d["config"].update(colour=1), r"entry of the config is 'colour'; expected one of"),
    "a misspelt entry": (lambda d: d["config"].update(layer=1), r"did you mean 'layers'\?"),
    "a missing entry": (lambda d: d["config"].pop("input_size") and None, r"no 'input_size'; expected one"),
    "a size of zero": (lambda d: d["config"].update(dim=0), r"dim is 0; expected a whole number"),
    "a size of text": (lambda d: d["config"].update(dim="8"), r"dim is '8'; expected a whole number"),
    "an unknown mixer": (lambda d: d["config"].update(mixer="pdsm"), r"did you mean 'pdssm'"),
    "a mixer of a number": (lambda d: d["config"].update(mixer=3), r"mixer is 3; expected one of"),
    "an unknown option": (lambda d: d["config"].update(mixer_options={"k": 1}), r"option of mixer 'pdssm' is 'k'"),
    "options of a list": (lambda d: d["config"].update(mixer_options=[1]), r"mixer_options is a list; expected a map"),
    "a nested option": (lambda d: d["config"].update(mixer_options={"p": [1]}), r"option of mixer 'pdssm' is 'p'"),
    "an option's value": (lambda d: d["config"].update(mixer_options={"conv": -1}), r"conv is -1"),
    "residual of text": (lambda d: d["config"].update(residual="no"), r"residual is 'no'; expected True or False"),
    "dropout of text": (lambda d: d["config"].update(dropout="1"), r"dropout is '1'; expected a number in"),
    "a head of its own": (lambda d: d["config"].update(head="first"), r"head is 'first'; expected one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_foreign_config_is_refused(saved: Path, tmp_path: Path, case: str) -> None:
    change, message = REFUSED[case]
    folder = copy_of(saved, tmp_path)
    rewritten(folder, change)
    with pytest.raises(FileError, match=message) as caught:
        SequenceModel.from_pretrained(folder)
    assert str(folder / CONFIG) in str(caught.value)


def test_an_altered_config_is_refused(saved: Path, tmp_path: Path) -> None:
    """A value that is as valid as the one before it."""
    folder = copy_of(saved, tmp_path)
    rewritten(folder, lambda d: d["config"].update(norm="pre"), honest=False)
    with pytest.raises(FileError, match="does not match its own config_sha256: it was altered"):
        SequenceModel.from_pretrained(folder)


def test_weights_of_another_model_are_refused(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path)
    other = tmp_path / "other"
    model(dim=2).save_pretrained(other)
    (folder / WEIGHTS).write_bytes((other / WEIGHTS).read_bytes())
    with pytest.raises(FileError, match=r"model.safetensors .* is not the file that config.json describes"):
        SequenceModel.from_pretrained(folder)
    digest = json.loads((other / CONFIG).read_text())["sha256"]
    rewritten(folder, lambda d: d.update(sha256=digest))
    with pytest.raises(ShapeError, match=r"model.safetensors: tensor '.*generator.dictionary' has shape \(6, 2, 2\)"):
        SequenceModel.from_pretrained(folder)


def test_missing_files(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"config.json cannot be read: No such file"):
        SequenceModel.from_pretrained(tmp_path / "nowhere")
    folder = copy_of(saved, tmp_path)
    (folder / WEIGHTS).unlink()
    with pytest.raises(FileError, match=r"model.safetensors cannot be read: No such file"):
        SequenceModel.from_pretrained(folder)
    (folder / WEIGHTS).mkdir()
    with pytest.raises(FileError, match=r"model.safetensors cannot be read: Is a directory"):
        SequenceModel.from_pretrained(folder)


def test_not_safetensors(saved: Path, tmp_path: Path) -> None:
    """Something else under the right checksum."""
    import hashlib

    folder = copy_of(saved, tmp_path)
    (folder / WEIGHTS).write_bytes(b"hello")
    rewritten(folder, lambda d: d.update(sha256=hashlib.sha256(b"hello").hexdigest()))
    with pytest.raises(FileError, match=r"model.safetensors is not a safetensors file"):
        SequenceModel.from_pretrained(folder)


def test_no_pickle(saved: Path) -> None:
    """Nothing in the package reads or writes one."""
    import pdssm

    for path in Path(pdssm.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "torch.load(" not in text, path
        assert "torch.save(" not in text, path
    assert json.loads((saved / CONFIG).read_text())["format"] == "pdssm.SequenceModel"
    assert b"pickle" not in (saved / WEIGHTS).read_bytes()


def test_a_failed_save_leaves_the_old_model(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    folder = copy_of(saved, tmp_path)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model(dim=4).save_pretrained(folder)
    monkeypatch.undo()
    assert SequenceModel.from_pretrained(folder).config.dim == 2


def test_modules_are_found_by_their_type() -> None:
    m = model(layers=3, ffn=2)
    assert sum(isinstance(module, nn.LayerNorm) for module in m.modules()) == 6
    assert sum(isinstance(module, nn.LayerNorm) for module in model(layers=3).modules()) == 3
