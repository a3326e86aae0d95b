// The dashboard of `falaj serve`: it follows the service's samples, and requests other data when it needs them.

import { Api, Unauthorized } from "./api";
import { Details } from "./details";
import { h, say } from "./dom";
import { time } from "./format";
import { History, type Lane, lanes } from "./history";
import { Cycles, Topology } from "./link";
import type { Disciplines, Sample, Scenario, Service, Way } from "./model";
import { Overview } from "./overview";
import "./style.css";
import { type Theme, choose, theme } from "./theme";
import { forget, keep, token } from "./token";
import { verdict } from "./verdict";

/** Time between two attempts to reach the service, in ms. */
const AGAIN = 2000;

/** The whole page. */
class Page {
  private readonly history = new History();
  private readonly overview = new Overview((key) => this.pick(key), () => this.draw());
  private readonly details: Details;
  private readonly topology = new Topology();
  private readonly cycles = new Cycles();
  private readonly about = h("p", { class: "about" });
  private readonly state = h("p", { class: "state", role: "status" });
  private readonly alarm = h("div", { class: "alarm", role: "alert", hidden: true });
  private readonly hold: HTMLButtonElement;
  private way: Way = "up";
  private chosen: string | null = null;
  private scenario: Scenario | null = null;
  private disciplines: Disciplines | null = null;
  private held = false;

  constructor(private readonly api: Api) {
    this.details = new Details(api, () => this.seek());
    this.details.change.made = () => void this.refresh();
    this.hold = h("button", { type: "button", "aria-pressed": "false", click: () => this.toggle() }, "Hold");
    const main = h(
      "main",
      { id: "main", tabindex: "-1" },
      this.alarm,
      this.overview.element,
      this.details.element,
      h("section", { "aria-labelledby": "link" }, h("div", { class: "bar" }, h("h2", { id: "link" }, "The link")), h("div", { class: "grid" }, this.topology.element, this.cycles.element)),
    );
    document.addEventListener("visibilitychange", () => this.held || this.draw());
    document.body.replaceChildren(h("a", { href: "#main", class: "skip" }, "To the adapters"), this.header(), main);
  }

  private header(): HTMLElement {
    const way = (value: Way, text: string) => {
      const input = h("input", { type: "radio", name: "way", value, change: () => this.turn(value) });
      input.checked = value === this.way;
      return h("label", {}, input, h("span", {}, text));
    };
    const look = h("select", { id: "look", change: () => choose(look.value as Theme) }, ...["auto", "light", "dark"].map((name) => h("option", { value: name }, name)));
    look.value = theme();
    return h(
      "header",
      {},
      h("h1", {}, "falaj"),
      this.about,
      this.state,
      h("fieldset", { class: "ways" }, h("legend", { class: "hidden" }, "Direction"), way("up", "they send"), way("down", "they receive")),
      h("label", { for: "look" }, h("span", { class: "hidden" }, "Colours"), look),
      this.hold,
    );
  }

  private toggle(): void {
    this.held = !this.held;
    this.hold.setAttribute("aria-pressed", String(this.held));
    if (!this.held) this.draw();
  }

  private turn(way: Way): void {
    // Chooses the same flow in the other direction.
    this.chosen = this.chosen === null ? null : `${way} ${this.chosen.split(" ").slice(1).join(" ")}`;
    this.way = way;
    this.draw();
    void this.ask();
  }

  private pick(key: string): void {
    this.chosen = key;
    this.seek();
  }

  /** Draws the last sample, and requests the other data. */
  private seek(): void {
    this.draw();
    void this.ask();
  }

  private lane(): Lane | undefined {
    const all = this.history.sample === null ? [] : lanes(this.history.sample, this.way);
    return all.find((lane) => lane.key === this.chosen) ?? all[0];
  }

  private draw(): void {
    const { sample } = this.history;
    if (sample === null) return;
    const all = lanes(sample, this.way);
    const lane = this.lane();
    this.chosen = lane?.key ?? null;
    this.overview.show(all, this.history, this.chosen);
    if (lane !== undefined) {
      this.details.show(lane, this.history);
      const { link, name, paused } = lane.adapter;
      this.details.change.showPaused(paused);
      const { disciplines, scenario } = this;
      if (disciplines !== null && scenario !== null) this.details.change.show(disciplines, scenario, link, name);
      const own = scenario?.link[link];
      this.topology.show(link, own, own?.scheduler?.kind ?? disciplines?.default ?? "", all, this.way);
    }
    this.details.element.hidden = lane === undefined;
    this.warn(sample);
  }

