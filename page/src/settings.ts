// Which keys of an adapter's flow there are to change, and what they are now.

import type { Disciplines, FlowKeys, Link, Scenario } from "./model";

export interface Knob {
  key: string;
  label: string;
  /** As it is written; empty where the key is not there. */
  value: string;
  /** What is meant where it is not there. */
  absent: string;
  /** A whole number. */
  number: boolean;
  /** The flow's weight, for a slider. */
  weight: boolean;
}

/** Keys that the flows of all disciplines have; those of the discipline, which the service names, come before them. */
const ALL: [key: string, label: string, absent: string][] = [
  ["requires.rate", "Rate asked for", "none"],
  ["requires.delay", "Delay asked for", "none"],
  ["envelope.rate", "Envelope: rate", "unknown"],
  ["envelope.burst", "Envelope: burst", "unknown"],
  ["queue", "Queue", "20p"],
];

/** The table of a flow, and the discipline that it stands under. */
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

function written(keys: FlowKeys, key: string): string {
  let value: unknown = keys;
  for (const word of key.split(".")) value = (value as Record<string, unknown> | undefined)?.[word];
  if (value == null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** What there is to change of a flow; nothing where the scenario has it not. */
export function knobs(disciplines: Disciplines, scenario: Scenario, link: string, name: string): Knob[] {
  const table = scenario.link[link];
  const found = table && find(table, name, disciplines.default);
  if (!found) return [];
  const [keys, kind] = found;
  // An envelope of several buckets is changed in the file.
  const several = Array.isArray(keys.envelope);
  const general = ALL.filter(([key]) => !(several && key.startsWith("envelope.")));
  const own = disciplines.disciplines.find((discipline) => discipline.kind === kind)?.keys ?? [];
  return [
    // Of a default's words those before a remark.
    ...own.map(({ default: absent, ...key }) => ({ ...key, absent: absent?.split(/[:;]/)[0] ?? "required" })),
    ...general.map(([key, label, absent]) => ({ key, label, absent, number: false, weight: false })),
  ].map((knob) => ({ ...knob, value: written(keys, knob.key) }));
}

/** What has to be sent for these to be the values: those that changed; null where a key goes. */
export function changes(before: Knob[], now: Map<string, string>): Record<string, unknown> {
  const sent: Record<string, unknown> = {};
  for (const { key, value, number } of before) {
    const text = (now.get(key) ?? value).trim();
    if (text !== value) sent[key] = text === "" ? null : number && /^\d+$/.test(text) ? Number(text) : text;
  }
  return sent;
}

/** The slider's end: room for four times as much. */
export function most(weight: number): number {
  return Math.min(65536, Math.max(16, 2 ** Math.ceil(Math.log2(Math.max(1, weight) * 4))));
}
