"""The benchmarks of layers and of the paper's runtime study, at sizes where they take no time."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from benchmarks import (
    frozen,
    runtime,
    runtime_cells,
    runtime_fit,
    runtime_paper,
    runtime_plots,
    runtime_report,
    sections,
    training,
)
from benchmarks import layer as layers
from benchmarks.command import Figure, command, shown
from benchmarks.layer_variants import Cache, Transformer, output, state_bytes, streaming, variants
from benchmarks.measure import machine
from benchmarks.runtime_cells import Cell, Party, build, forward, parties
from pdssm.layers import MIXERS, LinearRecurrence

CPU = torch.device("cpu")


# ------------------------------------------------------------------------------------- the paper's closed forms


@pytest.mark.parametrize("family", ["pd", "diagonal", "dense"])
def test_parameters_are_those_of_the_layers(family: str) -> None:
    layer = build(family, 12, 10, CPU)
    biases = 0
    if family != "dense":
        # The paper's 4N counts the biases of both networks.
        biases = sum(p.numel() for name, p in layer.named_parameters() if name.endswith("bias"))
        assert biases == 4 * 10
    assert sum(p.numel() for p in layer.parameters()) == runtime_paper.parameters(family, 12, 10)


def test_the_papers_sizes() -> None:
    assert runtime_paper.paper_pd_size(2048) == 1552
    assert runtime_paper.paper_diagonal_size(2048) == 2048
    assert runtime_paper.matched_pd_size(2048) == 1419


@pytest.mark.parametrize("dim", runtime_paper.DIMS)
def test_the_corrected_size_is_the_largest_within_dense(dim: int) -> None:
    size, dense = runtime_paper.matched_pd_size(dim), runtime_paper.parameters("dense", dim, dim)
    assert runtime_paper.parameters("pd", dim, size) <= dense < runtime_paper.parameters("pd", dim, size + 1)
    overshoot = runtime_paper.parameters("pd", dim, runtime_paper.paper_pd_size(dim)) / dense
    assert 1.10 < overshoot < 1.16


# ---------------------------------------------------------------------------------------------------- the cells


@pytest.mark.parametrize("party", parties(16, frozen=True), ids=str)
def test_every_algorithm_computes_the_layer(party: Party) -> None:
    """Also the pieces of dense's best algorithm, whose state is carried."""
    layer = build(party.family, 16, party.size, CPU)
    if party.family == "frozen":
        layer.freeze()
    x = torch.randn(1, 11, 16)
    with torch.no_grad():
        expected = layer(x)
        if party.family == "dense":
            torch.testing.assert_close(forward(layer, x, "reference", 3), expected)
        y = runtime_cells.step_of(party, layer, x)()
    assert y.shape == (1, 11, 16)
    torch.testing.assert_close(y, expected)


def test_settings_share_their_parties() -> None:
    names = parties(2048)
    assert len(names) == len(set(names))
    assert sum(party.family == "dense" for party in names) == 2
    assert {party.size for party in names if party.family == "pd"} == {1024, 2048, 1552, 1419}


def test_prediction_scales_the_largest_measured_cell() -> None:
    small, large = Party("dense", 64, "associative"), Party("dense", 128, "associative")
    measured = [Cell(64, 64, {small: 0.5, Party("pd", 64, "best"): 9.0})]
    assert runtime_cells.predicted_seconds(large, 128, 64, measured) == pytest.approx(4.0)
    assert runtime_cells.predicted_seconds(small, 64, 256, measured) == pytest.approx(2.0)
    assert runtime_cells.predicted_seconds(Party("given", 64, "best"), 64, 64, measured) == 0.0


