"use strict";

/** The model's state along a word: a column a step, a row a component, dark where it is large. */
class StatesView {
  constructor(place, jump) {
    const told = "The model's state x: a column a step, a row a component; the fuller the colour, the larger. Red below: a wrong answer.";
    this.map = StatesView.canvas(place, told);
    this.bars = StatesView.canvas(place, "The size of each component of x now.");
    this.bars.canvas.classList.add("bars");
    this.cursor = document.createElement("div");
    this.cursor.className = "cursor";
    this.map.canvas.parentElement.append(this.cursor);
    this.map.canvas.addEventListener("click", (event) => {
      jump(Math.floor((event.offsetX / this.map.canvas.clientWidth) * this.drawn.states.length));
    });
  }

  static canvas(place, caption) {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas");
    const box = document.createElement("div"), words = document.createElement("figcaption");
    words.textContent = caption;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", caption);
    box.className = "map";
    box.append(canvas);
    figure.append(box, words);
    place.append(figure);
    return canvas.getContext("2d");
  }

  show(walk, step) {
    if (walk !== this.drawn) this.drawMap(walk);
    const wide = 100 / walk.states.length;
    this.cursor.style.left = `${step * wide}%`;
    this.cursor.style.width = `${wide}%`;
    this.drawBars(walk.sizes[step], walk.most);
  }

  /** The colours have changed. */
  forget() {
    this.drawn = null;
  }

  drawMap(walk) {
    this.drawn = walk;
    const { canvas } = this.map, rows = walk.sizes[0].length, foot = Math.max(2, Math.round(rows / 16));
    canvas.width = walk.sizes.length;
    canvas.height = rows + foot;
    const ink = StatesView.rgb(canvas, "--c0"), bad = StatesView.rgb(canvas, "--bad");
    const image = this.map.createImageData(canvas.width, canvas.height);
    const put = (x, y, colour, alpha) => image.data.set([...colour, 255 * alpha], 4 * (y * canvas.width + x));
    walk.sizes.forEach((column, x) => {
      column.forEach((size, y) => put(x, y, ink, size / walk.most));
      if (walk.wrong(x)) for (let y = rows; y < rows + foot; y++) put(x, y, bad, 1);
    });
    this.map.putImageData(image, 0, 0);
  }

  drawBars(column, most) {
    const { canvas } = this.bars, wide = 4, tall = 72;
    canvas.width = wide * column.length;
    canvas.height = tall;
    this.bars.fillStyle = `rgb(${StatesView.rgb(canvas, "--c0").join()})`;
    column.forEach((value, j) => {
      const high = (value / most) * tall;
      this.bars.fillRect(wide * j, tall - high, wide - 1, high);
    });
  }

  /** A custom property as the page shows it now. */
  static rgb(canvas, name) {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  }
}
