"use strict";

/** A one-layer PD-SSM over symbols, run in double precision: x <- A_s x + b_s, then readout, norm and head. */
class LiveModel {
  constructor(data) {
    this.data = data;
    for (const name of ["diag", "inputs", "initial", "readout", "offset", "head", "headBias"]) {
      this[name] = LiveModel.unpack(data[name]);
    }
    if (data.norm) {
      this.gain = LiveModel.unpack(data.norm.gain);
      this.bias = LiveModel.unpack(data.norm.bias);
    }
  }

  static unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  start() {
    return Float64Array.from(this.initial);
  }

  /** The state after one more symbol: (re, im) pairs. */
  next(state, token) {
    const { size, target, source } = this.data;
    const after = new Float64Array(2 * size);
    const at = token * size;
    for (let j = 0; j < size; j++) {
      const to = 2 * target[token][j], from = 2 * source[token][j], d = 2 * (at + j);
      const re = this.diag[d], im = this.diag[d + 1];
      after[to] += re * state[from] - im * state[from + 1];
      after[to + 1] += re * state[from + 1] + im * state[from];
    }
    for (let k = 0; k < 2 * size; k++) after[k] += this.inputs[2 * at + k];
    return after;
  }

  /** The class it answers after that symbol, and with which probability. */
  answer(state, token) {
    const { size, width, classes } = this.data;
    let y = new Float64Array(width);
    for (let i = 0; i < width; i++) {
      let sum = this.offset[token * width + i];
      for (let j = 0; j < size; j++) {
        const w = 2 * (i * size + j);
        sum += this.readout[w] * state[2 * j] - this.readout[w + 1] * state[2 * j + 1];
      }
      y[i] = sum;
    }
    if (this.data.norm) y = this.normed(y);
    const logits = Array.from({ length: classes }, (_, c) => {
      let sum = this.headBias[c];
      for (let i = 0; i < width; i++) sum += this.head[c * width + i] * y[i];
      return sum;
    });
    const best = logits.indexOf(Math.max(...logits));
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit - logits[best]), 0);
    return { label: best, probability: 1 / total };
  }

  normed(y) {
    const mean = y.reduce((a, b) => a + b, 0) / y.length;
    const variance = y.reduce((a, b) => a + (b - mean) ** 2, 0) / y.length;
    const scale = 1 / Math.sqrt(variance + this.data.norm.eps);
    return y.map((value, i) => (value - mean) * scale * this.gain[i] + this.bias[i]);
  }
}
