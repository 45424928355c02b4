"""The report: where things are drawn, what the page holds, and that no name can break out of it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm.automata import DFA, Evidence, Extraction, Unknown, compile_dfa
from pdssm.cli import main
from pdssm.errors import ChoiceError, FileError
from pdssm.models import SequenceModel
from pdssm.report import Finding, Story, collect, examine, page, write_figures, write_page
from pdssm.report.arrows import arrows
from pdssm.report.automaton import automaton_drawing
from pdssm.report.axes import Scale, share
from pdssm.report.charts import LengthCurve, accuracy_chart, learning_chart
from pdssm.report.drawing import Drawing
from pdssm.report.figures import figures
from pdssm.report.layout import distances, layout, stress
from pdssm.report.live import live_model
from pdssm.report.page import embedded, run_data
from pdssm.report.raster import rendered
from pdssm.report.style import PALETTE
from pdssm.report.svg import standalone, svg
from pdssm.tasks import make_task
from pdssm.tasks.targets import target_automaton
from pdssm.training import RunFolder, TrainConfig, train
from tests.report_stories import HOSTILE, evaluation, group_story, hostile_story, random_model, rewired

DFAS = st.builds(
    lambda states, symbols, seed: DFA.random(states, symbols, np.random.default_rng(seed)),
    st.integers(1, 24), st.integers(1, 5), st.integers(0, 10**6),
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    folder = tmp_path_factory.mktemp("runs") / "S3-0"
    config = TrainConfig(
        "S3:2", dim=8, steps=20, batch=8, lengths=(3, 12), eval_lengths=(12, 12), eval_every=10, eval_samples=16,
        log_every=5, threads=1, device="cpu",
    )  # fmt: skip
    train(config, folder, logger="none", quiet=True)
    return folder


# -------------------------------------------------------------------------------------------------- drawing


@given(DFAS)
def test_states_are_drawn_apart_and_the_same_way_twice(dfa: DFA) -> None:
    places = layout(dfa)
    assert np.isfinite(places).all()
    np.testing.assert_array_equal(places, layout(dfa))
    if len(dfa) > 1:
        apart = np.linalg.norm(places[:, None] - places, axis=-1) + 10 * np.eye(len(dfa))
        assert apart.min() > 0.65
        around = 2 * np.pi * np.arange(len(dfa)) / len(dfa)
        circle = np.stack([np.cos(around), np.sin(around)], axis=1) * max(1.0, len(dfa) / 7)
        assert stress(places, distances(dfa)) <= 1.2 * stress(circle, distances(dfa)) + 1e-6  # after some were moved


def test_a_cycle_is_a_regular_polygon() -> None:
    places = layout(DFA(("a",), np.array([[1], [2], [3], [4], [0]]), 0, tuple("abcde")))
    sides = np.linalg.norm(places - np.roll(places, 1, axis=0), axis=-1)
    np.testing.assert_allclose(sides, sides[0], rtol=1e-3)
    assert places[0, 0] == places[:, 0].min()


def test_distances_count_the_edges() -> None:
    path = DFA(("a",), np.array([[1], [2], [2], [3]]), 0, tuple("abcd"))
    assert distances(path)[0].tolist() == [0, 1, 2, 3]  # no word leads to the last: one further than any
    assert distances(path).tolist() == distances(path).T.tolist()


@given(DFAS)
def test_every_transition_has_one_arrow(dfa: DFA) -> None:
    drawn = [edge for arrow in arrows(dfa) for edge in arrow.edges]
    assert sorted(drawn) == sorted((q, s) for q in range(len(dfa)) for s in range(len(dfa.alphabet)))
    for arrow in arrows(dfa):
        assert all(dfa.transitions[q, s] in (arrow.source, arrow.target) for q, s in arrow.edges)


@given(DFAS, st.data())
def test_a_drawn_automaton_can_be_found_by_state_and_edge(dfa: DFA, data: st.DataObject) -> None:
    word = data.draw(st.lists(st.sampled_from(dfa.alphabet), max_size=5))
    root = parsed(automaton_drawing("a", "an automaton", dfa, layout(dfa), word))
    states = [element.get("data-state") for element in root.iter() if element.get("data-state")]
    assert states == [str(state) for state in range(len(dfa))]
    edges = " ".join(element.get("data-edges") or "" for element in root.iter()).split()
    assert sorted(edges) == sorted(f"{q}:{s}" for q in range(len(dfa)) for s in range(len(dfa.alphabet)))
    rings = [element for element in root.iter() if element.get("class") == "d-wrong-ring"]
    ends = root.find(f".//*[@data-state='{dfa.run(word)}']/*[@class='d-node']")
    assert ends is not None
    assert [(ring.get("cx"), ring.get("cy")) for ring in rings] == [(ends.get("cx"), ends.get("cy"))]
    assert all(inside(element, root) for element in root.iter() if element.get("cx"))


def parsed(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(svg(drawing))


def inside(circle: ElementTree.Element, root: ElementTree.Element) -> bool:
    x, y, r = (float(circle.get(name, "nan")) for name in ("cx", "cy", "r"))
    return r <= x <= float(root.get("width", "0")) - r and r <= y <= float(root.get("height", "0")) - r


def places_of(drawing: Drawing) -> dict[str, tuple[str | None, str | None]]:
    """Of each state, by its output."""
    root = parsed(drawing)
    found = {}
    for group in root.iter("g"):
        if group.get("data-state"):
            circle, output = group.find("circle"), (group.findtext("title") or "").rpartition("output ")[2]
            assert circle is not None
            found[output] = circle.get("cx"), circle.get("cy")
    return found


def test_automata_that_are_alike_stand_in_the_same_places() -> None:
    story = group_story()
    assert story.extracted is not None
    assert story.target is not None
    order = np.concatenate([[0], np.random.default_rng(0).permutation(np.arange(1, 6))])
    shuffled = story.extracted.restricted(order)
    drawn = figures(dataclasses.replace(story, extracted=shuffled)).automata
    assert list(drawn) == ["extracted", "target"]
    assert places_of(drawn["extracted"]) == places_of(drawn["target"])
    nearly = rewired(story.target, 5, 1, 0)  # one transition is wrong: seen at a glance
    drawn = figures(dataclasses.replace(story, extracted=nearly)).automata
    assert places_of(drawn["extracted"]) == places_of(drawn["target"])
    other = DFA(story.target.alphabet, np.zeros((6, 2), dtype=int), 0, story.target.outputs)
    drawn = figures(dataclasses.replace(story, extracted=other)).automata
    assert places_of(drawn["extracted"]) != places_of(drawn["target"])


@given(st.floats(0, 1), st.integers(0, 10**6))
def test_a_share_is_never_rounded_to_all_or_nothing(value: float, wrong: int) -> None:
    assert (share(value) == "100.00%") == (value == 1)
    assert share(1 - wrong / 10**7) != "100.00%" or wrong == 0
    assert share(0.98765) == "98.77%"  # a Python half
    assert share(0.9999866) == "99.999%"


@given(st.floats(1e-6, 1e3), st.floats(1.5, 1e6), st.booleans(), st.integers(2, 9))
def test_ticks_lie_on_their_scale(low: float, factor: float, log: bool, most: int) -> None:
    scale = Scale(low, low * factor, 100, 300, log)
    assert (round(scale(low)), round(scale(low * factor))) == (100, 300)
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 1
    assert ticks == sorted(set(ticks))
    places = [scale(tick) for tick in ticks]
    assert places == sorted(places)
    assert all(low * 0.99 <= tick <= low * factor * 1.01 for tick in ticks)


def test_the_accuracy_chart_marks_the_training_limit_and_says_its_values() -> None:
    by_length = {10: evaluation(1.0), 100: evaluation(0.5), 1000: evaluation(0.25)}
    drawing = accuracy_chart([LengthCurve("learnt", by_length, 100)], 0.1)
    assert "100.00% at 10, 50.00% at 100, 25.00% at 1000" in drawing.title
    root = parsed(drawing)
    (limit,) = (element.get("d", "") for element in root.iter() if element.get("class") == "d-limit")
    lines = [element.get("d", "") for element in root.iter("path") if element.get("class") == "d-c0-line"]
    (curve,) = (line for line in lines if line.count("L") == 2)  # the other is the legend's
    points = [tuple(map(float, pair.split())) for pair in re.split("[ML]", curve)[1:]]
    assert limit.startswith(f"M{points[1][0]:g} ")
    heights = [y for _, y in points]
    assert heights[2] - heights[1] == pytest.approx((heights[1] - heights[0]) / 2, abs=0.02)


def test_the_learning_chart_takes_what_there_is() -> None:
    assert learning_chart([]) is None
    assert learning_chart([{"kind": "train", "step": 1, "loss": float("nan")}]) is None
    only = learning_chart([{"kind": "evaluation", "step": 5, "accuracy": 0.5}])
    assert only is not None
    assert "50.00%" in only.title


def test_colours_can_be_told_from_the_page() -> None:
    for scheme in (0, 1):
        for ground in ("paper", "panel"):
            for name, colours in PALETTE.items():
                if name not in ("paper", "panel", "grid"):
                    least = 3 if name == "axis" else 4.5
                    assert contrast(colours[scheme], PALETTE[ground][scheme]) >= least, (name, ground, scheme)


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


# ----------------------------------------------------------------------------------------------------- page


class Reader(HTMLParser):
    """Elements, and the text of those that hold raw text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.raw.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.raw[-1] += data

    def of(self, tag: str) -> Iterator[tuple[dict[str, str | None], str]]:
        return ((found[1], raw) for found, raw in zip(self.elements, self.raw, strict=True) if found[0] == tag)


