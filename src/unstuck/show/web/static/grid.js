// All ranks on one canvas: blocks by host while they fit, one raster where there are many.
// A redraw touches pixels only; the DOM stays as it is, whatever the number of ranks.
export const STATES = [
  ["c", "computing", "computing"], ["w", "collective", "waiting in a collective"],
  ["s", "section", "in a section"], ["b", "blocked", "idle or blocked"],
  ["i", "starting", "starting"], ["l", "slow", "slow"], ["d", "done", "ended in order"],
  ["u", "unseen", "unobserved"], ["x", "missing", "never seen"], ["q", "silent", "silent"],
  ["t", "stopped", "stopped"], ["g", "gone", "died"],
];
export const NAME = Object.fromEntries(STATES.map(([letter, , text]) => [letter, text]));
export const LETTER = Object.fromEntries(STATES.map(([letter, state]) => [state, letter]));
const MANY = 4096, LABEL = 15, GAP = 10;

export function expand(runs, count) {
  const out = new Uint8Array(count);
  const pattern = /([a-z])(\d+)/g;
  let place = 0, found;
  while ((found = pattern.exec(runs))) {
    const end = place + Number(found[2]);
    out.fill(found[1].charCodeAt(0), place, end);
    place = end;
  }
  return out;
}

export function layoutOf(sent) {
  let count = 0;
  for (const [, length] of sent.ranks) count += length;
  const ranks = new Uint32Array(count), host = new Uint32Array(count), placeOf = new Map();
  let place = 0;
  for (const [first, length] of sent.ranks)
    for (let n = 0; n < length; n++) ranks[place++] = first + n;
  sent.hosts.forEach(([, first, length], index) => host.fill(index, first, first + length));
  for (let n = 0; n < count; n++) placeOf.set(ranks[n], n);
  return { count, ranks, host, hosts: sent.hosts, placeOf };
}

function rgb(text) {
  const value = text.trim().replace("#", "");
  const full = value.length === 3 ? [...value].map((c) => c + c).join("") : value;
  return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16));
}