  private warn(sample: Sample): void {
    const broken = (["up", "down"] as const).flatMap((way) => lanes(sample, way)).filter((lane) => verdict(lane.flow, lane.adapter).level === "broken");
    this.alarm.hidden = broken.length === 0;
    const line = (lane: Lane) => `${lane.adapter.name} (${lane.way === "up" ? "sends" : "receives"}): ${verdict(lane.flow, lane.adapter).why}`;
    const text = broken.slice(0, 3).map(line).join(" — ");
    say(this.alarm, broken.length === 0 ? "" : `✖ GUARANTEE VIOLATED — ${text}${broken.length > 3 ? ` — and ${broken.length - 3} more` : ""}`);
  }

  private take(sample: Sample): void {
    this.history.push(sample, Date.now() / 1000);
    say(this.state, `● live, ${time(Math.floor(sample.at_ns / 1e9) * 1e9)} after the start`);
    this.state.className = "state live";
    if (this.held || document.hidden) return;
    this.draw();
    void this.ask();
  }

  /** Requests the data that samples lack, and shows them: delays of the chosen flow, its last hour, violations, link occupancy. */
  private async ask(): Promise<void> {
    const lane = this.lane();
    if (lane === undefined) return;
    const { key, way, adapter, flow } = lane;
    const hour = this.details.wantsHour ? this.api.history(adapter.name) : Promise.resolve([]);
    const [delays, breaches, turns, kept] = await Promise.allSettled([this.api.delays(adapter.name), this.api.breaches(), this.api.turns(), hour]);
    // The answers are ignored if another flow was chosen meanwhile.
    if (key !== this.chosen) return;
    if (kept.status === "fulfilled" && this.details.wantsHour) {
      const own = kept.value.find((one) => one.flow === flow.flow);
      this.details.showHour(own?.[way] ?? [], this.history.began);
      this.details.show(lane, this.history);
    }
    if (delays.status === "fulfilled") {
      const own = delays.value.find((one) => one.flow === flow.flow);
      this.details.showDelays(own?.[way] ?? [], flow.guarantee.delay_ns);
    }
    if (breaches.status === "fulfilled") {
      this.details.showBreaches(breaches.value, `${adapter.link} ${way} ${flow.flow}`, this.history.began);
    }
    const link = this.scenario?.link[adapter.link];
    if (turns.status === "fulfilled" && link !== undefined) {
      this.cycles.show(link, turns.value.find((one) => one.way === way)?.turns ?? []);
    }
  }

  private async refresh(): Promise<void> {
    this.scenario = await this.api.scenario();
    this.draw();
  }

  /** Follows the service until it ends, and then tries to reach it again, forever. */
  async run(service: Service): Promise<never> {
    for (;;) {
      const quiet = new AbortController();
      let last = Date.now();
      // A service that sends no sample for 20 s counts as gone.
      const watch = window.setInterval(() => Date.now() - last > 20_000 && quiet.abort(), 1000);
      try {
        service = await this.api.service();
        const name = service.file.split("/").at(-1) ?? service.file;
        say(this.about, name);
        this.about.title = `${service.file}, falaj ${service.release}, process ${service.pid}`;
        document.title = `${name} – falaj`;
        this.disciplines = await this.api.disciplines();
        await this.refresh();
        this.take(await this.api.sample());
        const every = 10;
        let n = 0;
        await this.api.follow((sample) => {
          last = Date.now();
          this.take(sample);
          // Other clients may change the scenario too.
          if (++n % every === 0) void this.refresh();
        }, quiet.signal);
      } catch (error) {
        if (error instanceof Unauthorized) {
          forget();
          location.reload();
        }
      } finally {
        clearInterval(watch);
      }
      this.state.className = "state lost";
      say(this.state, "✖ the service does not answer: the values shown are old");
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
}

/** Shows a form that asks for the token; `wrong` is true if the last token was refused. */
function enter(wrong: boolean): void {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event: Event) => {
    event.preventDefault();
    keep(input.value.trim());
    void start();
  };
  const hint = wrong ? "This is not the token of the service. The token is the content of the file that was given with --token-file." : "The token is the content of the file that was given with --token-file.";
  const form = h("form", { class: "enter", submit }, h("h1", {}, "falaj"), h("label", { for: "token" }, "Token"), input, h("p", { role: wrong ? "alert" : "note" }, hint), h("button", { type: "submit", class: "primary" }, "Enter"));
  document.body.replaceChildren(h("main", {}, form));
  input.focus();
}

/** Connects to the service and shows the page, or asks for the token. */
async function start(): Promise<void> {
  const known = token();
  const api = new Api(known);
  try {
    const service = await api.service();
    await new Page(api).run(service);
  } catch (error) {
    if (error instanceof Unauthorized) {
      forget();
      return enter(known !== null);
    }
    document.body.replaceChildren(h("main", {}, h("p", { role: "alert", class: "enter" }, "The service does not answer. Is `falaj serve` running? This page tries again every two seconds.")));
    setTimeout(() => void start(), AGAIN);
  }
}

void start();
