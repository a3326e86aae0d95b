//! A service in memory: all parts are those of the real service, except that an adapter's port is a
//! socket of this process.

use super::super::published::Published;
use super::super::{api, model, ports, watch};
use anyhow::{Context, Result, ensure};
use falaj_control::endpoint::Control;
use falaj_control::running::Running;
use falaj_control::terms::terms;
use falaj_live::adapters::{Adapters, Opener};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Forwarder, Options, Woken};
use falaj_live::wiring;
use falaj_plan::standing::standings;
use falaj_sched::units::time::Span;
use falaj_terminal::file;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Length of a packet's headers in bytes: Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 28;

/// The service; its link runs during calls of [`Fixture::run`].
pub(super) struct Fixture {
    pub(super) forwarder: Forwarder,
    control: Control,
    watching: watch::Watching,
    serving: api::Serving,
    _directory: tempfile::TempDir,
}

/// The far ends of the service's ports and the path of its API, for other threads.
pub(super) struct Outside {
    /// Sockets by adapter.
    pub(super) adapters: Vec<UnixDatagram>,
    pub(super) uplink: UnixDatagram,
    pub(super) http: PathBuf,
}

impl Fixture {
    /// Creates a service of this scenario. Its adapters are called `a0`, `a1` and so on. The
    /// process must be single-threaded.
    pub(super) fn new(text: String, adapters: u32) -> Result<(Fixture, Outside)> {
        open_files(u64::from(adapters) * 2 + 200)?;
        let parsed = file::parse(&text, "bench serve")?;
        let guaranteed = standings(&parsed)?;
        let opener = Opener::start()?;
        let all = Adapters::new()?;
        let mut inside = Vec::new();
        for n in 0..adapters {
            let (port, socket) = wiring::unit_port(&format!("adapter a{n}"))?;
            all.add(&format!("a{n}"), port, Some(mac(n)))?;
            inside.push(socket);
        }
        let (uplink, outside) = wiring::unit_port("the uplink")?;
        let clock = Clock::from_zero(monotonic());
        let mut forwarder =
            wiring::to_adapters(&parsed.network(), &all, uplink, clock, Options::default())?;
        forwarder.set_guarantees(terms(&parsed, &guaranteed));
        forwarder.log_occupancy();
        let directory = tempfile::tempdir()?;
        let (place, http) = (directory.path().join("control"), directory.path().join("http"));
        let (beside, preparer) = ports::changing(&all, opener, &parsed)?;
        let running = Running {
            command: "serve",
            about: "bench".into(),
            file: PathBuf::from("bench"),
            scenario: Arc::new(parsed),
            text,
            recording: false,
            standings: Some(Arc::new(guaranteed)),
        };
        let mut control = Control::open(Some(&place), running)?;
        control.change_with(beside, preparer);
        let handler = control.handler().context("the control socket is open")?;
        let published = Published::new();
        let watching = watch::Watching::begin(Arc::clone(&handler), Arc::clone(&published), place)?;
        let told = model::Service::new(Path::new("bench"), BTreeMap::new());
        let listeners = api::listen(&http, None, None)?;
        let serving =
            api::Serving::begin(listeners, api::App::new(handler, published, told, None))?;
        let stand = Fixture { forwarder, control, watching, serving, _directory: directory };
        Ok((stand, Outside { adapters: inside, uplink: outside, http }))
    }

    /// Runs the link for the time `long`.
    pub(super) fn run(&mut self, long: Span) -> Result<()> {
        let end = self.forwarder.clock().now() + long;
        loop {
            let fd = self.control.as_fd().context("the control socket is open")?;
            match self.forwarder.run(end, &[fd])? {
                Woken::Deadline => return Ok(()),
                _ => drop(self.control.serve(&mut self.forwarder)?),
            }
        }
    }

    pub(super) fn end(self) {
        drop(self.control);
        self.serving.end(false);
        self.watching.end();
    }
}

/// Raises the limit of open files of this process to at least `wanted`.
fn open_files(wanted: u64) -> Result<()> {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        wanted <= most,
        "{wanted} open files are needed, and {most} allowed: raise `ulimit -Hn`"
    );
    Ok(setrlimit(Resource::RLIMIT_NOFILE, wanted.max(now), most)?)
}

fn mac(n: u32) -> [u8; 6] {
    let [a, b, c, d] = n.to_be_bytes();
    [2, 0xfa, a, b, c, d]
}

/// A unit of one conversation of an adapter: the header of a unit (12 bytes), and a frame with
/// `payload` bytes of payload.
pub(super) fn unit(adapter: u32, conversation: u32, payload: usize) -> Vec<u8> {
    let mut unit = vec![0; 12];
    unit.extend([2, 0, 0, 0, 0, 0xfe]);
    unit.extend(mac(adapter));
    unit.extend([0x08, 0]);
    let [high, low] = ((28 + payload) as u16).to_be_bytes();
    unit.extend([0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0]);
    let [_, a, b, c] = adapter.to_be_bytes();
    unit.extend([10, a, b, c, 10, 255, 255, 1]);
    unit.extend((1_024 + conversation as u16).to_be_bytes());
    unit.extend(9u16.to_be_bytes());
    unit.extend((8 + payload as u16).to_be_bytes());
    unit.extend([0, 0]);
    unit.resize(12 + HEADERS + payload, 0);
    unit
}

/// The number of the adapter that a unit belongs to.
pub(super) fn adapter_of(unit: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(unit.get(20..24)?.try_into().ok()?))
}

/// Sends a request to the API; returns the status, the response time, and the length of the body.
pub(super) fn ask(
    api: &Path,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, Duration, usize)> {
    let began = Instant::now();
    let mut stream = UnixStream::connect(api)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let status = answer
        .get(9..12)
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .unwrap_or(0);
    Ok((status, began.elapsed(), answer.len()))
}
