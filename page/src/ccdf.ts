// How many packets stayed longer than that: the complement of the distribution.

/** For each delay the share of packets that stayed longer; the largest has none, and is left out. */
export function ccdf(counts: [number, number][]): [delays: number[], shares: number[]] {
  const sorted = [...counts].sort(([a], [b]) => a - b);
  const all = sorted.reduce((sum, [, times]) => sum + times, 0);
  const delays: number[] = [];
  const shares: number[] = [];
  let left = all;
  for (const [delay, times] of sorted) {
    left -= times;
    if (left > 0 && delay > 0) {
      delays.push(delay);
      shares.push(left / all);
    }
  }
  const largest = sorted.at(-1)?.[0];
  // Down to where one packet is left: there the line ends at the largest.
  if (largest !== undefined && delays.length > 0) {
    delays.push(largest);
    shares.push(shares[shares.length - 1]!);
  }
  return [delays, shares];
}
