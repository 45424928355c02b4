"use strict";

const MOST_SYMBOLS = 2000;
const NEAR = 9;

/** Everything about one word: where it leads in each automaton, and what the model answers after each symbol. */
class Walk {
  constructor(run, word) {
    this.run = run;
    this.word = word;
    this.paths = {};
    for (const [name, automaton] of Object.entries(run.automata)) {
      const path = [automaton.initial];
      for (const symbol of word) path.push(automaton.transitions[path[path.length - 1]][symbol]);
      this.paths[name] = path;
    }
    this.states = [];
    this.sizes = [];
    this.answers = [null];
    if (run.live) this.runModel();
  }

  runModel() {
    this.states.push(this.run.live.start());
    for (const symbol of this.word) {
      const token = this.run.symbols[symbol].token;
      this.states.push(this.run.live.next(this.states[this.states.length - 1], token));
      this.answers.push(this.run.live.answer(this.states[this.states.length - 1], token));
    }
    this.sizes = this.states.map((state) => state.filter((_, k) => k % 2 === 0).map((re, j) => Math.hypot(re, state[2 * j + 1])));
    this.most = Math.max(1e-9, ...this.sizes.map((column) => Math.max(...column)));
  }

  output(name, step) {
    const automaton = this.run.automata[name];
    return automaton && automaton.outputs[this.paths[name][step]];
  }

  /** What should be answered: by the target, or by the extracted automaton where there is no target. */
  expected(step) {
    return this.output(this.run.automata.target ? "target" : "extracted", step);
  }

  wrong(step) {
    const answer = this.answers[step], expected = this.expected(step);
    return Boolean(answer) && expected !== undefined && this.run.labels[answer.label] !== expected;
  }

  mistakes() {
    return this.answers.map((_, step) => step).filter((step) => this.wrong(step));
  }
}

/** Reads and writes words: letters side by side where every symbol is one character, else with spaces between. */
class Spelling {
  constructor(symbols) {
    this.names = symbols.map((symbol) => symbol.name.replace(/\s/g, "␣"));
    this.short = this.names.every((name) => [...name].length === 1);
  }

  read(text) {
    const parts = this.short ? [...text.replace(/\s+/g, "")] : text.split(/\s+/).filter(Boolean);
    const strange = parts.find((part) => !this.names.includes(part));
    if (strange !== undefined) throw new Error(`“${strange}” is not a symbol; expected ${this.names.join(", ")}`);
    if (parts.length > MOST_SYMBOLS) throw new Error(`${parts.length} symbols; this page walks up to ${MOST_SYMBOLS}`);
    return parts.map((part) => this.names.indexOf(part));
  }

  write(word) {
    return word.map((symbol) => this.names[symbol]).join(this.short ? "" : " ");
  }
}

/** Highlights the current state of one drawn automaton. */
class GraphView {
  constructor(figure) {
    this.svg = figure.querySelector("svg");
    this.box = figure.querySelector(".scroll");
    this.traveller = document.createElementNS(this.svg.namespaceURI, "circle");
    this.traveller.setAttribute("class", "traveller");
    this.traveller.setAttribute("r", "5");
    this.traveller.setAttribute("visibility", "hidden");
    this.svg.append(this.traveller);
  }

  show(path, word, step, moving) {
    for (const old of this.svg.querySelectorAll(".here, .taken, .next")) old.classList.remove("here", "taken", "next");
    const node = this.svg.querySelector(`[data-state="${path[step]}"]`);
    node.classList.add("here");
    for (const edge of this.svg.querySelectorAll(`[data-edges*="${path[step]}:"]`)) {
      edge.classList.toggle("next", edge.dataset.edges.split(" ").some((way) => way.startsWith(`${path[step]}:`)));
    }
    this.follow(node.querySelector("circle"));
    if (!step) return;
    const way = `${path[step - 1]}:${word[step - 1]}`;
    const edge = this.svg.querySelector(`[data-edges~="${way}"]`);
    edge.classList.add("taken");
    if (moving) this.travel(edge.querySelector("path"), edge.dataset.edges.split(" "), way, path[step - 1]);
  }

  /** The other half of a two-way arrow's edges run backwards along it. */
  travel(line, edges, way, from) {
    const backwards = edges[0].split(":")[0] !== String(from);
    const long = line.getTotalLength(), begin = performance.now();
    cancelAnimationFrame(this.frame);
    this.traveller.setAttribute("visibility", "visible");
    const move = (now) => {
      const part = Math.min(1, (now - begin) / 320);
      const at = line.getPointAtLength(long * (backwards ? 1 - part : part));
      this.traveller.setAttribute("cx", at.x);
      this.traveller.setAttribute("cy", at.y);
      if (part < 1) this.frame = requestAnimationFrame(move);
      else this.traveller.setAttribute("visibility", "hidden");
    };
    this.frame = requestAnimationFrame(move);
  }

  /** Where the drawing is wider than its box, keep the state in view. */
  follow(circle) {
    if (this.box.scrollWidth <= this.box.clientWidth) return;
    const scale = this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width;
    this.box.scrollLeft = circle.cx.baseVal.value * scale - this.box.clientWidth / 2;
  }
}
