// Formats numbers with units for people, and reads rates and times of a scenario.

/** A number with three significant digits. */
function digits(value: number): string {
  const whole = Math.abs(value);
  return value.toFixed(whole >= 99.95 || whole === 0 ? 0 : whole >= 9.995 ? 1 : 2);
}

/** The value in the largest of the units in which it is at least 1. */
function scaled(value: number, steps: [number, string][]): string {
  const [by, unit] = steps.find(([by]) => Math.abs(value) >= by * 0.9995) ?? steps[steps.length - 1]!;
  return `${digits(value / by)} ${unit}`;
}

/** A rate, from bits per second. */
export function rate(bits: number | null | undefined): string {
  if (bits == null) return "—";
  return scaled(bits, [
    [1e9, "Gbit/s"],
    [1e6, "Mbit/s"],
    [1e3, "kbit/s"],
    [1, "bit/s"],
  ]);
}

/** A time, from nanoseconds. */
export function time(nanos: number | null | undefined): string {
  if (nanos == null) return "—";
  return scaled(nanos, [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
  ]);
}

/** A whole number with separators of thousands. */
export function count(n: number | null | undefined): string {
  return n == null ? "—" : n.toLocaleString("en-US");
}

/** A share, from 0 to 1, in percent. */
export function percent(share: number | null | undefined): string {
  return share == null ? "—" : `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** The name of a reason or a cause, with spaces between its words. */
export function words(name: string): string {
  return name.replaceAll(/[_-]/g, " ");
}

const UNITS: Record<string, number> = { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 };

/** Parses a rate of a scenario, such as `10mbit`; returns bits per second, or null if it is not a rate. */
export function readRate(text: string | undefined): number | null {
  const read = /^\s*([\d.]+)\s*(bit|kbit|mbit|gbit)(?:ps|\/s)?\s*$/i.exec(text ?? "");
  return read ? Number(read[1]) * UNITS[read[2]!.toLowerCase()]! : null;
}

const TIMES: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

/** Parses a time of a scenario, such as `5ms`; returns nanoseconds, or null if it is not a time. */
export function readTime(text: unknown): number | null {
  const read = /^\s*([\d.]+)\s*(ns|us|ms|s)\s*$/.exec(typeof text === "string" ? text : "");
  return read ? Number(read[1]) * TIMES[read[2]!]! : null;
}