export class Grid {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.small = document.createElement("canvas");
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => { this.colours = null; this.draw(); });
    this.cells = [];
    this.took = 0;
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.colours = {};
    this.words = new Uint32Array(128);
    this.dim = new Uint32Array(128);
    const back = rgb(style.getPropertyValue("--card"));
    for (const [letter, state] of STATES) {
      const text = style.getPropertyValue("--" + state).trim();
      this.colours[letter] = text;
      const [r, g, b] = rgb(text), code = letter.charCodeAt(0);
      const mix = [r, g, b].map((one, n) => Math.round(one * 0.16 + back[n] * 0.84));
      this.words[code] = (255 << 24) | (b << 16) | (g << 8) | r;
      this.dim[code] = (255 << 24) | (mix[2] << 16) | (mix[1] << 8) | mix[0];
    }
    this.ink = style.getPropertyValue("--soft").trim();
    this.bad = style.getPropertyValue("--bad").trim();
  }

  show(layout, states, culprits, isShown) {
    const fresh = layout !== this.layout;
    Object.assign(this, { layout, states, culprits, isShown });
    if (fresh) this.resize();
    this.draw();
  }

  resize() {
    if (!this.layout) return;
    const width = this.canvas.parentElement.clientWidth || 900;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const { count, hosts } = this.layout;
    this.raster = count > MANY;
    if (this.raster) {
      const tall = Math.max(260, window.innerHeight * 0.5);
      this.cell = Math.max(2, Math.floor(Math.sqrt((width * tall) / count)));
      this.columns = Math.max(1, Math.floor(width / this.cell));
      this.height = Math.ceil(count / this.columns) * this.cell;
    } else this.place(width, hosts, count);
    this.width = width;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = this.height + "px";
    this.ratio = ratio;
  }

  place(width, hosts, count) {
    const cell = count <= 64 ? 34 : count <= 256 ? 22 : count <= 1024 ? 14 : 9;
    this.cell = cell;
    this.cells = new Float32Array(count * 2);
    this.labels = [];
    let x = 0, y = 0, tallest = 0;
    for (const [name, first, length] of hosts) {
      const columns = Math.min(16, length), rows = Math.ceil(length / 16);
      const wide = Math.max(columns * cell, 7 * Math.min(name.length || 10, 18));
      if (x && x + wide > width) { x = 0; y += tallest + GAP; tallest = 0; }
      this.labels.push([name || "never seen", x, y]);
      for (let n = 0; n < length; n++) {
        this.cells[(first + n) * 2] = x + (n % 16) * cell;
        this.cells[(first + n) * 2 + 1] = y + LABEL + Math.floor(n / 16) * cell;
      }
      tallest = Math.max(tallest, LABEL + rows * cell);
      x += wide + GAP;
    }
    this.height = y + tallest + 6;
  }

  draw() {
    if (!this.layout) return;
    const began = performance.now();
    if (!this.colours) this.readColours();
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (this.raster) this.drawRaster(); else this.drawBlocks();
    this.drawCulprits();
    this.took = performance.now() - began;
  }

  drawRaster() {
    const { states, columns, cell, small, isShown } = this, rows = Math.ceil(states.length / columns);
    small.width = columns;
    small.height = rows;
    const pixels = small.getContext("2d"), image = pixels.createImageData(columns, rows);
    const words = new Uint32Array(image.data.buffer);
    for (let n = 0; n < states.length; n++)
      words[n] = !isShown || isShown(n) ? this.words[states[n]] : this.dim[states[n]];
    pixels.putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(small, 0, 0, columns * cell, rows * cell);
  }

  drawBlocks() {
    const { context, states, cells, cell, isShown } = this, side = cell - 2;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = this.ink;
    context.textAlign = "left";
    for (const [name, x, y] of this.labels) context.fillText(name.slice(0, 18), x, y + 11);
    for (let n = 0; n < states.length; n++) {
      context.globalAlpha = !isShown || isShown(n) ? 1 : 0.16;
      context.fillStyle = this.colours[String.fromCharCode(states[n])];
      context.fillRect(cells[n * 2], cells[n * 2 + 1], side, side);
    }
    context.globalAlpha = 1;
    if (cell < 20) return;
    context.fillStyle = "#10151c";
    context.textAlign = "center";
    context.font = `600 ${cell > 30 ? 13 : 10}px system-ui, sans-serif`;
    for (let n = 0; n < states.length; n++)
      context.fillText(this.layout.ranks[n], cells[n * 2] + side / 2, cells[n * 2 + 1] + side / 2 + 4);
  }

  drawCulprits() {
    const { context, cell } = this;
    context.strokeStyle = this.bad;
    context.lineWidth = 3;
    for (const rank of this.culprits.slice(0, 64)) {
      const n = this.layout.placeOf.get(rank);
      if (n === undefined) continue;
      if (this.raster) {
        const x = (n % this.columns) * cell + cell / 2, y = Math.floor(n / this.columns) * cell + cell / 2;
        context.beginPath();
        context.arc(x, y, Math.max(8, cell), 0, 7);
        context.stroke();
      } else context.strokeRect(this.cells[n * 2] - 0.5, this.cells[n * 2 + 1] - 0.5, cell - 1, cell - 1);
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    if (!this.layout) return -1;
    if (this.raster) {
      const column = Math.floor(x / this.cell), n = Math.floor(y / this.cell) * this.columns + column;
      return column < this.columns && n < this.layout.count ? n : -1;
    }
    for (let n = 0; n < this.layout.count; n++) {
      const dx = x - this.cells[n * 2], dy = y - this.cells[n * 2 + 1];
      if (dx >= 0 && dy >= 0 && dx < this.cell && dy < this.cell) return n;
    }
    return -1;
  }
}