@pytest.fixture(scope="module")
def told() -> list[Story]:
    return [group_story(), group_story("broken", broken=True)]


def test_the_data_is_in_the_page(told: list[Story]) -> None:
    reader = Reader(page(told))
    ((_, data),) = ((attributes, raw) for attributes, raw in reader.of("script") if "type" in attributes)
    found = json.loads(data)["runs"]
    assert found == [run_data(story) for story in told]
    assert told[0].target is not None
    assert found[0]["automata"]["target"]["transitions"] == told[0].target.transitions.tolist()
    assert found[0]["counterexample"] is None
    assert found[1]["counterexample"] == [int(symbol[1]) for symbol in told[1].counterexample or ()]
    sections = [attributes["id"] for attributes, _ in reader.of("section") if attributes.get("class") == "run"]
    assert sections == ["run-0", "run-1"]
    assert sum(tag == "svg" for tag, _ in reader.elements) == 1 + 2 * (2 + 2 + 2)  # all; each: charts, automata, P


@pytest.mark.parametrize("make", [group_story, hostile_story])
def test_the_page_asks_for_nothing(make: type) -> None:
    reader = Reader(page([make()]))
    for tag, attributes in reader.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert not {"src", "srcset", "action", "xlink:href"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    (style,) = (raw for _, raw in reader.of("style"))
    assert "url(" not in style
    assert "@import" not in style


def test_only_the_pages_own_script_and_style_may_run(told: list[Story]) -> None:
    reader = Reader(page(told))
    (policy,) = (a["content"] for a, _ in reader.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    (script,) = (raw for attributes, raw in reader.of("script") if "type" not in attributes)
    (style,) = (raw for _, raw in reader.of("style"))
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_hostile_names_stay_text() -> None:
    story = hostile_story()
    text = page([story, story], title=HOSTILE[0])
    reader = Reader(text)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert not {"img", "b"} & {tag for tag, a in reader.elements if tag == "img" or (tag == "b" and "onerror" in a)}
    assert not any("onload" in attributes for _, attributes in reader.elements)
    ((_, data),) = ((a, raw) for a, raw in reader.of("script") if "type" in a)
    assert json.loads(data)["runs"][0]["labels"] == list(HOSTILE)
    for drawing in figures(story).drawings:
        ElementTree.fromstring(standalone(drawing))


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_data_survives(data: object) -> None:
    text = embedded(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028\u2029") & set(text)


def test_parts_that_are_missing_are_left_out() -> None:
    story = Story("bare", "task", "what it asks", ((0, "a"),), ("x",), 1.0, 10)
    reader = Reader(page([story]))
    assert not any(tag == "svg" for tag, _ in reader.elements)
    assert not any(attributes.get("class") == "walk" for _, attributes in reader.elements)


def test_large_automata_are_told_of_and_not_drawn() -> None:
    ring = DFA(("a",), np.roll(np.arange(301), -1)[:, None], 0, tuple(range(301)))
    story = dataclasses.replace(group_story(), target=None, extracted=ring, counterexample=None)
    assert figures(story).automata == {}
    assert "301 states, 1 symbols. Drawn are automata of up to 200 states" in page([story])


# ------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("options", [{}, {"norm": "pre", "residual": True}, {"norm": "none"}])
def test_the_live_model_is_the_model(options: dict[str, object]) -> None:
    """What the page's script does, here in numpy: the browser's test compares the script itself."""
    story = group_story(**options)
    found = live_model(story.model)
    assert found is not None
    size, width, classes = found["size"], found["width"], found["classes"]

    def unpacked(text: str, *shape: int) -> np.ndarray:
        return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64).reshape(shape)

    def paired(text: str, *shape: int) -> np.ndarray:
        return unpacked(text, *shape, 2) @ (1, 1j)

    word = np.random.default_rng(0).integers(2, size=30)
    x, got = paired(found["initial"], size), []
    diag, inputs = paired(found["diag"], 2, size), paired(found["inputs"], 2, size)
    for token in word:
        after = inputs[token].copy()
        np.add.at(after, found["target"][token], diag[token] * x[found["source"][token]])
        x = after
        y = (paired(found["readout"], width, size) @ x).real + unpacked(found["offset"], 2, width)[token]
        if found["norm"] is not None:
            y = (y - y.mean()) / np.sqrt(y.var() + found["norm"]["eps"])
            y = y * unpacked(found["norm"]["gain"], width) + unpacked(found["norm"]["bias"], width)
        got.append(unpacked(found["head"], classes, width) @ y + unpacked(found["headBias"], classes))
    with torch.no_grad():
        expected = random_model(2, 6, **options)(torch.from_numpy(word)[None])[0]
    np.testing.assert_allclose(np.array(got), expected, rtol=1e-3, atol=1e-3)


def test_a_model_too_large_for_a_page_is_left_out() -> None:
    assert live_model(None) is None
    model = group_story().model
    assert model is not None
    large = dataclasses.replace(model, readout=np.zeros((700, 700), dtype=complex))
    assert live_model(large) is None


# -------------------------------------------------------------------------------------------------- collect


def extraction(dfa: DFA) -> Extraction:
    return Extraction(dfa, Evidence("states", 1.0), 10, 100, 0)


def test_a_run_is_collected(run: Path) -> None:
    target = target_automaton(make_task("S3:2"))
    broken = rewired(target, 0, 0, 0)
    certificate = Unknown("wrong", "0", "s0", "wrong", ("s0",) * 50)
    story = collect(run, extraction=extraction(broken), certificate=certificate, lengths=(4, 20), samples=8)
    assert (story.name, story.task, story.limit, story.symbols) == ("S3-0", "S3:2", 12, ((0, "s0"), (1, "s1")))
    assert story.target == target
    assert sorted(story.by_length) == [4, 12, 20]  # the training limit is always measured
    assert story.by_length[12].sequences == 8
    assert story.counterexample is not None
    assert target.label(story.counterexample) != broken.label(story.counterexample)
    assert story.error == ("s0",) * 50
    assert [finding.kind for finding in story.findings] == ["tested", "tested", "proved", "refuted", "refuted"]
    assert " ".join(story.counterexample) in story.findings[3].text
    assert "wrong after a word of 50 symbols" in story.findings[4].text
    assert story.facts["Training"].startswith("20 steps")
    assert len(story.matrices) == 2
    assert story.model is not None
    np.testing.assert_array_equal(story.matrices[1].index, story.model.maps.target[1])
    np.testing.assert_allclose(story.matrices[1].magnitude, np.abs(story.model.maps.diag[1]), rtol=1e-5)


def test_what_is_equal_is_called_proved_and_what_is_good_learnt(run: Path) -> None:
    found = extraction(target_automaton(make_task("S3:2")))
    lengths = {12: evaluation(0.999), 24: evaluation(0.999), 48: evaluation(0.98)}
    extra = Finding("unknown", "and more")
    story = collect(run, extraction=found, by_length=lengths, snapped={48: evaluation(1.0)}, also=[extra])
    kinds = [finding.kind for finding in story.findings]
    assert kinds == ["learnt", "tested", "proved", "proved", "tested", "unknown"]
    assert "below 99% from length 48 on" in story.findings[1].text
    assert "100.00% of its answers are right at length 48" in story.findings[4].text


def test_only_random_words_are_a_test_and_no_proof(run: Path) -> None:
    found = dataclasses.replace(
        extraction(target_automaton(make_task("S3:2"))), evidence=Evidence("random", 0.99, 1000, 64, 0, 0.005)
    )
    story = collect(run, extraction=found, by_length={12: evaluation(0.5)})
    assert [finding.kind for finding in story.findings] == ["tested", "tested", "proved"]
    assert "0 of 1,000 random words of length 64 differ" in story.findings[1].text


def test_a_compiled_model_is_examined_to_the_end(tmp_path: Path) -> None:
    task = make_task("S3:2")
    exact = compile_dfa(target_automaton(task), vocabulary=task.tokens, classes=task.labels)
    folder = RunFolder(tmp_path / "exact")
    folder.begin(TrainConfig("S3:2", lengths=(3, 12)))
    folder.save_best(1, exact.config, exact.state_dict())
    heard: list[str] = []
    story = examine(folder.path, lengths=(100, 1000), samples=4, say=heard.append)
    kinds = [finding.kind for finding in story.findings]
    assert kinds == ["learnt", "tested", "proved", "proved", "tested", "proved", "proved"]
    assert story.by_length[1000].accuracy == story.snapped[1000].accuracy == 1
    assert "a certificate of 6 enclosures" in story.findings[5].text
    assert (story.counterexample, story.error) == (None, None)
    assert len(heard) == 5


def test_a_model_that_is_no_automaton_is_told_of_all_the_same(run: Path) -> None:
    story = examine(run, lengths=(4,), samples=4, max_states=3)
    assert story.extracted is None
    assert story.findings[-1].kind == "unknown"
    assert "not read as an automaton" in story.findings[-1].text


@pytest.mark.parametrize("options", [{"mixer": "lstm"}, {"layers": 2}, {"mixer_options": {"orientation": "row"}}])
def test_other_models_have_what_there_is_of_a_story(options: dict[str, Any], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "other")
    config = TrainConfig("S3:2", dim=8, lengths=(3, 12), **options)
    folder.begin(config)
    model = SequenceModel(config.model_config(config.make_task()))
    folder.save_best(1, model.config, model.state_dict())
    story = collect(folder.path, lengths=(4,), samples=4)
    assert (story.model is None) == ("mixer_options" not in options)
    assert len(story.matrices) == (0 if "mixer" in options else 2)
    assert "S3:2" in page([story])


def test_a_task_of_no_known_automaton_still_has_its_symbols(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "sum")
    config = TrainConfig("modular_arithmetic", dim=8, lengths=(3, 12))
    folder.begin(config)
    model = SequenceModel(config.model_config(config.make_task()))
    folder.save_best(1, model.config, model.state_dict())
    story = collect(folder.path, lengths=(4,), samples=4)
    assert story.target is None
    assert [name for _, name in story.symbols] == ["+", "-", "*", "=", "0", "1", "2", "3", "4"]


def test_a_folder_without_a_run_or_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no run"):
        collect(tmp_path)
    RunFolder(tmp_path / "new").begin(TrainConfig("parity"))
    with pytest.raises(FileError, match="has no model yet"):
        collect(tmp_path / "new")


# ----------------------------------------------------------------------------------------- files and command


@pytest.mark.parametrize(("kind", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_figures_are_written_one_by_one(kind: str, magic: bytes, tmp_path: Path, told: list[Story]) -> None:
    paths = write_figures(told if kind == "svg" else told[1:], tmp_path, kind)
    assert {path.name for path in paths} == {path.name for path in tmp_path.iterdir()}
    names = {"accuracy", "learning", "target", "extracted", "matrix-0", "matrix-1"}
    assert {f"broken-{name}" for name in names} <= {path.stem for path in paths}
    assert ("comparison" in {path.stem for path in paths}) == (kind == "svg")  # there is nothing to compare one with
    contents = [path.read_bytes() for path in paths]
    assert all(content.startswith(magic) for content in contents)
    if kind == "svg":
        assert all(b"var(" not in content for content in contents)  # the colours are in the file
        for content in contents:
            ElementTree.fromstring(content)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_the_same_drawing_gives_the_same_file(kind: str, told: list[Story]) -> None:
    drawing = figures(told[0]).matrices[0]
    assert rendered(drawing, kind) == rendered(drawing, kind)


def test_an_unknown_kind_of_figure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"kind is 'gif'; expected one of 'pdf', 'png', 'svg'"):
        write_figures([], tmp_path, "gif")


def test_the_command_writes_page_and_figures(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "page.html"
    options = [
        "--lengths",
        "4",
        "16",
        "--samples",
        "8",
        "--max-states",
        "5",
        "--svg",
        str(tmp_path / "svg"),
        "--title",
        "Mine",
    ]
    assert main(["report", str(run), "--out", str(out), *options]) == 0
    assert "<title>Mine</title>" in out.read_text()
    assert (tmp_path / "svg" / "S3-0-accuracy.svg").exists()
    assert str(out) in capsys.readouterr().out


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main(["report"]) == 2


def test_a_page_is_written_whole(tmp_path: Path, told: list[Story]) -> None:
    write_page(told, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == page(told)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.html"]
