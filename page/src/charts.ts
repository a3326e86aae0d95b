// Charts of lines over time. The guarantee is one of the lines: dashed, in the colour of the text, with its name beside it.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { ccdf } from "./ccdf";
import { h } from "./dom";
import { stacked, type Column } from "./history";
import { colour, onTheme } from "./theme";

/** A line of a chart: its name, and how it is drawn. */
export interface Line {
  label: string;
  colour: string;
  dash?: number[];
  width?: number;
  fill?: boolean;
}

/** The settings of a chart. */
interface Asked {
  title: string;
  /** Formats a number for the axis and the table. */
  format: (value: number | null) => string;
  lines: Line[];
  /** Index of the line that is the guarantee. */
  guarantee?: number;
  /** Index of the line whose values beyond the guarantee are marked: by a cross if a guarantee was broken at that time, else by a triangle. */
  held?: number;
  /** True if the values are whole numbers. */
  whole?: boolean;
  /** True if the lines are parts of a sum: each is drawn as a band on top of the bands of the lines that follow in the list. */
  stacked?: boolean;
}

/** Height of a chart, in CSS pixels. */
const HEIGHT = 168;
/** Possible distances between two labels on an axis of whole numbers. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
/** Minimum length of the time axis, in seconds. */
const LEAST = 20;
const FONT = "12px system-ui, sans-serif";

/** Chart of several quantities with the same unit over time. */
export class Chart {
  readonly element: HTMLElement;
  private readonly plot: uPlot;
  private readonly table: HTMLTableElement;
  private readonly canvas: HTMLElement;
  private readonly details: HTMLDetailsElement;
  private readonly legend: HTMLElement;
  private labels: string[];
  private data: [number[], ...Column[]];
  private broken: Column = [];

  constructor(private readonly asked: Asked, ...beside: HTMLElement[]) {
    const { title, lines } = asked;
    this.data = [[], ...lines.map(() => [])];
    this.canvas = h("div", { class: "plot", role: "img", "aria-label": title });
    this.table = h("table");
    this.details = h("details", { toggle: () => this.fillTable() }, h("summary", {}, "As a table"), scrolled(this.table, title));
    this.labels = lines.map((line) => line.label);
    this.legend = legend(lines);
    this.element = h("figure", {}, h("figcaption", {}, h("h3", {}, title), this.legend), this.canvas, ...beside, this.details);
    this.plot = new uPlot(this.options(), this.data as uPlot.AlignedData, this.canvas);
    sized(this.plot, this.canvas);
    onTheme(() => this.plot.redraw(false));
  }

