// Table of all adapters: one row for each adapter, with a button that shows its details.

import { Chart } from "./charts";
import { h, say } from "./dom";
import { count, percent, rate, time } from "./format";
import { type History, type Lane, type Track, largest } from "./history";
import { verdict } from "./verdict";

/** Maximum number of rows; the filter by name finds the other adapters. */
const ROWS = 200;

/** Number of adapters with a band of their own in the chart of all adapters; the others are one band. */
const BANDS = 7;

interface Row {
  row: HTMLTableRowElement;
  choose: HTMLButtonElement;
  cells: HTMLTableCellElement[];
}

/** Headings of the columns. The second text is for screen readers, which do not read the row above the headings with the names of groups of columns. */
const HEAD: [text: string, said?: string][] = [
  ["Adapter"],
  ["Guarantee"],
  ["now", "Rate now"],
  ["guaranteed", "Rate guaranteed"],
  ["p99", "Delay p99"],
  ["largest", "Largest delay"],
  ["guaranteed", "Delay guaranteed"],
  ["Waiting"],
  ["Drops/s"],
  ["CPU"],
  ["Held back", "Turns on the link's processor that were used up in the last second"],
];
const GROUPS: [string, number][] = [["", 2], ["Rate", 2], ["Delay", 3], ["", 4]];

/** The table of all adapters, its filter by name, and the chart of their rates. */
export class Overview {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly more = h("p", { class: "quiet" });
  private readonly filter: HTMLInputElement;
  private rows = new Map<string, Row>();
  private readonly table: HTMLElement;
  private readonly hint = h("p", { class: "quiet", hidden: true }, "The table continues to the right: scroll sideways.");
  private readonly together = new Chart({
    title: "Throughput of all adapters",
    format: rate,
    lines: Array.from({ length: BANDS + 1 }, (_, n) => ({ label: "", colour: `band-${n + 1}`, width: 1, fill: true })),
    stacked: true,
  });

  constructor(private readonly chosen: (key: string) => void, private readonly again: () => void) {
    this.filter = h("input", { type: "search", id: "filter", placeholder: "name", input: () => this.again() });
    const group = ([text, span]: [string, number]) => h("td", { colspan: String(span), "aria-hidden": "true" }, text);
    const head = h("thead", {}, h("tr", { class: "groups" }, ...GROUPS.map(group)), h("tr", {}, ...HEAD.map(headed)));
    const caption = h("caption", { class: "hidden" }, "Adapters: their service in the last second beside their guarantees");
    this.table = h("div", { class: "scrolled wide", tabindex: "0", role: "region", "aria-label": "Table of adapters" }, h("table", { class: "adapters" }, caption, head, this.body));
    this.table.addEventListener("scroll", () => this.showHint());
    new ResizeObserver(() => this.showHint()).observe(this.table);
    this.element = h(
      "section",
      { "aria-labelledby": "adapters" },
      h("div", { class: "bar" }, h("h2", { id: "adapters" }, "Adapters"), h("label", { for: "filter", class: "filter" }, "Filter ", this.filter)),
      this.table,
      this.hint,
      this.more,
      this.together.element,
    );
  }

  show(lanes: Lane[], history: History, chosen: string | null): void {
    const wanted = this.filter.value.trim().toLowerCase();
    const fitting = lanes.filter((lane) => lane.adapter.name.toLowerCase().includes(wanted));
    const matters = (lane: Lane) => ["broken", "gone"].includes(verdict(lane.flow, lane.adapter).level);
    // If there are too many adapters for the table, those with a broken guarantee or a lost interface come first.
    const ordered = fitting.length > ROWS ? [...fitting.filter(matters), ...fitting.filter((lane) => !matters(lane))] : fitting;
    const shown = ordered.slice(0, ROWS);
    const rows = new Map<string, Row>();
    for (const lane of shown) {
      const row = this.rows.get(lane.key) ?? this.row(lane.key);
      rows.set(lane.key, row);
      update(row, lane, history.track(lane.key), lane.key === chosen);
    }
    const order = [...rows.values()].map(({ row }) => row);
    if (order.length !== this.body.children.length || order.some((row, n) => this.body.children[n] !== row)) {
      this.body.replaceChildren(...order);
    }
    this.rows = rows;
    this.showHint();
    this.showTogether(lanes, history);
    const hidden = fitting.length - shown.length;
    say(this.more, hidden > 0 ? `${count(hidden)} more: filter by name` : fitting.length === 0 ? "no adapter of that name" : "");
  }

  private showHint(): void {
    this.hint.hidden = this.table.scrollWidth <= this.table.clientWidth || this.table.scrollLeft > 0;
  }

  /** Shows the rates of all adapters in one direction, as stacked bands. */
  private showTogether(lanes: Lane[], history: History): void {
    const tracks = lanes.flatMap(({ key, adapter, flow }): [string, Track][] => {
      const track = history.track(key);
      return track === undefined ? [] : [[flow.flow === adapter.name ? adapter.name : `${adapter.name} · ${flow.flow}`, track]];
    });
    const bands = largest(tracks, BANDS);
    const at = tracks.reduce((longest: number[], [, track]) => (track.at.length > longest.length ? track.at : longest), []);
    this.together.rename(bands.map(([name]) => name));
    const none = at.map(() => null);
    this.together.show(at, Array.from({ length: BANDS + 1 }, (_, n) => bands[n]?.[1] ?? none));
  }

  private row(key: string): Row {
    const choose = h("button", { type: "button", class: "choose", click: () => this.chosen(key) });
    const cells = HEAD.slice(1).map((_, n) => h("td", { class: n === 0 ? "verdict" : "number" }));
    const row = h("tr", { click: () => this.chosen(key) }, h("th", { scope: "row" }, choose), ...cells);
    return { row, choose, cells };
  }
}

/** The heading of a column. */
function headed([text, said]: [string, string?], n: number): HTMLElement {
  return h("th", { scope: "col", class: n < 2 ? "" : "number", ...(said !== undefined && { "aria-label": said }) }, text);
}

/** Sets the texts and classes of an adapter's row. */
function update(row: Row, { adapter, flow }: Lane, track: Track | undefined, chosen: boolean): void {
  const { window, guarantee } = flow;
  const name = flow.flow === adapter.name ? adapter.name : `${adapter.name} · ${flow.flow}`;
  say(row.choose, name);
  row.choose.setAttribute("aria-pressed", String(chosen));
  row.row.classList.toggle("chosen", chosen);
  const late = window?.delay.max_ns != null && guarantee.delay_ns != null && window.delay.max_ns > guarantee.delay_ns;
  const judged = verdict(flow, adapter);
  const dropped = [...(track?.dropped.values() ?? [])].reduce((sum, column) => sum + (column.at(-1) ?? 0), 0);
  const texts = [
    `${judged.sign} ${judged.word}`,
    rate(window?.sent),
    guarantee.rate === null ? "—" : `≥ ${rate(guarantee.rate)}`,
    time(window?.delay.p99_ns),
    `${late ? (judged.level === "broken" ? "✖ " : "▲ ") : ""}${time(window?.delay.max_ns)}`,
    guarantee.delay_ns === null ? "—" : `≤ ${time(guarantee.delay_ns)}`,
    count(flow.backlog),
    count(dropped),
    percent(adapter.processor),
    count(track?.heldBack),
  ];
  texts.forEach((text, n) => say(row.cells[n]!, text));
  row.cells[4]!.className = `number ${late ? `late ${judged.level}` : ""}`;
  const guaranteed = row.cells[0]!;
  guaranteed.className = `verdict ${judged.level}`;
  guaranteed.title = judged.why;
}
