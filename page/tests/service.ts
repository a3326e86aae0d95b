// A running service whose adapters are in namespaces, and programs that send packets from there.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FALAJ = process.env.FALAJ ?? "falaj";
export const TOKEN = "not-to-be-guessed/+=";

/** Returns true if namespaces are allowed here. */
export const possible = spawnSync("unshare", ["-Urn", "true"]).status === 0;

/** A process of `falaj serve` with its API over TCP, and a directory for its files. */
export class Service {
  private constructor(
    private child: ChildProcess,
    private readonly directory: string,
    readonly address: string,
    readonly said: () => string,
  ) {}

  private static words(directory: string, tcp: string): string[] {
    const [file, token, control] = ["service.toml", "token", "control.sock"].map((name) => join(directory, name));
    return ["serve", file, "--tcp", tcp, "--token-file", token, "--control", control] as string[];
  }

  static async start(scenario: string): Promise<Service> {
    const directory = mkdtempSync(join(tmpdir(), "falaj-page-"));
    writeFileSync(join(directory, "service.toml"), scenario);
    writeFileSync(join(directory, "token"), TOKEN);
    const child = spawn(FALAJ, Service.words(directory, "127.0.0.1:0"), { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (text: Buffer) => (said += text.toString()));
    child.on("error", (error) => (said += `${FALAJ}: ${error.message}`));
    for (let n = 0; n < 600; n++) {
      const address = /dashboard at (http:\S+)/.exec(said)?.[1];
      if (address !== undefined) return new Service(child, directory, address, () => said);
      if (child.exitCode !== null) break;
      await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error(`the service does not start: ${said}`);
  }

  private get(path: string): Promise<Response> {
    return fetch(`${this.address}${path}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  }

  async ask<T>(path: string): Promise<T> {
    return (await (await this.get(path)).json()) as T;
  }

  /** Returns the service's current scenario, as TOML. */
  async scenario(): Promise<string> {
    return (await this.get("v1/scenario")).text();
  }

  /** Starts a program that sends datagrams of `size` bytes from an adapter's namespace to the uplink: `burst` at once, every `gap` ms. */
  async send(adapter: string, gap: number, burst: number, size: number): Promise<ChildProcess> {
    const { processes } = await this.ask<{ processes: Record<string, number> }>("v1");
    const routes = readFileSync(`/proc/${processes[""]}/net/fib_trie`, "utf8");
    const to = /10\.77\.\d+\.1(?=\s)/.exec(routes)?.[0];
    if (to === undefined) throw new Error(`the uplink has no address: ${routes}`);
    const owner = process.getuid?.() === 0 ? [] : ["--user", "--preserve-credentials"];
    const program = `
      const socket = require("node:dgram").createSocket("udp4");
      const packet = Buffer.alloc(${size});
      setInterval(() => { for (let n = 0; n < ${burst}; n++) socket.send(packet, 9, "${to}", () => {}); }, ${gap});`;
    const words = ["--target", String(processes[adapter]), "--net", ...owner, process.execPath, "-e", program];
    return spawn("nsenter", words, { stdio: "ignore" });
  }

  /** Starts a new process that takes over from the running one; returns when the old process has ended. */
  async upgrade(): Promise<void> {
    const ended = new Promise((done) => this.child.once("exit", done));
    const words = [...Service.words(this.directory, new URL(this.address).host), "--upgrade"];
    this.child = spawn(FALAJ, words, { stdio: "ignore" });
    await ended;
  }

  async end(): Promise<void> {
    const ended = new Promise((done) => this.child.once("exit", done));
    if (this.child.exitCode === null) {
      this.child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}