  private options(): uPlot.Options {
    const { format, lines, guarantee, whole, stacked } = this.asked;
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: FONT };
    return {
      width: 400,
      height: HEIGHT,
      padding: [8, 26, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most * 1.15, whole ? 4 : 1)] } },
      axes: [
        { ...axis, size: 24, space: 84, values: (_, ticks) => ticks.map(clock) },
        { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => format(tick)), space: 32, ...(whole && { incrs: WHOLE }) },
      ],
      series: [
        {},
        ...lines.map((line, n) => ({
          label: line.label,
          stroke: () => colour(line.colour),
          width: line.width ?? 1.5,
          ...(line.dash && { dash: line.dash }),
          ...(line.fill && { fill: () => (stacked ? colour(line.colour) : faint(colour(line.colour))) }),
          ...(n === guarantee && uPlot.paths.stepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
          points: { show: false },
        })),
      ],
      hooks: { draw: [(plot) => this.drawOver(plot)] },
    };
  }

  /** Draws the guarantee's name, and marks values beyond it. */
  private drawOver(plot: uPlot): void {
    const { guarantee, held, format } = this.asked;
    if (guarantee === undefined) return;
    const guaranteed = this.data[guarantee + 1] as Column;
    const last = guaranteed.at(-1);
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    if (last != null) {
      const text = `guaranteed ${format(last)}`;
      ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
      const wide = ctx.measureText(text).width;
      const y = plot.valToPos(last, "y", true);
      const above = y - bbox.top > 20 * ratio;
      const top = above ? y - 18 * ratio : y + 4 * ratio;
      ctx.fillStyle = colour("panel");
      ctx.fillRect(bbox.left + 4 * ratio, top, wide + 8 * ratio, 15 * ratio);
      ctx.fillStyle = colour("guarantee");
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      ctx.fillText(text, bbox.left + 8 * ratio, top + 8 * ratio);
    }
    const values = held === undefined ? [] : (this.data[held + 1] as Column);
    ctx.lineWidth = 2 * ratio;
    ctx.setLineDash([]);
    for (const [n, value] of values.entries()) {
      const bound = guaranteed[n];
      if (value == null || bound == null || value <= bound) continue;
      const [x, y, r] = [plot.valToPos(this.data[0][n]!, "x", true), plot.valToPos(value, "y", true), 5 * ratio];
      const broken = (this.broken[n] ?? 0) > 0;
      ctx.strokeStyle = colour(broken ? "broken" : "host");
      ctx.beginPath();
      const corners = broken ? [[-r, -r], [r, r], null, [r, -r], [-r, r]] : [[-r, r], [r, r], [0, -r], [-r, r]];
      let down = false;
      for (const corner of corners) {
        if (corner === null) down = false;
        else {
          const [dx, dy] = corner as [number, number];
          if (down) ctx.lineTo(x + dx, y + dy);
          else ctx.moveTo(x + dx, y + dy);
          down = true;
        }
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  /** Gives the lines new names. The legend and the table show only the first lines of the chart, one for each name. */
  rename(labels: string[]): void {
    if (labels.join() === this.labels.join()) return;
    this.labels = labels;
    this.legend.replaceChildren(...legend(this.asked.lines.slice(0, labels.length).map((line, n) => ({ ...line, label: labels[n]! }))).children);
  }

  /** Shows new values: `at` are their times in seconds since 1970, `broken` the numbers of guarantee violations. */
  show(at: number[], columns: Column[], broken: Column = []): void {
    this.data = [at, ...columns];
    this.broken = broken;
    // The time axis covers all values, and at least `LEAST` seconds.
    const end = at.at(-1) ?? Date.now() / 1000;
    this.plot.batch(() => {
      this.plot.setData((this.asked.stacked ? [at, ...stacked(columns)] : this.data) as uPlot.AlignedData, true);
      this.plot.setScale("x", { min: Math.min(at[0] ?? end, end - LEAST), max: end });
    });
    this.canvas.setAttribute("aria-label", this.summary());
    if (this.details.open) this.fillTable();
  }

  /** The title and the last value of each line, for screen readers. */
  private summary(): string {
    const { title, format } = this.asked;
    const now = this.labels.map((label, n) => `${label} ${format((this.data[n + 1] as Column).at(-1) ?? null)}`);
    return `${title}, now: ${now.join(", ")}`;
  }

  /** Fills the table with the last 30 values, if it is open. */
  private fillTable(): void {
    if (!this.details.open) return;
    const { format } = this.asked;
    const [at, ...columns] = this.data;
    const shown = columns.slice(0, this.labels.length);
    const newest = at.map((time, n) => [clock(time), ...shown.map((column) => format(column[n] ?? null))]).slice(-30).reverse();
    fill(this.table, ["Time", ...this.labels], newest);
  }
}

/** Chart of the share of packets that have a longer delay, over the delay; both axes are logarithmic. */
export class Tail {
  readonly element: HTMLElement;
  private readonly plot: uPlot;
  private readonly canvas: HTMLElement;
  private readonly table: HTMLTableElement;
  private guaranteed: number | null = null;

  constructor(private readonly time: (nanos: number | null) => string) {
    const title = "Delay: share of packets that stayed longer";
    this.canvas = h("div", { class: "plot", role: "img", "aria-label": title });
    this.table = h("table");
    const lines = [{ label: "since the start", colour: "sent" }, GUARANTEE];
    this.element = h(
      "figure",
      {},
      h("figcaption", {}, h("h3", {}, title), legend(lines)),
      this.canvas,
      h("details", {}, h("summary", {}, "As a table"), scrolled(this.table, title)),
    );
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: FONT };
    const options: uPlot.Options = {
      width: 400,
      height: HEIGHT,
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: false, distr: 3, range: (_, least, most) => decades(Math.min(least, this.guaranteed ?? least), Math.max(most, this.guaranteed ?? most)) },
        y: { distr: 3, range: (_, least) => [10 ** Math.floor(Math.log10(Math.min(0.1, least || 0.1))), 1] },
      },
      axes: [
        { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => (isDecade(tick) ? this.time(tick) : "")) },
        { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => (isDecade(tick) ? share(tick) : "")) },
      ],
      series: [{}, { stroke: () => colour("sent"), width: 2, points: { show: false } }],
      hooks: { draw: [(plot) => this.drawGuarantee(plot)] },
    };
    this.plot = new uPlot(options, [[], []], this.canvas);
    sized(this.plot, this.canvas);
    onTheme(() => this.plot.redraw(false));
  }

  private drawGuarantee(plot: uPlot): void {
    if (this.guaranteed === null) return;
    const { ctx, bbox } = plot;
    const x = plot.valToPos(this.guaranteed, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) return;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = colour("guarantee");
    ctx.lineWidth = 2 * ratio;
    ctx.setLineDash([7 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    const lines = ["guaranteed", this.time(this.guaranteed)];
    const wide = Math.max(...lines.map((line) => ctx.measureText(line).width));
    const left = x + 6 * ratio;
    ctx.fillStyle = colour("panel");
    ctx.fillRect(left - 2 * ratio, bbox.top + 2 * ratio, wide + 4 * ratio, 32 * ratio);
    ctx.fillStyle = colour("guarantee");
    ctx.textAlign = "left";
    lines.forEach((line, n) => ctx.fillText(line, left, bbox.top + (14 + 15 * n) * ratio));
    ctx.restore();
  }

  show(counts: [number, number][], guaranteed: number | null): void {
    this.guaranteed = guaranteed;
    const [delays, shares] = ccdf(counts);
    this.plot.setData([delays, shares] as uPlot.AlignedData);
    const all = counts.reduce((sum, [, times]) => sum + times, 0);
    this.canvas.setAttribute("aria-label", `Delays of ${all} packets since the start; largest ${this.time(delays.at(-1) ?? null)}`);
    // The table is short: one row for a share of 50 %, and one for each power of ten below it.
    const rows = [0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001].flatMap((wanted) => {
      const n = shares.findIndex((share) => share <= wanted);
      return n < 0 ? [] : [[share(wanted), this.time(delays[n]!)]];
    });
    fill(this.table, ["Share of packets", "stayed longer than"], rows);
  }
}

/** The line of the guarantee, in all charts that have one. */
export const GUARANTEE: Line = { label: "guaranteed", colour: "guarantee", dash: [7, 4], width: 2 };

/** A share as percent, or below one percent as a power of ten. */
function share(value: number): string {
  return value >= 0.01 ? `${Number((value * 100).toPrecision(2))} %` : `10${superscript(Math.round(Math.log10(value)))}`;
}

function superscript(n: number): string {
  return [...String(n)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
}

/** The powers of ten between which an axis shows all values from `least` to `most`. */
function decades(least: number, most: number): [number, number] {
  if (!(least > 0) || !Number.isFinite(most)) return [1e3, 1e9];
  return [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most * 10))];
}