def test_a_slow_step_runs_once_and_a_quick_one_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"quick": 0, "slow": 0}
    clock = [0.0]
    quick, slow = Party("pd", 1, "best"), Party("dense", 1, "best")

    def step(name: str, spent: float) -> runtime_cells.Step:
        def run() -> object:
            calls[name] += 1
            clock[0] += spent
            return None

        return run

    monkeypatch.setattr(runtime_cells.time, "perf_counter", lambda: clock[0])
    seconds, counted = runtime_cells.in_turns({quick: step("quick", 1.0), slow: step("slow", 10.0)}, 2.0)
    assert seconds == pytest.approx({quick: 1.0, slow: 10.0})
    assert (counted[quick], counted[slow]) == (3, 1)
    assert (calls["quick"], calls["slow"]) == (4, 1)  # one warm-up


# ------------------------------------------------------------------------------------------------- the budgets


def tiny(minutes: float, memory: float) -> runtime.Study:
    return runtime.Study(CPU, minutes, memory, 0.0)


def test_what_exceeds_the_memory_is_named() -> None:
    dense = Party("dense", 128, "associative")
    cell = Cell(128, 64)
    size = runtime_cells.weight_bytes("dense", 128, 128) / runtime_cells.GIB
    assert tiny(1, 4 * size).admit(cell, [dense]) == []
    assert cell.skipped[dense].startswith("memory: ")
    assert tiny(1, 1.0).admit(Cell(128, 64), [dense]) == [dense]


def test_memory_counts_every_layer_beside_the_others() -> None:
    wanted = [Party("pd", 64, "best"), Party("pd", 64, "associative"), Party("diagonal", 64, "best")]
    weights = [runtime_cells.weight_bytes(family, 128, 64) for family in ("pd", "diagonal")]
    working = max(runtime_cells.working_bytes(party, 8, "cpu") for party in wanted)
    enough = (sum(weights) + working) / runtime_cells.GIB
    assert tiny(1, 1.0001 * enough).admit(Cell(128, 8), wanted) == wanted
    assert tiny(1, 0.9999 * enough).admit(Cell(128, 8), wanted) == wanted[:2]


def test_what_exceeds_the_time_is_named() -> None:
    study, dense = tiny(1, 1.0), Party("dense", 128, "associative")
    study.cells.append(Cell(64, 64, {Party("dense", 64, "associative"): 1.0}))
    cell = Cell(128, 64)
    assert study.admit(cell, [dense]) == []  # 8 s, and 6 are a tenth of the budget
    assert cell.skipped[dense].startswith("time: about 8 s a call")
    study.limit = 3600.0
    assert study.admit(Cell(128, 64), [dense]) == [dense]
    study.start -= 3600.0
    late = Cell(128, 64)
    assert study.admit(late, [dense]) == []
    assert "of 0 left" in late.skipped[dense]


# --------------------------------------------------------------------------------------------------- the report


def cells() -> list[Cell]:
    """Times that give known ratios."""
    seconds = {
        Party("pd", 1024, "best"): 0.1,
        Party("pd", 1024, "associative"): 0.2,
        Party("diagonal", 1024, "best"): 0.04,
        Party("dense", 2048, "best"): 0.7,
        Party("dense", 2048, "associative"): 12.0,
    }
    return [Cell(2048, 64, seconds, dict.fromkeys(seconds, 3), {Party("pd", 2048, "best"): "memory: much"})]


def test_ratios_stand_beside_the_papers() -> None:
    rows = runtime_report.ratios(cells())
    dense = next(row for row in rows if row["ratio"] == "dense / pd")
    assert (dense["setting"], dense["paper"]) == ("real state twice as wide", 18.8)
    assert dense["associative"] == pytest.approx(60)
    assert dense["best"] == pytest.approx(7)
    price = next(row for row in rows if row["ratio"] == "pd / diagonal")
    assert price["best"] == pytest.approx(2.5)
    assert "associative" not in price
    assert price["paper"] is None
    assert "18.80" in runtime_report.report_ratios(rows)


