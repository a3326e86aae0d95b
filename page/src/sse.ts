// Parser of server-sent events in a stream of text. The browser's own EventSource cannot send a token.

export interface Event {
  name: string;
  data: string;
}

/** Collects pieces of the stream; `take` returns the events that are now complete. */
export class Events {
  private rest = "";

  take(text: string): Event[] {
    const blocks = (this.rest + text.replaceAll("\r\n", "\n")).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(event).filter((event) => event.data !== "");
  }
}

/** Parses the lines of one event. */
function event(block: string): Event {
  const of = (field: string) =>
    block
      .split("\n")
      .filter((line) => line.startsWith(`${field}:`))
      .map((line) => line.slice(field.length + 1).replace(/^ /, ""));
  return { name: of("event").at(-1) ?? "message", data: of("data").join("\n") };
}
