//! The client's end of a control socket.

use crate::endpoint::VARIABLE;
use crate::protocol::{
    FlowReport, Hello, LINE, LinksReport, Refusal, Remark, SetAnswer, SetRequest, VERSION,
};
use crate::sockets::{directories, sockets};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a request; a healthy process is faster.
const PATIENCE: Duration = Duration::from_secs(10);

/// The link that a command addresses.
#[derive(clap::Args)]
pub struct LinkSelection {
    /// The control socket of the link [default: $FALAJ_CONTROL, or else the one that is running].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// A connection to a link that is running.
pub struct Client {
    lines: BufReader<UnixStream>,
    /// The link's greeting.
    pub hello: Hello,
    /// The path of its socket.
    pub path: PathBuf,
}

impl LinkSelection {
    /// Finds the link and connects.
    pub fn connect(&self) -> Result<Client> {
        if let Some(path) = &self.control {
            return Client::connect(path).with_context(|| format!("--control {}", path.display()));
        }
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Client::connect(Path::new(&path))
                .with_context(|| format!("{VARIABLE}={}", path.display()));
        }
        let mut running: Vec<Client> =
            sockets().iter().filter_map(|path| Client::connect(path).ok()).collect();
        match running.len() {
            0 => {
                let places: Vec<String> =
                    directories().iter().map(|path| path.display().to_string()).collect();
                let looked = if places.is_empty() {
                    String::new()
                } else {
                    format!(" (none in {})", places.join(", "))
                };
                bail!(
                    "no link of this user is running{looked}: `falaj run` and `falaj bridge` start one"
                )
            }
            1 => running.pop().context("just counted"),
            n => {
                let lines = running.iter().map(|c| {
                    let Hello { command, pid, about, .. } = &c.hello;
                    format!(
                        "\n  --control {}  falaj {command} {about} (pid {pid})",
                        c.path.display()
                    )
                });
                bail!("{n} links are running: select one{}", lines.collect::<String>())
            }
        }
    }
}

/// The running services of this user, by their control sockets.
pub fn services() -> Vec<Client> {
    running("serve")
}

/// The running links of this user that were started by this command.
pub fn running(command: &str) -> Vec<Client> {
    let running = sockets().into_iter().filter_map(|path| Client::connect(&path).ok());
    running.filter(|client| client.hello.command == command).collect()
}

impl Client {
    fn connect(path: &Path) -> Result<Client> {
        let stream = UnixStream::connect(path).context("no process listens at this socket")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream);
        let hello: Hello = serde_json::from_str(&line(&mut lines)?)
            .context("that is not a control socket of falaj")?;
        ensure!(
            hello.falaj == VERSION,
            "that falaj ({}) speaks version {} of the protocol, this one ({}) version {VERSION}",
            hello.release,
            hello.falaj,
            env!("CARGO_PKG_VERSION")
        );
        Ok(Client { lines, hello, path: path.to_owned() })
    }

    /// Sends a request; `fields` are its fields.
    pub fn ask<T: DeserializeOwned>(
        &mut self,
        what: &str,
        fields: Json,
    ) -> Result<Result<T, Refusal>> {
        let mut request = fields;
        request["do"] = what.into();
        self.lines
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .context("the link is gone")?;
        let mut answer: Json =
            serde_json::from_str(&line(&mut self.lines)?).context("the answer cannot be read")?;
        if answer["error"].is_null() {
            return Ok(Ok(
                serde_json::from_value(answer["ok"].take()).context("the answer cannot be read")?
            ));
        }
        Ok(
            Err(serde_json::from_value(answer["error"].take())
                .context("the answer cannot be read")?),
        )
    }

    /// Sends a request as [`ask`](Client::ask) does; a refusal is an error.
    pub fn must<T: DeserializeOwned>(&mut self, what: &str, fields: Json) -> Result<T> {
        self.ask(what, fields)?.map_err(|refusal| anyhow!("{}", refusal.what))
    }

    /// Sets values, and prints the remarks in the same form as for a file.
    pub fn set(&mut self, change: &SetRequest) -> Result<SetAnswer> {
        let request = serde_json::to_value(change)?;
        ensure!(
            request.to_string().len() < LINE,
            "the scenario is too large for a line of {LINE} bytes"
        );
        let answer = self.ask::<SetAnswer>("set", request)?;
        let tell = |remarks: &[Remark]| {
            for remark in
                remarks.iter().filter(|r| r.severity == "error" || !falaj_terminal::output::quiet())
            {
                eprintln!("{}: {}", remark.severity, remark.title);
                remark.help.iter().for_each(|line| eprintln!("  {line}"));
            }
        };
        match answer {
            Ok(made) => {
                tell(&made.remarks);
                Ok(made)
            }
            Err(Refusal { what, remarks }) => {
                tell(&remarks);
                Err(anyhow!("{what}"))
            }
        }
    }

    /// Prints a note that names the process of the link.
    pub fn tell(&self) {
        let Hello { command, pid, about, .. } = &self.hello;
        note!("falaj {command} {about} (pid {pid})");
    }
}

fn line(lines: &mut BufReader<UnixStream>) -> Result<String> {
    let mut line = String::new();
    ensure!(lines.read_line(&mut line).context("no answer")? > 0, "the link is gone");
    Ok(line)
}

/// Adds the rates since an earlier report.
pub fn add_rates(report: &mut LinksReport, before: &LinksReport) {
    let elapsed = report.elapsed_ns.saturating_sub(before.elapsed_ns);
    for rule in &mut report.rules {
        let old = before.rules.iter().find(|old| old.rule == rule.rule).map_or(0, |old| old.bytes);
        rule.rate =
            (elapsed > 0).then(|| rule.bytes.saturating_sub(old) as f64 * 8e9 / elapsed as f64);
    }
    let old = |link: &str, way: &str, name: &str| {
        let link = before.links.iter().find(|old| old.link == link)?;
        let direction = link.directions.iter().find(|old| old.way == way)?;
        direction.flows.iter().chain([&direction.total]).find(|old| old.flow == name).map(delivered)
    };
    for link in &mut report.links {
        let link_name = link.link.clone();
        for direction in &mut link.directions {
            for flow in direction.flows.iter_mut().chain([&mut direction.total]) {
                let old = old(&link_name, &direction.way, &flow.flow).unwrap_or(0);
                let bytes = delivered(flow).saturating_sub(old);
                flow.rate = (elapsed > 0).then(|| bytes as f64 * 8e9 / elapsed as f64);
            }
        }
    }
}

fn delivered(flow: &FlowReport) -> u64 {
    flow.sent_bytes.saturating_sub(flow.lost_bytes + flow.not_taken_bytes)
}