def test_the_lines_of_a_plot() -> None:
    first, second = cells()[0], Cell(512, 64, {Party("pd", 256, "best"): 0.01})
    line = runtime_plots.series([first, second], runtime_paper.HALF, 64, "pd", "best")
    assert line == [(512, 0.01), (2048, 0.1)]
    assert runtime_plots.series([first, second], runtime_paper.HALF, 256, "pd", "best") == []
    ((dim, times),) = runtime_plots.slowdown([first, second], runtime_paper.HALF, 64, "pd", "best")
    assert (dim, times) == (2048, pytest.approx(2.5))


def test_goals() -> None:
    by_scan, by_best, price = runtime_report.figures(cells(), on_cpu=True)
    assert by_scan.value == pytest.approx(120)
    assert by_scan.met is True
    assert by_best.value == pytest.approx(7)
    assert by_best.met is False
    assert price.value == pytest.approx(2.5)
    assert price.met is True
    assert all(figure.met is None for figure in runtime_report.figures(cells(), on_cpu=False))
    assert runtime_report.figures([Cell(128, 64)], on_cpu=True) == []


def test_a_whole_study(capsys: pytest.CaptureFixture[str]) -> None:
    study = runtime.Study(CPU, 0.5, 1.0, 0.0)
    study.warm_up()
    study.measure([32, 64], [8])
    measured, skipped = runtime_report.as_stored(study.cells)
    assert {row["family"] for row in measured} == {"pd", "given", "diagonal", "dense"}
    assert all(row["seconds"] > 0 for row in measured)
    assert skipped == []
    assert json.loads(json.dumps(measured)) == measured
    assert "dense N=64 associative" in capsys.readouterr().out


