//! Virtual machines as adapters: QEMU boots a packaged kernel whose only network card is a
//! vhost-user port of the link. In the guest, this program sends as it would in a namespace.
//!
//! A machine receives its plan over a serial line. The instants of a plan are those of this host's
//! clock. A guest has its own clock, which is read before each plan, with a resolution of 10 ms:
//! the guests begin together with this accuracy.

mod image;

use anyhow::{Context, Result, anyhow, bail};
use falaj_live::adapters::Addresses;
#[cfg(feature = "vhost-user")]
use falaj_live::backend::vhost_user::VhostUser;
use falaj_live::backend::{InterfaceState, OpenEnd};
use falaj_live::clock::monotonic;
use falaj_live::signals::end_with_this_thread;
use falaj_live::traffic::datagrams::EndPlan;
use image::{ARCHIVE, GuestFiles, QEMU};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
#[cfg(feature = "vhost-user")]
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Timeout of booting; emulated processors are slow.
const BOOT: Duration = Duration::from_secs(120);
/// Timeout of a machine's answers, and of its new connection to its card.
const ANSWER: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(10);
/// Memory of a guest in MiB, in addition to three times the size of its archive. The guest holds
/// the archive and the unpacked files; these files may take at most half of the remaining memory.
const MEMORY_MIB: u64 = 160;

/// Machines that run until this is dropped or the thread that started them ends. Their cards are
/// unplugged between experiments.
pub(crate) struct Guests {
    at: Addresses,
    /// The directory of sockets, archive and consoles.
    work: tempfile::TempDir,
    machines: Vec<Machine>,
}

struct Machine {
    child: Child,
    line: Option<BufReader<UnixStream>>,
}

/// The opened cards of the machines, for one experiment.
pub(super) struct Cards(Vec<OpenEnd>);

impl Guests {
    /// Starts this number of machines. They wait for their cards before they boot. `root` is the
    /// directory with the kernel and busybox, at the paths of the packages.
    ///
    /// # Errors
    /// The missing file or program, and the package that has it.
    pub(crate) fn start(root: &Path, number: usize) -> Result<Guests> {
        let version = Command::new(QEMU)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.map_err(|error| no_emulator(&error))?;
        let found = GuestFiles::below(root)?;
        let work = tempfile::tempdir().context("no directory for the guests' files")?;
        let archive = found.pack(work.path())?;
        let memory = MEMORY_MIB + 3 * (fs::metadata(&archive)?.len() >> 20);
        let mut guests = Guests { at: Addresses::free(), work, machines: Vec::new() };
        for n in 0..number {
            let console = fs::File::create(guests.path(n, "console"))?;
            let wanted = WantedGuest { n, kernel: &found.kernel, archive: &archive, memory };
            let mut command = Command::new(QEMU);
            command.args(guests.arguments(&wanted));
            command.stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
            end_with_this_thread(&mut command);
            let child = command.spawn().map_err(|error| no_emulator(&error))?;
            guests.machines.push(Machine { child, line: None });
        }
        Ok(guests)
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.at
    }

    fn path(&self, n: usize, what: &str) -> PathBuf {
        self.work.path().join(format!("{n}.{what}"))
    }

    fn arguments(&self, wanted: &WantedGuest) -> Vec<String> {
        arguments(wanted, self.at, &self.path(wanted.n, "card"), &self.path(wanted.n, "line"))
    }

    /// Plugs all cards in, and waits for the machines. This starts threads.
    pub(super) fn plug(&mut self) -> Result<Cards> {
        let card = |n| card(&self.path(n, "card"));
        let cards = Cards((0..self.machines.len()).map(card).collect::<Result<_>>()?);
        if self.machines.iter().any(|machine| machine.line.is_none()) {
            // All lines are connected before any of them is read: output of a machine without a
            // connected line is lost.
            for n in 0..self.machines.len() {
                let line = self.connect(n)?;
                self.machines[n].line = Some(BufReader::new(line));
            }
            for n in 0..self.machines.len() {
                if self.hear(n, "ready", BOOT)? != "1" {
                    return Err(self.failed(n, "found no card of its own"));
                }
            }
            // The archive is large, and would be left on disk if this process were killed.
            fs::remove_file(self.work.path().join(ARCHIVE))?;
        }
        let began = Instant::now();
        for (n, (card, _)) in cards.0.iter().enumerate() {
            while card.look() != Some(InterfaceState::Up) {
                if began.elapsed() > ANSWER {
                    return Err(self.failed(n, "did not take up its card"));
                }
                sleep(TURN);
            }
        }
        Ok(cards)
    }

