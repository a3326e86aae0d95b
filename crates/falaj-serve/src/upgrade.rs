//! `falaj serve --upgrade`: a new process takes over a running service with its ports, its sockets,
//! its packets and its counters. No packet is lost.
//!
//! The service listens for upgrades beside its control socket. The protocol has messages with a
//! length prefix:
//!
//! ```text
//!  new                              running
//!   | version ----------------------> |  packets pass
//!   | <-- what runs, descriptors ---- |
//!   | (prepares itself)               |
//!   | ready ------------------------> |  stops reading
//!   | <-- packets, times, counters -- |
//!   | taken ------------------------> |
//!   | <-- go ------------------------ |  ends
//! ```
//!
//! If anything fails before `go`, the running service continues. Possible causes are a state of
//! another version, a port that cannot be handed over, and a new process that ends or takes too
//! long. Packets that no process reads meanwhile wait in the kernel, at the ports.

use crate::manager;
use anyhow::{Context, Result, anyhow, bail, ensure};
use falaj_control::client::services;
use falaj_control::handler::{Handler, Offer, lock};
use falaj_control::running::WholeState;
use falaj_control::sockets;
use falaj_live::adapters::Adapters;
use falaj_live::event_loop::Forwarder;
use falaj_live::passing::{receive, receive_descriptors, send, send_descriptors};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{info, warn};

/// Version of the protocol. A process with another version is refused before anything stops.
const VERSION: u32 = 2;
/// Maximum time for the new process to prepare itself; changes are not possible meanwhile.
const PREPARING: Duration = Duration::from_secs(20);
/// Maximum time until the new process has taken over the packets.
const TAKING: Duration = Duration::from_secs(2);
/// The environment variable that is set if a supervisor restarts the service.
pub(super) const SUPERVISED: &str = "FALAJ_SUPERVISED";

/// The request of a new process.
#[derive(Serialize, Deserialize)]
struct Asking {
    version: u32,
    release: String,
    pid: u32,
}

/// The answer of the running service.
#[derive(Serialize, Deserialize)]
enum Reply {
    Refused(String),
    Offered(Offered),
}

/// The data on a running service. Its descriptors follow: the control socket, the upgrade socket,
/// the API's socket, the TCP listener if there is one, and the descriptors of the ports.
#[derive(Serialize, Deserialize)]
struct Offered {
    pid: u32,
    text: String,
    zero: u64,
    api: PathBuf,
    tcp: Option<SocketAddr>,
    ports: Vec<(String, usize)>,
}

/// The messages without contents.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
enum Word {
    Ready,
    Taken,
    Go,
}

/// The path of the socket at which a service listens for upgrades.
pub(super) fn beside(control: &Path) -> PathBuf {
    control.with_extension("upgrade")
}

/// Returns the command line of the new process, which takes over from this process. The program is
/// the file that now has this program's name. The result is empty if that name is not known.
pub(super) fn command() -> Vec<OsString> {
    let Ok(program) = std::env::current_exe() else { return Vec::new() };
    let words = std::env::args_os().skip(1).filter(|word| word != "--upgrade");
    [program.into_os_string()].into_iter().chain(words).chain(["--upgrade".into()]).collect()
}

fn say<T: Serialize>(stream: &UnixStream, what: &T) -> Result<()> {
    Ok(send(stream, &postcard::to_stdvec(what)?)?)
}

fn hear<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> Result<T> {
    Ok(postcard::from_bytes(&receive(stream)?)?)
}

/// The sockets of a service.
pub(super) struct Sockets {
    pub(super) control: UnixListener,
    pub(super) upgrade: UnixListener,
    pub(super) api: UnixListener,
    pub(super) api_path: PathBuf,
    pub(super) tcp: Option<TcpListener>,
}

/// A running service that is replaced by a new process.
pub(super) struct Predecessor {
    stream: UnixStream,
    pid: u32,
    /// The text of the running scenario.
    pub(super) text: String,
    /// Path of its control socket.
    pub(super) control: PathBuf,
    /// Zero point of its clock, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) zero: u64,
    pub(super) sockets: Option<Sockets>,
    /// Descriptors by adapter, with the empty name for the uplink.
    pub(super) ports: BTreeMap<String, Vec<OwnedFd>>,
}

