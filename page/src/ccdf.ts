// Complementary cumulative distribution of delays: for each delay, the share of packets with a longer one.

/** For each delay, the share of packets with a longer one; `counts` are pairs of a delay and the number of packets with it. The line ends at the largest delay, with the share of the delay before it, because a share of 0 has no place on a logarithmic axis. */
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
  // The last step of the line goes to the largest delay.
  if (largest !== undefined && delays.length > 0) {
    delays.push(largest);
    shares.push(shares[shares.length - 1]!);
  }
  return [delays, shares];
}
