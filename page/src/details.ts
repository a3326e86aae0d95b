// Details of one adapter in one direction: charts over time, delays, drops, guarantee violations, and the form for changes.

import type { Api } from "./api";
import { entries, stay } from "./breaches";
import { Chart, GUARANTEE, Tail, fill } from "./charts";
import { h, say } from "./dom";
import { count, rate, time, words } from "./format";
import { hour, type History, type Lane, type Series } from "./history";
import { Change } from "./change";
import type { Breach, HistoryStep } from "./model";
import { verdict } from "./verdict";

/** Maximum number of entries in the list of violations. */
const SHOWN = 12;
/** Reasons for drops, in the order of the bands in the chart: the last one is at the bottom. */
const REASONS = ["change", "discipline", "policy", "too_large", "no_memory", "queue_full"];
/** For each cause of a violation: the cause and a remedy, in words. */
const CAUSES: Record<string, { because: string; todo: string }> = {
  "own-burst": { because: "it had sent more than its envelope", todo: "let it send less, or agree on a larger envelope" },
  host: { because: "this host read the packet late, or handed it over late", todo: "give the link a processor of its own; falaj doctor says what disturbs it" },
  guarantee: { because: "the guarantee was violated", todo: "a defect of falaj: report it with this scenario" },
};

/** The part of the page about the chosen adapter. */
export class Details {
  readonly element: HTMLElement;
  readonly change: Change;
  private readonly title = h("h2", { id: "chosen", tabindex: "-1" });
  private readonly verdict = h("p", { class: "verdict" });
  private readonly terms = h("p", { class: "terms" });
  /** True if the charts show the last hour instead of the last five minutes. */
  wantsHour = false;
  private hour: Series | null = null;
  private readonly throughput = new Chart({
    title: "Throughput",
    format: rate,
    lines: [{ label: "offered", colour: "offered", dash: [2, 3] }, { label: "sent", colour: "sent", width: 2, fill: true }, GUARANTEE],
    guarantee: 2,
  });
  private readonly delay = new Chart({
    title: "Delay",
    format: time,
    lines: [{ label: "p50", colour: "offered" }, { label: "p99", colour: "sent", width: 2 }, { label: "largest", colour: "largest" }, GUARANTEE],
    guarantee: 3,
    held: 2,
  });
  private readonly backlog = new Chart({ title: "Packets that wait", format: count, lines: [{ label: "packets", colour: "sent", fill: true }], whole: true });
  private readonly reasons = h("table", { class: "small" });
  private readonly drops = new Chart(
    {
      title: "Drops by reason",
      format: count,
      lines: REASONS.map((why) => ({ label: words(why), colour: `drop-${why.replace("_", "-")}`, width: 1, fill: true })),
      whole: true,
      stacked: true,
    },
    this.reasons,
  );
  private readonly tail = new Tail(time);
  private readonly breaches = h("table", { class: "small breaches" });
  private readonly noBreach = h("p", { class: "quiet" }, "No violations so far.");

