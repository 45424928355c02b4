"""The report's page in a real browser: nothing on the console, the graphs drawn, the walker walking."""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pdssm.report import Story, write_page
from tests.browser.conftest import Browser
from tests.report_stories import HOSTILE, group_story, hostile_story, random_model

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    """Of S3, with an extracted automaton that is wrong; and of A5, 60 states."""
    return [group_story("first", broken=True), group_story("second", "A5:2")]


@pytest.fixture(scope="module")
def report(stories: list[Story], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_page(stories, path)
    return path


def states_shown(browser: Browser, run: int = 0) -> dict[str, str]:
    """The highlighted state of each automaton."""
    script = """Object.fromEntries([...document.querySelectorAll(`#run-${arguments[0]} [data-automaton]`)].map(
        figure => [figure.dataset.automaton, figure.querySelector('.here').dataset.state]))"""
    found: dict[str, str] = browser.run(script, run)
    return found


def eventually(holds: Callable[[], Any], seconds: float = 10) -> None:
    """Wait until it does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def press(browser: Browser, name: str, run: int = 0) -> None:
    script = (
        """[...document.querySelectorAll(`#run-${arguments[0]} button`)].find(b => b.textContent === arguments[1])"""
    )
    browser.run(script, run, name).click()


def type_word(browser: Browser, word: str, run: int = 0) -> None:
    field = browser.driver.find_element(By.CSS_SELECTOR, f"#run-{run} input[type=text]")
    field.clear()
    field.send_keys(word)


def status(browser: Browser, run: int = 0) -> str:
    return browser.driver.find_element(By.CSS_SELECTOR, f"#run-{run} .status").text


# ---------------------------------------------------------------------------------------------------- drawn


def test_the_console_stays_silent_and_nothing_is_fetched(browser: Browser, report: Path) -> None:
    browser.open(report)
    for name in ("random", "longer", "▶", "play", "counterexample"):
        press(browser, name)
    browser.driver.find_element(By.CSS_SELECTOR, ".theme").click()
    assert browser.run("performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert browser.console() == []


def test_a_fault_would_be_seen_on_the_console(browser: Browser, report: Path, tmp_path: Path) -> None:
    """The check above is worth something: a page whose data or policy is wrong does say so."""
    broken = tmp_path / "broken.html"
    broken.write_text(report.read_text().replace('"runs":', '"sums":'))
    browser.open(broken)
    assert any("TypeError" in line for line in browser.console())
    broken.write_text(report.read_text().replace('"use strict";', "alert(1);", 1))
    browser.open(broken)
    assert any("Content Security Policy" in line for line in browser.console())


def test_the_graphs_are_drawn(browser: Browser, report: Path, stories: list[Story]) -> None:
    browser.open(report)
    for run, story in enumerate(stories):
        for name, dfa in story.automata.items():
            script = """[...document.querySelectorAll(`${arguments[0]} [data-state]`)]
                .map(node => node.getBoundingClientRect()).filter(box => box.width > 8 && box.height > 8)
                .map(box => [box.x, box.y])"""
            places = np.array(browser.run(script, f"#run-{run} [data-automaton={name}]"))
            assert len(places) == len(dfa)
            apart = np.linalg.norm(places[:, None] - places, axis=-1) + 1e6 * np.eye(len(places))
            assert apart.min() > 12
    marked = "document.querySelectorAll('#run-0 .d-wrong-ring').length"
    assert browser.run(marked) == 2
    assert browser.run(marked.replace("run-0", "run-1")) == 0


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_sticks_out_of_the_window(browser: Browser, report: Path, width: int) -> None:
    browser.open(report, width)
    wide, visible = browser.run("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= visible


def test_light_dark_and_the_button_between(browser: Browser, report: Path) -> None:
    def ground() -> float:
        return sum(
            map(float, browser.run("getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3)"))
        )

    browser.media(prefers_color_scheme="dark")
    browser.open(report)
    assert ground() < 150
    browser.media(prefers_color_scheme="light")
    assert ground() > 600
    button = browser.driver.find_element(By.CSS_SELECTOR, ".theme")
    for label, dark in (("light", False), ("dark", True), ("as the system", False)):
        button.click()
        assert button.accessible_name == f"Colours: {label}"
        assert (ground() < 150) == dark


def test_print_leaves_the_controls_out(browser: Browser, report: Path) -> None:
    browser.media("print", prefers_color_scheme="dark")
    browser.open(report)
    assert not browser.driver.find_element(By.CSS_SELECTOR, ".walker").is_displayed()
    assert browser.driver.find_element(By.CSS_SELECTOR, "#run-0 [data-automaton] svg").is_displayed()
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    sheet = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert sheet.startswith(b"%PDF")


def test_without_scripts_the_charts_are_there_and_no_dead_controls(browser: Browser, report: Path) -> None:
    browser.scripts(on=False)
    browser.open(report)
    shown = [element.is_displayed() for element in browser.driver.find_elements(By.CSS_SELECTOR, "svg.drawing")]
    assert len(shown) == 13
    assert all(shown)
    assert not any(element.is_displayed() for element in browser.driver.find_elements(By.CSS_SELECTOR, ".script"))


# ------------------------------------------------------------------------------------------------- the walker


def test_a_typed_word_walks_step_by_step(browser: Browser, report: Path, stories: list[Story]) -> None:
    browser.open(report)
    word = ["s0", "s1", "s1", "s0", "s0", "s1"]
    type_word(browser, " ".join(word))
    automata = stories[0].automata
    for step in range(len(word) + 1):
        expected = {name: str(dfa.run(word[:step])) for name, dfa in automata.items()}
        assert states_shown(browser) == expected
        told = status(browser)
        assert f"The target is in state {expected['target']} " in told
        assert (f"Step {step} of 6, after {word[step - 1]}." if step else "Before the first of 6 symbols.") in told
        if step:
            edges = browser.run(
                "[...document.querySelectorAll('#run-0 .taken')].map(edge => edge.dataset.edges.split(' '))"
            )
            ways = {f"{dfa.run(word[: step - 1])}:{('s0', 's1').index(word[step - 1])}" for dfa in automata.values()}
            assert len(edges) == 2
            assert all(ways & set(edge) for edge in edges)
        if step < len(word):
            press(browser, "▶")
    assert not browser.driver.find_element(By.CSS_SELECTOR, "#run-0 .ahead").is_enabled()
    press(browser, "◀")
    assert "Step 5 of 6" in status(browser)


def test_runs_walk_on_their_own(browser: Browser, report: Path) -> None:
    browser.open(report)
    before = status(browser, 1)
    type_word(browser, "s0 s0")
    press(browser, "▶")
    assert status(browser, 1) == before
    type_word(browser, "s1", run=1)
    press(browser, "▶", run=1)
    assert "Step 1 of 1, after s1." in status(browser, 1)
    assert "Step 1 of 2, after s0." in status(browser, 0)


def test_play_comes_to_the_end(browser: Browser, report: Path) -> None:
    browser.open(report)
    type_word(browser, "s0 s1 " * 10)
    press(browser, "play")
    assert browser.run("document.querySelector('#run-0 .play').textContent") == "pause"
    eventually(lambda: "Step 20 of 20" in status(browser), 30)
    eventually(lambda: browser.run("document.querySelector('#run-0 .play').textContent") == "play")


def test_the_walker_is_worked_by_keyboard_alone(browser: Browser, report: Path) -> None:
    browser.open(report)
    field = browser.driver.find_element(By.CSS_SELECTOR, "#run-0 input[type=text]")
    browser.run("document.querySelector('.theme').focus()")
    seen = []
    for _ in range(30):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.driver.switch_to.active_element
        seen.append(element.accessible_name)
        outline = element.value_of_css_property("outline-style")
        assert outline != "none", f"the focus on {element.accessible_name!r} cannot be seen"
        if element.get_attribute("type") == "range":
            break
    assert {"add s0", "one step on", "play", "step of the word"} <= set(seen)
    field.clear()
    field.send_keys("s0 s1 s0")
    slider = browser.driver.find_element(By.CSS_SELECTOR, "#run-0 input[type=range]")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert "Step 1 of 3" in status(browser)
    slider.send_keys(Keys.END)
    assert "Step 3 of 3" in status(browser)
    assert slider.get_attribute("aria-valuetext") == "step 3 of 3"


def test_every_control_has_a_name(browser: Browser, report: Path) -> None:
    browser.open(report)
    tree = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = ("button", "textbox", "slider", "link", "image", "navigation", "region", "figure")
    named = [
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert {"button", "textbox", "slider", "image"} <= {role for role, _ in named}
    assert not [role for role, name in named if role != "figure" and not name]
    assert browser.run("document.querySelector('.status').getAttribute('aria-live')") == "polite"


def test_a_word_with_a_strange_symbol_is_refused_in_words(browser: Browser, report: Path) -> None:
    browser.open(report)
    type_word(browser, "s0 s7")
    said = browser.driver.find_element(By.CSS_SELECTOR, "#run-0 .said")
    assert said.text == "“s7” is not a symbol; expected s0, s1"
    assert said.get_attribute("role") == "alert"
    type_word(browser, "s0 s1")
    assert said.text == ""
    type_word(browser, "")
    assert "Before the first of 0 symbols." in status(browser)
    assert browser.console() == []


def test_reduced_motion_moves_at_once(browser: Browser, report: Path) -> None:
    moving = "document.querySelector('#run-0 .traveller').getAttribute('visibility')"
    browser.media(prefers_reduced_motion="reduce")
    browser.open(report)
    press(browser, "▶")
    assert browser.run(moving) == "hidden"
    browser.media(prefers_reduced_motion="no-preference")
    press(browser, "▶")
    eventually(lambda: browser.run(moving) == "hidden")


@pytest.mark.parametrize("options", [{}, {"norm": "pre", "residual": True}, {"norm": "none"}])
def test_the_page_runs_the_model_itself(browser: Browser, tmp_path: Path, options: dict[str, Any]) -> None:
    """The script's answers and probabilities are those of the model, after every symbol of a long word."""
    write_page([group_story(**options)], tmp_path / "model.html")
    browser.open(tmp_path / "model.html")
    word = np.random.default_rng(1).integers(2, size=200)
    type_word(browser, " ".join(f"s{symbol}" for symbol in word))
    answers = browser.run("walkers[0].walk.answers.slice(1).map(answer => [answer.label, answer.probability])")
    with torch.no_grad():
        probabilities = random_model(2, 6, **options)(torch.from_numpy(word)[None])[0].softmax(-1)
    labels, shares = np.array(answers).T
    chosen = probabilities[torch.arange(200), torch.from_numpy(labels.astype(int))]
    np.testing.assert_allclose(shares, chosen, atol=1e-3)
    assert (chosen >= probabilities.max(-1).values - 1e-3).all()
    sizes = browser.run("walkers[0].walk.sizes.length")
    assert sizes == 201
    painted = """(canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
        .filter((value, k) => k % 4 == 3 && value > 0).length)(document.querySelector('.states canvas'))"""
    assert browser.run(painted) > 200


def test_wrong_answers_are_counted(browser: Browser, tmp_path: Path) -> None:
    story = group_story()
    write_page([story], tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    type_word(browser, "s0 s1 s1")
    assert story.target is not None
    answers = [
        story.labels[label] for label in browser.run("walkers[0].walk.answers.slice(1).map(answer => answer.label)")
    ]
    wrong = [
        step for step in (1, 2, 3) if answers[step - 1] != story.target.label(["s0", "s1", "s1"][:step])
    ]  # of an untrained model
    assert wrong
    assert f"Of 3 answers along this word {len(wrong)} are wrong, the first at step {wrong[0]}." in status(browser)


def test_a_page_without_a_model_walks_its_automata(browser: Browser, tmp_path: Path) -> None:
    story = dataclasses.replace(group_story(), model=None, matrices=())
    write_page([story], tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    press(browser, "▶")
    assert "The model" not in status(browser)
    assert browser.console() == []


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    write_page([hostile_story()], tmp_path / "hostile.html", title=HOSTILE[0])
    browser.open(tmp_path / "hostile.html")
    for _ in range(2):
        press(browser, "▶")
    assert browser.console() == []
    assert browser.run("document.title") == HOSTILE[0]
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelector('#run-0 h2').textContent") == HOSTILE[0]
    type_word(browser, HOSTILE[1].replace(" ", "␣"))
    assert "Before the first of 1 symbols." in status(browser)
    press(browser, HOSTILE[2])
    assert f"after {HOSTILE[2]}." in browser.run("document.querySelector('.status').textContent")