    /// Connects to the serial line; QEMU listens there once it has its card.
    fn connect(&mut self, n: usize) -> Result<UnixStream> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(self.path(n, "line")) {
                Ok(line) => return Ok(line),
                Err(_)
                    if self.machines[n].child.try_wait()?.is_none() && began.elapsed() < BOOT =>
                {
                    sleep(TURN);
                }
                Err(_) => return Err(self.failed(n, "did not begin")),
            }
        }
    }

    /// Sends a plan to a machine, which executes it.
    pub(super) fn send(&mut self, n: usize, plan: &EndPlan) -> Result<()> {
        let asked = monotonic();
        self.say(n, b"clock")?;
        let there = self.hear(n, "clock", ANSWER)?;
        let here = asked.midpoint(monotonic());
        let there = nanos(&there).ok_or_else(|| self.failed(n, "has no clock"))?;
        let zero = plan.zero.wrapping_sub(here).wrapping_add(there);
        self.say(n, &serde_json::to_vec(&EndPlan { zero, ..plan.clone() })?)
    }

    /// Checks after the last packet that a machine has executed its plan.
    pub(super) fn done(&mut self, n: usize) -> Result<()> {
        match &self.hear(n, "done", ANSWER)?[..] {
            "0" => Ok(()),
            fault => Err(self.failed(n, &format!("could not send: {fault}"))),
        }
    }

    fn say(&mut self, n: usize, what: &[u8]) -> Result<()> {
        let line = self.machines[n].line.as_mut().context("a line to a guest")?.get_mut();
        line.write_all(what)
            .and_then(|()| line.write_all(b"\n"))
            .map_err(|_| self.failed(n, "is gone"))
    }

    /// Waits for a line that begins with this word, and returns the rest of the line.
    fn hear(&mut self, n: usize, word: &str, at_most: Duration) -> Result<String> {
        let line = self.machines[n].line.as_mut().context("a line to a guest")?;
        line.get_ref().set_read_timeout(Some(at_most))?;
        let mut said = String::new();
        loop {
            said.clear();
            match line.read_line(&mut said) {
                Ok(0) => return Err(self.failed(n, "is gone")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(self.failed(n, "is gone"));
                }
                Err(_) => {
                    return Err(self.failed(n, &format!("did not say `{word}` within {at_most:?}")));
                }
            }
            if let Some(rest) = said.trim().strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
        }
    }

    /// An error with the last lines of the console of the guest and its emulator.
    fn failed(&self, n: usize, what: &str) -> anyhow::Error {
        let console = fs::read(self.path(n, "console")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let end = lines[lines.len().saturating_sub(20)..].join("\n");
        anyhow!("guest {} {what}; its console ends with:\n{end}", n + 1)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            // The process may have ended already.
            let _ = machine.child.kill();
            let _ = machine.child.wait();
        }
    }
}

impl Cards {
    /// The port of a machine's card, without old packets of an earlier experiment in its rings.
    pub(super) fn port(&self, n: usize) -> Result<Box<dyn falaj_live::backend::port::Port>> {
        let Some((card, _)) = self.0.get(n) else { bail!("there are {} guests", self.0.len()) };
        let mut port = card.port()?;
        let mut unit = vec![0; port.longest()];
        let mut silent = Instant::now();
        while silent.elapsed() < 2 * TURN {
            if port.receive(&mut unit)?.is_some() {
                silent = Instant::now();
            }
        }
        Ok(port)
    }
}

