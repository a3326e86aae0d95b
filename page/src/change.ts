// Form to change keys of an adapter's flow while the service runs. The service checks each change before applying it.

import { type Api, isMade } from "./api";
import { h } from "./dom";
import type { Disciplines, Made, Problem, Scenario } from "./model";
import { type Knob, changes, knobs, most } from "./settings";

/** Time without input after which the service checks the values, in ms, so that a moving slider causes no requests. */
const PAUSE = 250;

/** The form. Each edited value is checked by the service; `Apply` sets it. */
export class Change {
  readonly element: HTMLElement;
  private readonly fields = h("div", { class: "fields" });
  private readonly answer = h("div", { class: "answer", role: "status" });
  private readonly apply = h("button", { type: "submit", class: "primary", disabled: true }, "Apply");
  private readonly pause = h("button", { type: "button", "aria-pressed": "false", click: () => void this.toggle() }, "Pause");
  private readonly reset = h("button", { type: "button", disabled: true, click: () => this.build() }, "Reset");
  private adapter = "";
  private known: Knob[] = [];
  private inputs = new Map<string, HTMLInputElement>();
  private timer = 0;
  private asked = 0;

  /** Called after an applied change. */
  made: () => void = () => {};

  constructor(private readonly api: Api) {
    const submit = (event: Event) => {
      event.preventDefault();
      void this.send(false);
    };
    this.element = h(
      "form",
      { class: "figure change", submit, "aria-labelledby": "change" },
      h("h3", { id: "change" }, "Change"),
      this.fields,
      h("div", { class: "buttons" }, this.apply, this.reset, this.pause),
      this.answer,
    );
  }

  private async toggle(): Promise<void> {
    const wanted = this.pause.getAttribute("aria-pressed") !== "true";
    const answer = await this.api.pause(this.adapter, wanted).catch((error: unknown) => ({ what: String(error), remarks: [] }));
    const said = typeof answer === "boolean" ? `✓ ${this.adapter} ${answer ? "is paused: no packets are read from it or sent to it" : "is resumed"}.` : `✖ ${answer.what}`;
    this.answer.className = `answer ${typeof answer === "boolean" ? "good" : "refused"}`;
    this.answer.replaceChildren(h("p", {}, said));
    if (typeof answer === "boolean") this.showPaused(answer);
  }

  showPaused(paused: boolean): void {
    this.pause.setAttribute("aria-pressed", String(paused));
  }

  /** Shows the keys that can be changed. Input that was not applied stays while the keys and their values are the same. */
  show(disciplines: Disciplines, scenario: Scenario, link: string, adapter: string): void {
    const now = knobs(disciplines, scenario, link, adapter);
    if (adapter === this.adapter && JSON.stringify(now) === JSON.stringify(this.known)) return;
    const other = adapter !== this.adapter;
    [this.adapter, this.known] = [adapter, now];
    this.build();
    if (other) this.answer.replaceChildren();
  }

  private build(): void {
    this.inputs = new Map();
    this.fields.replaceChildren(...this.known.map((knob) => this.field(knob)));
    this.apply.disabled = this.reset.disabled = true;
  }

  private field(knob: Knob): HTMLElement {
    const id = `key-${knob.key.replace(".", "-")}`;
    const input = h("input", { id, name: knob.key, value: knob.value, placeholder: knob.absent, autocomplete: "off", spellcheck: "false" });
    this.inputs.set(knob.key, input);
    const label = h("label", { for: id }, knob.label);
    if (!knob.weight) {
      input.addEventListener("input", () => this.edited());
      return h("div", { class: "field" }, label, input);
    }
    const value = Number(knob.value || 1);
    const slider = h("input", { type: "range", min: "1", max: String(most(value)), value: String(value), "aria-label": "Weight, by slider" });
    input.inputMode = "numeric";
    slider.addEventListener("input", () => {
      input.value = slider.value;
      this.edited();
    });
    input.addEventListener("input", () => {
      slider.max = String(Math.max(Number(slider.max), most(Number(input.value) || 1)));
      slider.value = input.value;
      this.edited();
    });
    return h("div", { class: "field slides" }, label, slider, input);
  }

  private wanted(): Record<string, unknown> {
    return changes(this.known, new Map([...this.inputs].map(([key, input]) => [key, input.value])));
  }

  private edited(): void {
    const any = Object.keys(this.wanted()).length > 0;
    this.apply.disabled = this.reset.disabled = !any;
    clearTimeout(this.timer);
    if (any) this.timer = window.setTimeout(() => void this.send(true), PAUSE);
    else this.answer.replaceChildren();
  }

  private async send(check: boolean): Promise<void> {
    const keys = this.wanted();
    if (Object.keys(keys).length === 0) return;
    clearTimeout(this.timer);
    const number = ++this.asked;
    const adapter = this.adapter;
    let answer: Made | Problem;
    try {
      answer = await this.api.change(adapter, keys, check);
    } catch (error) {
      answer = { what: error instanceof Error ? error.message : String(error), remarks: [] };
    }
    // The answer is ignored if a later request was sent, or another adapter is shown.
    if (number !== this.asked || adapter !== this.adapter) return;
    this.tell(answer, keys, check);
    if (!check && isMade(answer)) this.made();
  }

  private tell(answer: Made | Problem, keys: Record<string, unknown>, check: boolean): void {
    const said = Object.entries(keys).map(([key, value]) => (value === null ? `no ${key}` : `${key} ${String(value)}`)).join(", ");
    const good = isMade(answer);
    const line = good ? (check ? `✓ ${said}: that would fit.` : `✓ ${said}: done.`) : `✖ ${answer.what}`;
    const dropped = good && answer.dropped > 0 ? [h("p", {}, `${answer.dropped} packets that waited were dropped.`)] : [];
    const remarks = answer.remarks.map((remark) =>
      h("li", {}, h("strong", {}, ...quoted(remark.severity === "warning" ? `Warning: ${remark.title}` : remark.title)), ...remark.help.map((help) => h("p", {}, ...quoted(help)))),
    );
    this.answer.className = `answer ${good ? "good" : "refused"}`;
    this.answer.replaceChildren(h("p", {}, line), ...dropped, ...(remarks.length > 0 ? [h("ul", {}, ...remarks)] : []));
  }
}

/** The text as page content; the parts between backticks become code elements. */
function quoted(text: string): (Node | string)[] {
  return text.split("`").map((part, n) => (n % 2 === 1 ? h("code", {}, part) : part));
}
