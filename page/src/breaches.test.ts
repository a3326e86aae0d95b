import { expect, test } from "vitest";
import { entries, stay } from "./breaches";
import type { Breach, TooLong } from "./model";

function late(arrival_ns: number, end_ns: number, more: Partial<TooLong> = {}): TooLong {
  return { kind: "delay", number: 1, flow: "a", cause: "host", bound_ns: 5, arrival_ns, end_ns, handed_over_ns: null, ...more };
}

test("breaches of one second with one cause are one entry, with the worst of them", () => {
  const slow: Breach = { kind: "rate", flow: "a", begin_ns: 0, end_ns: 1, sent: 3, guaranteed: 9 };
  const slower: Breach = { ...slow, begin_ns: 5, sent: 1 };
  const other: Breach = { ...slow, guaranteed: 8 };
  // Violations of two causes alternate.
  const burst = late(50, 60, { cause: "own-burst" });
  const all = [late(10, 20), burst, late(30, 90), burst, late(40, 60), late(2e9, 2e9 + 10), slow, slower, slow, other];
  const list = entries(all);
  expect(list.map(({ times }) => times)).toEqual([3, 2, 1, 3, 1]);
  expect(list[3]!.breach).toBe(slower);
  expect(stay(list[0]!.breach as TooLong)).toBe(60);
  expect(stay(late(10, 20, { handed_over_ns: 40 }))).toBe(30);
  expect(entries([])).toEqual([]);
});
