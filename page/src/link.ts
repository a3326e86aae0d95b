// Drawings of the link: the topology of its adapters, and its occupancy by flows over time.

import { fill } from "./charts";
import { h, say, svg } from "./dom";
import { percent, rate, time } from "./format";
import type { Lane } from "./history";
import type { Link, Turn, Way } from "./model";
import { gatesCycle, timeline } from "./timeline";
import { verdict } from "./verdict";

/** Maximum number of adapters that are drawn. */
const DRAWN = 24;
const [ROW, TOP] = [34, 8];

/** Drawing of the adapters, the link and its uplink. The larger the share of an adapter or a tenant in the total rate, the thicker its line. */
export class Topology {
  readonly element: HTMLElement;
  private readonly drawing = svg("svg", { class: "topology", role: "img" });
  private readonly more = h("p", { class: "quiet" });

  constructor() {
    this.element = h("section", { class: "figure" }, h("h3", {}, "Topology"), h("div", { class: "across", tabindex: "0", role: "region", "aria-label": "Topology" }, this.drawing), this.more);
  }

  show(name: string, link: Link | undefined, kind: string, lanes: Lane[], way: Way): void {
    const drawn = lanes.slice(0, DRAWN);
    const height = Math.max(2, drawn.length) * ROW + 2 * TOP;
    const middle = height / 2;
    const rates = (of: Lane[]) => of.reduce((sum, lane) => sum + (lane.flow.window?.sent ?? 0), 0);
    const all = rates(lanes);
    const wide = (sent: number) => (1 + 7 * Math.sqrt(all > 0 ? sent / all : 0)).toFixed(1);
    const wire = (x: number, y: number, to: number, at: number, sent: number) =>
      svg("path", { class: "wire", d: `M${x} ${y} C ${(x + to) / 2} ${y}, ${(x + to) / 2} ${at}, ${to} ${at}`, "stroke-width": wide(sent) });
    const y = (n: number) => TOP + ROW * n + ROW / 2;
    // The lines from the adapters of a tenant meet in a box before the link.
    const tenants = new Map<string, Lane[]>();
    for (const lane of drawn) {
      const tenant = tenantOf(lane.adapter.name);
      if (tenant !== null) tenants.set(tenant, [...(tenants.get(tenant) ?? []), lane]);
    }
    const place = (tenant: string) => {
      const own = tenants.get(tenant)!.map((lane) => y(drawn.indexOf(lane)));
      return own.reduce((sum, at) => sum + at, 0) / own.length;
    };
    const [tenant, start] = [276, tenants.size > 0 ? 462 : 336];
    this.drawing.setAttribute("viewBox", `0 0 ${start + 304} ${height}`);
    const of = lanes.length === 1 ? "one adapter" : `${lanes.length} adapters`;
    const owners = tenants.size === 1 ? "a tenant" : `${tenants.size} tenants`;
    const others = lanes.some((lane) => tenantOf(lane.adapter.name) === null);
    const by = tenants.size === 0 ? "" : others ? `, some of ${owners},` : ` of ${owners}`;
    this.drawing.setAttribute("aria-label", `${of}${by} on link ${name}, to ${link?.uplink ?? "the uplink"}; together ${rate(all)}`);
    const ends = drawn.map((lane, n) => {
      const sent = lane.flow.window?.sent ?? 0;
      const judged = verdict(lane.flow, lane.adapter);
      const own = tenantOf(lane.adapter.name);
      const within = own === null ? lane.adapter.name : lane.adapter.name.slice(own.length + 1);
      const part = lane.flow.flow === lane.adapter.name ? "" : ` · ${lane.flow.flow}`;
      return svg(
        "g",
        { class: judged.level },
        own === null ? wire(236, y(n), start, middle, sent) : wire(236, y(n), tenant, place(own), sent),
        svg("rect", { class: "node", x: 4, y: y(n) - 14, width: 232, height: 28, rx: 5 }),
        svg("text", { x: 14, y: y(n) + 4 }, `${judged.sign} ${short(within + part, 15)}`),
        svg("text", { x: 226, y: y(n) + 4, class: "value" }, rate(sent)),
      );
    });
    const box = (x: number, at: number, width: number, first: string, second: string) => [
      svg("rect", { class: "node", x, y: at - 22, width, height: 44, rx: 5 }),
      svg("text", { x: x + width / 2, y: at - 3, class: "centre strong" }, first),
      svg("text", { x: x + width / 2, y: at + 14, class: "centre quiet" }, second),
    ];
    const groups = [...tenants].flatMap(([tenantName, own]) => [
      wire(tenant + 130, place(tenantName), start, middle, rates(own)),
      ...box(tenant, place(tenantName), 130, short(tenantName, 17), rate(rates(own))),
    ]);
    this.drawing.replaceChildren(
      ...ends,
      ...groups,
      svg("path", { class: "wire", d: `M${start + 150} ${middle} H ${start + 194}`, "stroke-width": 5 }),
      ...box(start, middle, 150, short(`${name}, ${link?.rate ?? ""}`, 20), kind),
      ...box(start + 194, middle, 106, way === "up" ? "uplink →" : "← uplink", short(link?.uplink ?? "", 14)),
    );
    say(this.more, lanes.length > DRAWN ? `and ${lanes.length - DRAWN} more` : "");
  }
}