#[cfg(feature = "vhost-user")]
fn card(path: &Path) -> Result<OpenEnd> {
    let (card, monitor) = VhostUser::listen(path).context("no socket for a guest's card")?;
    Ok((Box::new(Rc::new(card)), monitor))
}

#[cfg(not(feature = "vhost-user"))]
fn card(_path: &Path) -> Result<OpenEnd> {
    bail!("this program was built without guests' network cards (cargo feature `vhost-user`)")
}

fn no_emulator(error: &std::io::Error) -> anyhow::Error {
    anyhow!(
        "cannot start {QEMU} ({error}): install the package qemu-system-x86, or leave --guests out"
    )
}

/// Parses seconds such as `12.34` into nanoseconds.
fn nanos(seconds: &str) -> Option<u64> {
    let (whole, parts) = seconds.split_once('.')?;
    let parts: u64 = format!("{parts:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(parts)
}

/// A machine to be started.
struct WantedGuest<'a> {
    n: usize,
    kernel: &'a Path,
    archive: &'a Path,
    memory: u64,
}

/// The arguments of a machine's emulator. The card has no MSI-X: QEMU 7.2 crashes with MSI-X if the
/// card's back-end is in another process and there is no KVM. Nested KVM is not used, because it
/// may not report its capabilities.
fn arguments(wanted: &WantedGuest, at: Addresses, card: &Path, line: &Path) -> Vec<String> {
    let place = Addresses::UPLINK + 1 + wanted.n as u8;
    let mac = |place| at.mac(place).map(|byte| format!("{byte:02x}")).join(":");
    let (memory, card, line) = (wanted.memory, card.display(), line.display());
    let all = [
        "-nodefaults -no-user-config -display none -no-reboot -accel tcg -cpu max".to_owned(),
        format!("-m {memory} -object memory-backend-memfd,id=memory,size={memory}M,share=on"),
        "-machine q35,memory-backend=memory -serial stdio".into(),
        format!("-chardev socket,id=line,path={line},server=on,wait=off -serial chardev:line"),
        format!(
            "-chardev socket,id=card,path={card},reconnect=1 -netdev vhost-user,id=net,chardev=card"
        ),
        format!("-device virtio-net-pci,vectors=0,netdev=net,mac={}", mac(place)),
    ];
    let mut words: Vec<String> =
        all.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
    let told = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 address={} uplink={} mac={}",
        at.address(place),
        at.address(Addresses::UPLINK),
        mac(Addresses::UPLINK)
    );
    for (option, value) in [
        ("-kernel", wanted.kernel.display().to_string()),
        ("-initrd", wanted.archive.display().to_string()),
        ("-append", told),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_its_card_its_addresses_and_its_memory() {
        let wanted = WantedGuest {
            n: 1,
            kernel: Path::new("/boot/vmlinuz"),
            archive: Path::new("/w/initrd"),
            memory: 300,
        };
        let at = Addresses::default();
        let words = arguments(&wanted, at, Path::new("/w/1.card"), Path::new("/w/1.line"));
        let behind = |option: &str| {
            let at = words.iter().position(|word| word == option).expect(option);
            words[at + 1].clone()
        };
        assert_eq!(behind("-m"), "300");
        assert!(
            behind("-object").ends_with("size=300M,share=on"),
            "a back-end reads rings in memory that is shared"
        );
        assert!(behind("-device").ends_with(&format!("mac=02:fa:1a:{:02x}:02:03", at.mac(1)[3])));
        assert!(words.contains(&"socket,id=card,path=/w/1.card,reconnect=1".to_owned()));
        assert_eq!(behind("-kernel"), "/boot/vmlinuz");
        let append = behind("-append");
        assert!(
            append.contains(&format!("address={} uplink={} ", at.address(3), at.address(1))),
            "{append}"
        );
    }

    #[test]
    fn a_clock_is_read_in_seconds() {
        assert_eq!(nanos("12.34"), Some(12_340_000_000));
        assert_eq!(nanos("0.05"), Some(50_000_000));
        assert_eq!(nanos("now"), None);
    }
}