impl Predecessor {
    /// Requests the scenario and the descriptors of the service at this control socket, or, without
    /// a socket, of the service that runs this file.
    ///
    /// # Errors
    /// There is no such service, or it refuses; the error has its reason.
    pub(super) fn ask(control: Option<PathBuf>, file: &Path) -> Result<Predecessor> {
        let control = control.map_or_else(|| find(file), Ok)?;
        let place = beside(&control);
        let stream = UnixStream::connect(&place).with_context(|| {
            format!("{}: no service listens there: start it without --upgrade", place.display())
        })?;
        stream.set_read_timeout(Some(PREPARING))?;
        stream.set_write_timeout(Some(PREPARING))?;
        let release = env!("CARGO_PKG_VERSION").to_owned();
        say(&stream, &Asking { version: VERSION, release, pid: std::process::id() })?;
        let unread = || "the running service does not answer as this version would";
        let offered = match hear(&stream).with_context(unread)? {
            Reply::Offered(offered) => offered,
            Reply::Refused(why) => bail!("the running service continues: {why}"),
        };
        let Offered { pid, text, zero, api, tcp, ports } = offered;
        let sockets = 3 + usize::from(tcp.is_some());
        let number = ports.iter().map(|(_, number)| number).sum::<usize>();
        let mut all = receive_descriptors(&stream, sockets + number)?.into_iter();
        let mut next = || all.next().context("a descriptor is missing");
        let sockets = Sockets {
            control: next()?.into(),
            upgrade: next()?.into(),
            api: next()?.into(),
            api_path: api,
            tcp: tcp.map(|_| next().map(TcpListener::from)).transpose()?,
        };
        let ports = ports
            .into_iter()
            .map(|(name, number)| {
                Ok((name, (0..number).map(|_| next()).collect::<Result<Vec<_>>>()?))
            })
            .collect::<Result<_>>()?;
        Ok(Predecessor { stream, pid, text, control, zero, sockets: Some(sockets), ports })
    }

    /// Takes over the service's packets, and returns the names of its paused adapters. After this
    /// the old process ends.
    ///
    /// # Errors
    /// The takeover failed; the running service continues.
    pub(super) fn take(
        self,
        forwarder: &mut Forwarder,
        adapters: &Adapters,
    ) -> Result<BTreeSet<String>> {
        say(&self.stream, &Word::Ready)?;
        let (link, fleet): WholeState = match hear(&self.stream)? {
            Ok(state) => state,
            Err(why) => {
                let why: String = why;
                bail!("the running service continues: {why}")
            }
        };
        let (packets, stopped) = (link.packets(), link.at());
        let paused: BTreeSet<String> = fleet.paused().map(str::to_owned).collect();
        for name in &paused {
            adapters.pause(name, true)?;
        }
        forwarder.resume(link, adapters.resume(fleet))?;
        say(&self.stream, &Word::Taken)?;
        let go: Word = hear(&self.stream).context("the running service continues")?;
        ensure!(go == Word::Go, "the running service sent an unexpected message instead of `go`");
        let pause = forwarder.clock().now().since(stopped);
        info!(
            packets,
            pause_ns = pause.0,
            "took over from process {} with {packets} packets, after {pause}",
            self.pid
        );
        Ok(paused)
    }
}

/// Returns the control socket of the service that runs this file.
fn find(file: &Path) -> Result<PathBuf> {
    let about = file.display().to_string();
    let mut running = services();
    running.retain(|service| service.hello.about == about);
    match &running[..] {
        [one] => Ok(one.path.clone()),
        [] => bail!(
            "no service of {about} is running: start it without --upgrade, or say by --control \
             where its control socket is"
        ),
        more => {
            let places: Vec<String> =
                more.iter().map(|service| service.path.display().to_string()).collect();
            bail!(
                "several services of {about} are running, at {}: choose one by --control",
                places.join(", ")
            )
        }
    }
}

/// The thread that hands a service over to a new process.
pub(super) struct HandingOver {
    stop: PipeWriter,
    thread: JoinHandle<Option<u32>>,
    path: PathBuf,
}

/// The service that the thread hands over.
struct RunningService {
    handler: Arc<Mutex<Handler>>,
    sockets: Sockets,
}

impl HandingOver {
    pub(super) fn begin(
        handler: Arc<Mutex<Handler>>,
        sockets: Sockets,
        control: &Path,
    ) -> Result<HandingOver> {
        let (service, path) = (RunningService { handler, sockets }, beside(control));
        let (stopped, stop) = std::io::pipe()?;
        let work = move || wait(&service, &stopped);
        let thread = std::thread::Builder::new().name("upgrade".into()).spawn(work)?;
        Ok(HandingOver { stop, thread, path })
    }