/** The tenant of an adapter: the part of its name before the last slash; null without a slash. */
function tenantOf(name: string): string | null {
  const at = name.lastIndexOf("/");
  return at < 0 ? null : name.slice(0, at);
}

/** Drawing of the link's occupancy: a row for each flow, over the last cycles or turns. */
export class Cycles {
  readonly element: HTMLElement;
  private readonly rows = h("div", { class: "cycles", role: "img" });
  private readonly about = h("p", { class: "quiet" });
  private readonly table = h("table", { class: "small" });

  constructor() {
    this.element = h(
      "section",
      { class: "figure" },
      h("h3", {}, "Link occupancy"),
      this.about,
      this.rows,
      h("details", {}, h("summary", {}, "As a table"), this.table),
    );
  }

  show(link: Link, turns: Turn[]): void {
    if (turns.length === 0) {
      say(this.about, "No packet has left yet.");
      this.rows.replaceChildren();
      return;
    }
    const { begin, length, cycle, rows } = timeline(link, turns);
    const marks: number[] = [];
    if (cycle !== null && gatesCycle(link) !== null) for (let at = 0; at <= length; at += cycle) marks.push(at);
    const x = (nanos: number) => ((nanos / length) * 1000).toFixed(2);
    const bars = rows.slice(0, DRAWN).map(({ flow, held, open, share }) => {
      const strip = svg("svg", { viewBox: "0 0 1000 20", preserveAspectRatio: "none", "aria-hidden": "true" });
      strip.append(
        ...open.map(([from, wide]) => svg("rect", { class: "open", x: x(from), width: x(wide), y: 0, height: 20 })),
        ...held.map(([from, wide]) => svg("rect", { class: "held", x: x(from), width: x(wide), y: 3, height: 14 })),
        ...marks.map((at) => svg("path", { class: "mark", d: `M${x(at)} 0 V20` })),
      );
      return h("div", { class: "cycle" }, h("span", {}, flow), strip, h("span", { class: "number" }, percent(share)));
    });
    const every = cycle === null ? "" : `; a cycle takes ${time(cycle)}${gatesCycle(link) !== null ? "; open gates are shaded" : " if every phase is used in full"}`;
    say(this.about, `${time(length)}, beginning ${time(begin)} after the start${every}`);
    this.rows.setAttribute("aria-label", `Shares of ${time(length)}: ${rows.map(({ flow, share }) => `${flow} ${percent(share)}`).join(", ")}`);
    this.rows.replaceChildren(...bars);
    fill(this.table, ["Flow", "held the link", "times", "of the time"], rows.map(({ flow, held, share }) => [flow, time(held.reduce((sum, [, wide]) => sum + wide, 0)), String(held.length), percent(share)]));
  }
}

/** The text, cut to at most `most` characters. */
function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
