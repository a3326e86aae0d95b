// Client of the service's HTTP API.

import type { Adapter, Breach, Delays, Disciplines, FlowHistory, Made, Problem, Sample, Scenario, Service, Turns } from "./model";
import { Events } from "./sse";

/** Error: the token is missing or wrong. */
export class Unauthorized extends Error {}

export class Api {
  constructor(private readonly token: string | null) {}

  private ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.token !== null) headers.set("Authorization", `Bearer ${this.token}`);
    return fetch(path, { ...init, headers, cache: "no-store" });
  }

  private async get<T>(path: string): Promise<T> {
    const answer = await this.ask(path, { headers: { Accept: "application/json" } });
    if (answer.status === 401) throw new Unauthorized();
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return (await answer.json()) as T;
  }

  service = () => this.get<Service>("v1");
  sample = () => this.get<Sample>("v1/adapters");
  breaches = () => this.get<Breach[]>("v1/breaches");
  scenario = () => this.get<Scenario>("v1/scenario");
  disciplines = () => this.get<Disciplines>("v1/disciplines");
  delays = (adapter: string) => this.get<Delays[]>(`v1/adapters/${encodeURIComponent(adapter)}/delays`);
  history = (adapter: string) => this.get<FlowHistory[]>(`v1/adapters/${encodeURIComponent(adapter)}/history`);
  turns = () => this.get<Turns[]>("v1/turns?last=512");

  /** Changes keys of an adapter, or only checks whether the service would accept the change. */
  change(adapter: Adapter["name"], keys: Record<string, unknown>, check: boolean): Promise<Made | Problem> {
    return this.send<Made>("PATCH", `v1/adapters/${encodeURIComponent(adapter)}${check ? "?check=true" : ""}`, keys);
  }

  /** Pauses or resumes an adapter. Returns true if it is paused now. */
  pause(adapter: Adapter["name"], paused: boolean): Promise<boolean | Problem> {
    return this.send<boolean>("PUT", `v1/adapters/${encodeURIComponent(adapter)}/paused`, paused);
  }

  private async send<T>(method: string, path: string, what: unknown): Promise<T | Problem> {
    const answer = await this.ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
    if (answer.status === 401) throw new Unauthorized();
    const text = await answer.text();
    try {
      return JSON.parse(text) as T | Problem;
    } catch {
      return { what: text || `the service answers ${answer.status}`, remarks: [] };
    }
  }

  /** Calls `each` for every sample that arrives, until the service ends or `signal` aborts. */
  async follow(each: (sample: Sample) => void, signal: AbortSignal): Promise<void> {
    const answer = await this.ask("v1/events", { signal, headers: { Accept: "text/event-stream" } });
    if (answer.status === 401) throw new Unauthorized();
    if (!answer.ok || answer.body === null) throw new Error(`v1/events: ${answer.status}`);
    const events = new Events();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await text.read();
      if (done) return;
      for (const event of events.take(value)) {
        if (event.name === "sample") each(JSON.parse(event.data) as Sample);
      }
    }
  }
}

/** Returns true if the answer is a change that was made or would be accepted, not a refusal. */
export function isMade(answer: Made | Problem): answer is Made {
  return "changed" in answer;
}