    /// Ends the thread, and removes the socket unless a new process has it.
    pub(super) fn end(self) {
        drop(self.stop);
        if self.thread.join().ok().flatten().is_none() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Handles requests until the thread is stopped, or a new process takes over. Returns the id of the
/// new process, if there is one.
fn wait(service: &RunningService, stopped: &PipeReader) -> Option<u32> {
    let listener = &service.sockets.upgrade;
    loop {
        let mut watched =
            [stopped.as_fd(), listener.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        if poll(&mut watched, PollTimeout::NONE).is_err() {
            continue;
        }
        if watched[0].any().unwrap_or(true) {
            return None;
        }
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        match hand_over(service, &stream) {
            Ok(successor) => {
                info!("process {successor} has taken over");
                return Some(successor);
            }
            Err(error) => warn!("the upgrade failed: {error:#}; the service continues unchanged"),
        }
    }
}

fn hand_over(service: &RunningService, stream: &UnixStream) -> Result<u32> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PREPARING))?;
    stream.set_write_timeout(Some(TAKING))?;
    let asking: Asking = hear(stream)
        .context("the new process speaks another protocol, has ended or does not answer")?;
    let refuse = |why: String| -> Result<u32> {
        say(stream, &Reply::Refused(why.clone()))?;
        bail!(why)
    };
    if asking.version != VERSION {
        return refuse(format!(
            "this service speaks version {VERSION} of the upgrade protocol, falaj {} version {}: \
             end the service, then start the new one",
            asking.release, asking.version
        ));
    }
    if std::env::var_os(SUPERVISED).is_some() {
        return refuse(
            "a supervisor (--fail-open) restarts this service, and would start a second one".into(),
        );
    }
    // No changes are accepted from here on.
    let mut handler = lock(&service.handler);
    let Offer { text, zero, ports } = match handler.offer() {
        Ok(offer) => offer,
        Err(refusal) => return refuse(refusal.what),
    };
    let Sockets { control, upgrade, api, api_path, tcp } = &service.sockets;
    let offered = Offered {
        pid: std::process::id(),
        text,
        zero,
        api: api_path.clone(),
        tcp: tcp.as_ref().map(TcpListener::local_addr).transpose()?,
        ports: ports.iter().map(|(name, all)| (name.clone(), all.len())).collect(),
    };
    say(stream, &Reply::Offered(offered))?;
    let sockets = [control.as_fd(), upgrade.as_fd(), api.as_fd()].into_iter();
    let sockets = sockets.chain(tcp.as_ref().map(AsFd::as_fd));
    let ports = ports.iter().flat_map(|(_, all)| all).map(AsFd::as_fd);
    send_descriptors(stream, &sockets.chain(ports).collect::<Vec<_>>())?;
    let ready: Word = hear(stream).context("the new process has ended or does not answer")?;
    ensure!(ready == Word::Ready, "the new process sent an unexpected message instead of `ready`");
    stream.set_read_timeout(Some(TAKING))?;
    let (tell, told) = channel();
    let (stream, successor) = (stream.try_clone()?, asking.pid);
    let go_on = move |state| {
        let given = give(&stream, &state);
        let gone = given.is_ok();
        if gone {
            // The service manager accepts this notification only from the process that it regards
            // as the service.
            manager::followed_by(successor);
        }
        let _ = tell.send(given);
        gone
    };
    handler.hand_over(go_on).map_err(|refusal| anyhow!(refusal.what))?;
    told.recv().context("the link is gone")??;
    Ok(successor)
}

/// Sends the state of the stopped link to the new process. On success, the new process has taken
/// over.
fn give(stream: &UnixStream, state: &Result<WholeState, String>) -> Result<()> {
    say(stream, state)?;
    if let Err(why) = state {
        bail!(why.clone());
    }
    let taken: Word = hear(stream).context("the new process has not taken the packets")?;
    ensure!(taken == Word::Taken, "the new process sent an unexpected message instead of `taken`");
    say(stream, &Word::Go).context("the new process has ended or does not answer")
}

/// Listens for upgrades of the service at this control socket.
pub(super) fn listen(control: &Path) -> Result<UnixListener> {
    let place = beside(control);
    sockets::bind(&place).with_context(|| format!("cannot listen at {}", place.display()))
}