/** Returns true if the value is a power of ten. */
function isDecade(value: number): boolean {
  const log = Math.log10(value);
  return Math.abs(log - Math.round(log)) < 1e-6;
}

/** The time of day, from seconds since 1970. */
function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

/** The colour, nearly transparent. */
function faint(colour: string): string {
  return colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
}

function legend(lines: Line[]): HTMLElement {
  const item = ({ label, colour, dash }: Line) =>
    h("li", {}, h("span", { class: `swatch ${dash ? "dashed" : ""} of-${colour}`, "aria-hidden": "true" }), label);
  return h("ul", { class: "legend" }, ...lines.map(item));
}

/** Makes the plot as wide as its element, also when the element's width changes. */
function sized(plot: uPlot, within: HTMLElement): void {
  const watch = new ResizeObserver(() => {
    if (within.clientWidth > 0) plot.setSize({ width: within.clientWidth, height: HEIGHT });
  });
  watch.observe(within);
}

/** The table in a frame that scrolls, named after the chart `of`. */
function scrolled(table: HTMLTableElement, of: string): HTMLElement {
  return h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": `${of}, as a table` }, table);
}

/** Replaces the contents of a table; the first cell of each row is its heading. */
export function fill(table: HTMLTableElement, head: string[], rows: string[][]): void {
  const cell = (text: string, n: number) => (n === 0 ? h("th", { scope: "row" }, text) : h("td", {}, text));
  table.replaceChildren(
    h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
  );
}
