"use strict";

/** Controls over one run: a word, a step of it, and everything that shows where that step is. */
class Walker {
  constructor(section, run) {
    this.run = run;
    this.spelling = new Spelling(run.symbols);
    this.graphs = [...section.querySelectorAll("figure[data-automaton]")].map((figure) => [
      figure.dataset.automaton,
      new GraphView(figure),
    ]);
    this.build(section.querySelector(".typing"), section.querySelector(".walker"), section.dataset.run);
    const place = section.querySelector(".states");
    this.states = run.live ? new StatesView(place, (step) => this.go(step)) : null;
    this.step = 0;
    this.read(run.counterexample || this.random(Math.min(12, run.limit)));
  }

  build(typing, panel, id) {
    const make = (tag, properties, ...inside) => {
      const element = Object.assign(document.createElement(tag), properties);
      element.append(...inside);
      return element;
    };
    const button = (text, label, act, kind = "") => {
      const made = make("button", { type: "button", textContent: text, onclick: act, className: kind });
      if (label) made.ariaLabel = made.title = label;
      return made;
    };
    this.input = make("input", { type: "text", id: `word-${id}`, spellcheck: false, autocomplete: "off" });
    this.input.setAttribute("autocapitalize", "off");
    for (const kind of ["input", "change"]) this.input.addEventListener(kind, () => this.typed());
    const names = this.spelling.names.map((name, k) => button(name, `add ${name}`, () => this.add(k)));
    const samples = [
      button("random", "a random word as long as those in training", () => this.read(this.random(this.run.limit))),
      button("longer", "a random word five times as long", () => this.read(this.random(Math.min(5 * this.run.limit, MOST_SYMBOLS)))),
    ];
    if (this.run.error) {
      samples.push(button("where it errs", "a word on which the model is wrong", () => this.read(this.run.error)));
    }
    if (this.run.counterexample) {
      samples.push(button("counterexample", "", () => this.read(this.run.counterexample)));
    }
    this.back = button("◀", "one step back", () => this.go(this.step - 1), "back");
    this.ahead = button("▶", "one step on", () => this.go(this.step + 1), "ahead");
    this.playing = button("play", "", () => this.play(), "play");
    this.slider = make("input", { type: "range", min: 0, value: 0, ariaLabel: "step of the word" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.near = make("div", { className: "near", ariaHidden: "true" });
    this.status = make("p", { className: "status" });
    this.status.setAttribute("aria-live", "polite");
    this.said = make("p", { className: "said" });
    this.said.setAttribute("role", "alert");
    const label = make("label", { htmlFor: this.input.id, textContent: "A word of " });
    label.append(this.spelling.names.slice(0, 12).join(this.spelling.short ? "" : " "));
    typing.append(
      label,
      make("div", { className: "row" }, make("div", { className: "word" }, this.input), ...names.slice(0, 12), ...samples),
      this.said,
    );
    panel.append(
      make("div", { className: "row" }, this.back, this.ahead, this.playing, this.slider),
      this.near,
      this.status,
    );
  }

  random(length) {
    return Array.from({ length }, () => Math.floor(Math.random() * this.spelling.names.length));
  }

  read(word) {
    this.input.value = this.spelling.write(word);
    this.typed();
    this.go(0);
  }

  add(symbol) {
    this.input.value = this.spelling.write([...this.spelling.read(this.input.value), symbol]);
    this.typed();
    this.go(this.walk.word.length);
  }

  typed() {
    try {
      this.walk = new Walk(this.run, this.spelling.read(this.input.value));
      this.said.textContent = "";
      this.input.removeAttribute("aria-invalid");
    } catch (error) {
      this.said.textContent = error.message;
      this.input.setAttribute("aria-invalid", "true");
      return;
    }
    this.slider.max = this.walk.word.length;
    this.go(Math.min(this.step, this.walk.word.length));
  }

  play() {
    if (this.timer) return this.stop();
    if (this.step >= this.walk.word.length) this.go(0);
    this.playing.textContent = "pause";
    this.timer = setInterval(() => {
      if (this.step < this.walk.word.length) this.go(this.step + 1, true);
      else this.stop();
    }, Math.max(80, Math.min(700, 14000 / this.walk.word.length)));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.playing.textContent = "play";
  }

  go(step, playing = false) {
    if (!playing) this.stop();
    step = Math.max(0, Math.min(step, this.walk.word.length));
    const moving = step === this.step + 1 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.step = step;
    this.slider.value = step;
    this.slider.ariaValueText = `step ${step} of ${this.walk.word.length}`;
    this.back.disabled = step === 0;
    this.ahead.disabled = step === this.walk.word.length;
    for (const [name, graph] of this.graphs) graph.show(this.walk.paths[name], this.walk.word, step, moving);
    if (this.states) this.states.show(this.walk, step);
    this.showNear();
    this.showStatus();
  }

  repaint() {
    if (this.states) this.states.forget();
    this.go(this.step);
  }

  /** The symbols around the current step; a wavy line where the model's answer was wrong. */
  showNear() {
    const { word } = this.walk, from = Math.max(1, this.step - NEAR), to = Math.min(word.length, this.step + NEAR);
    this.near.replaceChildren();
    if (from > 1) this.near.append("… ");
    for (let step = from; step <= to; step++) {
      const span = document.createElement("span");
      span.textContent = this.spelling.names[word[step - 1]];
      span.classList.toggle("now", step === this.step);
      span.classList.toggle("wrong", this.walk.wrong(step));
      this.near.append(span);
    }
    if (to < word.length) this.near.append(" …");
  }

  showStatus() {
    const { walk, step } = this, { word } = walk;
    const parts = [step ? `Step ${step} of ${word.length}, after ${this.spelling.names[word[step - 1]]}.` : `Before the first of ${word.length} symbols.`];
    for (const [name, automaton] of Object.entries(this.run.automata)) {
      const state = automaton.names[walk.paths[name][step]], output = walk.output(name, step);
      const title = name === "target" ? "The target" : "The extracted automaton";
      parts.push(`${title} is in state ${state}${output === state ? "" : ` (${output})`}.`);
    }
    this.status.textContent = parts.join(" ");
    if (walk.answers[step]) this.status.append(...this.answered(walk.answers[step]));
    this.status.append(this.summary());
  }

  /** What the model says, and whether that is right. */
  answered({ label, probability }) {
    const words = [` The model answers ${this.run.labels[label]} (${(100 * probability).toFixed(1)} %)`];
    if (this.walk.expected(this.step) === undefined) return [...words, "."];
    const verdict = document.createElement("span"), wrong = this.walk.wrong(this.step);
    verdict.className = wrong ? "no" : "yes";
    verdict.textContent = wrong ? "wrong" : "right";
    return [...words, ": ", verdict, "."];
  }

  summary() {
    if (!this.run.live || this.walk.expected(0) === undefined || !this.walk.word.length) return "";
    const mistakes = this.walk.mistakes(), { length } = this.walk.word;
    if (!mistakes.length) return ` All ${length} answers along this word are right.`;
    return ` Of ${length} answers along this word ${mistakes.length} are wrong, the first at step ${mistakes[0]}.`;
  }
}

function themeButton(button, changed) {
  const names = ["system", "light", "dark"], root = document.documentElement;
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(root.dataset.theme || "system") + 1) % names.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    button.ariaLabel = next === "system" ? "Colours: as the system" : `Colours: ${next}`;
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

document.documentElement.classList.add("scripted");
const report = JSON.parse(document.getElementById("report-data").textContent);
const walkers = [...document.querySelectorAll(".walk")].map((section) => {
  const run = report.runs[Number(section.dataset.run)];
  run.live = run.model && new LiveModel(run.model);
  return new Walker(section, run);
});
themeButton(document.querySelector(".theme"), () => walkers.forEach((walker) => walker.repaint()));
