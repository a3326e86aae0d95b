import { expect, test } from "vitest";
import { ccdf } from "./ccdf";

test("the share that stayed longer than each delay", () => {
  expect(ccdf([[30, 1], [10, 6], [20, 3]])).toEqual([[10, 20, 30], [0.4, 0.1, 0.1]]);
  expect(ccdf([])).toEqual([[], []]);
  // All packets have the same delay, so no packet has a longer one.
  expect(ccdf([[10, 5]])).toEqual([[], []]);
});

test("it never rises", () => {
  const counts = Array.from({ length: 200 }, (_, n): [number, number] => [(n * 7919) % 1009 + 1, (n * 31) % 17 + 1]);
  const [delays, shares] = ccdf(counts);
  expect(delays).toEqual([...delays].sort((a, b) => a - b));
  shares.slice(1).forEach((share, n) => expect(share).toBeLessThanOrEqual(shares[n]!));
});
