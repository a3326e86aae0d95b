// The keys of an adapter's flow that can be changed, and their values.

import type { Disciplines, FlowKeys, Link, Scenario } from "./model";

/** A key that the form can change, with its present value. */
export interface Knob {
  key: string;
  label: string;
  /** The value as it is written in the scenario; empty if the scenario does not have the key. */
  value: string;
  /** The default value, in words. */
  absent: string;
  /** True if the value is a whole number. */
  number: boolean;
  /** True if the key is the flow's weight, for which the form has a slider. */
  weight: boolean;
}

/** Keys that flows have under all disciplines. In the form the discipline's own keys, which the service lists, come before these. */
const ALL: [key: string, label: string, absent: string][] = [
  ["requires.rate", "Required rate", "none"],
  ["requires.delay", "Required delay", "none"],
  ["envelope.rate", "Envelope: rate", "unknown"],
  ["envelope.burst", "Envelope: burst", "unknown"],
  ["queue", "Queue", "20p"],
];

/** The table of a flow, and the discipline that serves it. */
function find(link: Link, name: string, otherwise: string): [FlowKeys, string] | null {
  let [at, kind]: [Link | FlowKeys, string] = [link, link.scheduler?.kind ?? otherwise];
  for (const [n, part] of name.split("/").entries()) {
    if (n > 0) kind = at.scheduler?.kind ?? otherwise;
    const below: FlowKeys | undefined = at.flow?.[part];
    if (below === undefined) return null;
    at = below;
  }
  return [at as FlowKeys, kind];
}

/** The value of a key in a flow's table, as text; empty if the table does not have the key. */
function written(keys: FlowKeys, key: string): string {
  let value: unknown = keys;
  for (const word of key.split(".")) value = (value as Record<string, unknown> | undefined)?.[word];
  if (value == null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The keys of a flow that can be changed; none if the scenario does not have the flow. */
export function knobs(disciplines: Disciplines, scenario: Scenario, link: string, name: string): Knob[] {
  const table = scenario.link[link];
  const found = table && find(table, name, disciplines.default);
  if (!found) return [];
  const [keys, kind] = found;
  // An envelope of several token buckets can be changed only in the scenario file.
  const several = Array.isArray(keys.envelope);
  const general = ALL.filter(([key]) => !(several && key.startsWith("envelope.")));
  const own = disciplines.disciplines.find((discipline) => discipline.kind === kind)?.keys ?? [];
  return [
    // The default in words, without the remark that may follow it.
    ...own.map(({ default: absent, ...key }) => ({ ...key, absent: absent?.split(/[:;]/)[0] ?? "required" })),
    ...general.map(([key, label, absent]) => ({ key, label, absent, number: false, weight: false })),
  ].map((knob) => ({ ...knob, value: written(keys, knob.key) }));
}

/** The changed values, by key, as the service expects them; null removes a key. */
export function changes(before: Knob[], now: Map<string, string>): Record<string, unknown> {
  const sent: Record<string, unknown> = {};
  for (const { key, value, number } of before) {
    const text = (now.get(key) ?? value).trim();
    if (text !== value) sent[key] = text === "" ? null : number && /^\d+$/.test(text) ? Number(text) : text;
  }
  return sent;
}

/** Upper end of the slider: at least four times the weight, a power of two, from 16 to 65536. */
export function most(weight: number): number {
  return Math.min(65536, Math.max(16, 2 ** Math.ceil(Math.log2(Math.max(1, weight) * 4))));
}