  constructor(api: Api, private readonly again: () => void) {
    this.change = new Change(api);
    const span = (text: string, hour: boolean) => {
      const input = h("input", { type: "radio", name: "span", change: () => this.turn(hour) });
      input.checked = hour === this.wantsHour;
      return h("label", {}, input, h("span", {}, text));
    };
    const spans = h("fieldset", { class: "ways" }, h("legend", { class: "hidden" }, "Time shown"), span("5 minutes", false), span("1 hour", true));
    const breaches = h("section", { class: "figure whole" }, h("h3", {}, "Guarantee violations"), this.noBreach, h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": "Guarantee violations" }, this.breaches));
    this.element = h(
      "section",
      { "aria-labelledby": "chosen", class: "details" },
      h("div", { class: "bar" }, this.title, this.verdict, spans),
      this.terms,
      h("div", { class: "grid" }, this.throughput.element, this.delay.element, this.backlog.element, this.drops.element, this.tail.element, this.change.element, breaches),
    );
  }

  private turn(hour: boolean): void {
    this.wantsHour = hour;
    this.hour = null;
    this.again();
  }

  /** Sets the measurements of the flow's last hour, in steps of ten seconds; `began` is the start of the service, in seconds since 1970. */
  showHour(steps: HistoryStep[], began: number): void {
    this.hour = hour(steps, began);
  }

  focus(): void {
    this.title.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }

  show({ key, way, adapter, flow }: Lane, history: History): void {
    const track = history.track(key);
    if (track === undefined) return;
    const part = flow.flow === adapter.name ? "" : ` · ${flow.flow}`;
    say(this.title, `${adapter.name}${part} ${way === "up" ? "sends" : "receives"}`);
    const judged = verdict(flow, adapter);
    this.verdict.className = `verdict ${judged.level}`;
    say(this.verdict, `${judged.sign} ${judged.word}: ${judged.why}`);
    const { guarantee } = flow;
    const envelope = guarantee.envelope.map((bucket) => `${rate(bucket.rate)} and ${count(bucket.burst_bytes)} B at once`).join(", ");
    const terms = [
      guarantee.rate === null ? "no rate is guaranteed" : `at least ${rate(guarantee.rate)} while packets wait`,
      guarantee.delay_ns === null ? `no delay is guaranteed${guarantee.none ? ` (${guarantee.none})` : ""}` : `at most ${time(guarantee.delay_ns)}${guarantee.formula ? ` by ${guarantee.formula}` : ""}`,
      ...(envelope ? [`as long as it sends at most ${envelope}${flow.total.beyond > 0 ? ` (${count(flow.total.beyond)} packets exceeded this)` : ""}`] : []),
    ];
    say(this.terms, `Guaranteed: ${terms.join("; ")}.`);
    const series: Series = this.wantsHour && this.hour !== null ? this.hour : track;
    this.throughput.show(series.at, [series.offered, series.sent, series.guaranteedRate]);
    this.delay.show(series.at, [series.p50, series.p99, series.max, series.guaranteedDelay], series.broken);
    this.backlog.show(series.at, [series.backlog]);
    this.drops.show(series.at, REASONS.map((why) => series.dropped.get(why) ?? series.at.map(() => null)));
    const reasons = Object.entries(flow.total.dropped)
      .filter(([, total]) => total > 0)
      .map(([why, total]) => [words(why), count(track.dropped.get(why)?.at(-1) ?? 0), count(total)]);
    fill(this.reasons, ["Reason", "last second", "since the start"], reasons.length > 0 ? reasons : [["nothing was dropped", "0", "0"]]);
  }

  showDelays(counts: [number, number][], guaranteed: number | null): void {
    this.tail.show(counts, guaranteed);
  }

  /** Shows the last guarantee violations of the flow `name`, the newest first; `began` is the start of the service, in seconds since 1970. */
  showBreaches(all: Breach[], name: string, began: number): void {
    const own = entries(all.filter((breach) => breach.flow === name)).slice(-SHOWN).reverse();
    this.noBreach.hidden = own.length > 0;
    const clock = (nanos: number) => new Date((began + nanos / 1e9) * 1000).toLocaleTimeString("en-GB");
    const rows = own.map(({ breach, times }) => {
      const why = CAUSES[breach.kind === "rate" ? "guarantee" : breach.cause];
      const because = [why?.because ?? "", why?.todo ?? ""];
      if (breach.kind === "rate") {
        const least = times > 1 ? `${times} times too low, the lowest ` : "";
        return [clock(breach.begin_ns), `${least}${rate(breach.sent)} while packets waited, for ${time(breach.end_ns - breach.begin_ns)}`, rate(breach.guaranteed), ...because];
      }
      const stayed = times > 1 ? `${times} packets stayed up to ${time(stay(breach))}` : `stayed ${time(stay(breach))}`;
      return [clock(breach.arrival_ns), stayed, time(breach.bound_ns), ...because];
    });
    if (own.length === 0) this.breaches.replaceChildren();
    else fill(this.breaches, ["At", "measured", "guaranteed", "because", "remedy"], rows);
  }
}