def test_what_a_command_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The machine, what was measured and how long it took."""
    figure = Figure("what", "at", "at least 2", "3", "1.9", 1.9, False, {"ours": 0.1})
    path = tmp_path / "new" / "result.json"
    words = ["--quick", "--json", str(path), "--size", "3"]
    stored = command(
        "A benchmark.",
        lambda given: {"figures": shown([figure]), "size": given.size},
        quick="less",
        extend=lambda parser: parser.add_argument("--size", type=int),
        words=words,
    )
    assert json.loads(path.read_text()) == stored
    assert list(stored) == ["machine", "quick", "figures", "size", "seconds"]
    assert (stored["quick"], stored["size"], stored["figures"][0]["met"]) == (True, 3, False)
    printed = capsys.readouterr().out
    assert "MISSED" in printed
    assert str(stored["machine"]["commit"]) in printed
    with pytest.raises(SystemExit):
        command("A benchmark.", lambda given: {}, words=["--quick"])


def test_least_squares_find_the_exponents() -> None:
    times = {(length, size): 3e-9 * length * size**2.5 for length in (8, 16, 32) for size in (64, 128, 256)}
    a, b, r_squared = runtime_fit.fitted(times)
    assert (a, b, r_squared) == pytest.approx((1, 2.5, 1))
    noisy = {key: spent * (2.0 if key == (8, 64) else 1.0) for key, spent in times.items()}
    assert runtime_fit.fitted(noisy)[2] < 0.999


@pytest.mark.parametrize("family", runtime_fit.EXPECTED)
def test_scans_alone_stay_finite(family: str) -> None:
    """Products that vanished or overflowed would cost what they do not in a trained model."""
    states, _ = runtime_fit.scan_step(family, 64, 32, "associative", CPU)()
    size = states.abs().mean()
    assert bool(torch.isfinite(states.abs()).all())
    assert 0.1 < size < 1e4


# --------------------------------------------------------------------------------------------------- the layers


@pytest.mark.parametrize("name", variants(16, 3))
def test_streaming_is_the_layer(name: str) -> None:
    layer = variants(16, 3)[name]().eval()
    x = torch.randn(1, 7, 16)
    step, state = streaming(layer, 16, CPU)
    with torch.no_grad():
        torch.manual_seed(0)
        outputs = []
        for t in range(7):
            y, state = step(x[:, t], state)
            outputs.append(y)
        y = torch.stack(outputs, 1)
        assert y.shape == (1, 7, 16)
        if "stochastic" not in name:  # whose noise differs from call to call
            torch.testing.assert_close(y, output(layer, x))
    assert state_bytes(state) > 0


def test_state_bytes() -> None:
    def held(name: str) -> int:
        return state_bytes(streaming(variants(16, 3)[name](), 16, CPU)[1])

    assert held("PD-SSM") == 16 * 8
    assert held("PD-SSM, convolution of 4") == 16 * 8 + 3 * 16 * 4
    assert held("SD-SSM (dense)") == 16 * 4
    assert held("LSTM") == 2 * 16 * 4
    assert state_bytes(Cache(16, 100, CPU)) == 2 * 100 * 16 * 4


def test_the_cache_is_put_back_after_every_turn() -> None:
    layers_dim = layers.DIM
    step, held = layers.cached_step(Transformer(layers_dim), torch.randn(3, 1, layers_dim), 50)
    step()
    step()
    assert held["state"].length == 53


def test_training_and_flatness_figures() -> None:
    found = [*layers.training(CPU, 0.0, batch=1, length=8), *layers.flatness(1000)]
    assert [figure.what for figure in found[: len(variants(8, 2))]] == [
        f"train step, {name}" for name in variants(8, 2)
    ]
    growth = next(figure for figure in found if figure.what.startswith("memory growth"))
    assert growth.met is True
    assert all(math.isfinite(figure.value) and asdict(figure)["at"].startswith("cpu") for figure in found)


def test_training_figures() -> None:
    """The LSTMs take the place of PD-SSM and of nothing else; padded and packed are the same layer."""
    made = training.parties()
    assert set(made) == {"pdssm", "lstm", "padded lstm"}
    assert "padded_lstm" not in MIXERS
    losses = {name: step() for name, step in made.items()}
    assert losses["lstm"] == pytest.approx(losses["padded lstm"], rel=1e-4)
    assert losses["pdssm"] != pytest.approx(losses["lstm"], rel=1e-4)


def test_generator_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    batches = list(training.generators(0.0))
    assert [figure.what for figure in batches] == [f"batch of {name}" for name in training.TASKS]
    assert all(figure.met == (figure.value < 1000) for figure in batches)


def test_frozen_layers_share_their_parameters() -> None:
    layer: LinearRecurrence = build("pd", 12, 8, CPU)
    twin = runtime_cells.with_frozen_selection(layer)
    assert all(a is b for a, b in zip(layer.parameters(), twin.parameters(), strict=True))
    assert layer.generator._frozen is None
    assert twin.generator._frozen is not None


def test_what_is_stored_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The documents' sections read what the benchmarks store, under the names they store it by."""
    dictionary = frozen.dictionaries(128)["marked"]
    candidates, freezing = frozen.measured_freeze("marked", dictionary)
    selecting = frozen.compare("marked", dictionary, candidates, 3, 0.0)
    common = {"machine": machine() | {"device": "some GPU"}, "quick": True}
    page = sections.frozen(common | {"freezing": [asdict(freezing)], "selecting": [asdict(selecting)]})
    assert f"| marked | 128 | 3 | {sections.duration(selecting.seconds['full'])} |" in page
    assert "marked" in capsys.readouterr().out
    stored = common | {"ratios": runtime_report.ratios(cells())}
    stored["figures"] = [asdict(figure) for figure in runtime_report.figures(cells(), on_cpu=True)]
    stored["exponents"] = [asdict(runtime_fit.Exponents("PD", "best", 1.0, 1.04, (1, 1), 0.99, {}))]
    _, stored["skipped"] = runtime_report.as_stored(cells())
    page = sections.runtime(stored, "folder")
    for text in (
        "| real state twice as wide | dense / pd | 2,048 | 64 | 18.8x | 60x | 7x |",
        "| PD | best | 1.00 | 1.04 | 1, 1 | 0.990 |",
        "memory: much",
        "some GPU beside",
        "../results/folder",
    ):
        assert text in page
