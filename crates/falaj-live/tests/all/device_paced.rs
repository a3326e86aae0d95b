//! The live loop with a device that paces its link: a socket whose other end is read when the
//! device sends. No namespace is needed.

use falaj_engine::change::Prepared;
use falaj_engine::pipe::{Pace, PipeSpec};
use falaj_engine::transaction::Transaction;
use falaj_engine::{ChangeError, Engine, PipeId};
use falaj_live::backend::port::{Port, PortHandover, Received};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Attached, Forwarder, LiveLosses, LoopActivity, Options, Woken};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use nix::libc;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use std::{io, thread};

const SIZE: usize = 1514;
const FLOW: FlowId = FlowId(0);

/// The port of a device; the first four bytes of a unit are its number.
struct Device {
    socket: UnixDatagram,
    says_room: bool,
    /// Number of times that each unit finds no memory before it is taken.
    wants_memory: u32,
    wanted: u32,
}

impl Port for Device {
    fn name(&self) -> String {
        "The device".into()
    }
    fn longest(&self) -> usize {
        SIZE
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self.socket.recv(buffer) {
            Ok(length) => Ok(Some(Received::packet(length, length as u32, Some(FLOW)))),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        if self.wanted < self.wants_memory {
            self.wanted += 1;
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        self.wanted = 0;
        Ok(self.socket.send(unit)? == unit.len())
    }
    fn says_room(&self) -> bool {
        self.says_room
    }
    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl PortHandover for Device {}

/// A pipe on which each packet takes 121 us.
fn pipe(pace: Pace) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(100_000))];
    let rate = Rate::from_mbit(100);
    let setup = Setup { rate, largest: SIZE as u32, scheduler: Values::default(), flows };
    PipeSpec { pace, ..PipeSpec::new("fifo", setup, Span::ZERO) }
}

const fn device(packets: u32) -> Pace {
    Pace::Device { backlog: packets * SIZE as u32 }
}

/// Two ports, and the sockets behind them.
fn link(
    pace: Pace,
    says_room: bool,
    wants_memory: u32,
) -> io::Result<(Forwarder, [UnixDatagram; 2])> {
    let clock = Clock::from_zero(monotonic());
    let pipes = [pipe(pace), pipe(Pace::Falaj)];
    let engine = Engine::new(&pipes).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    let (mut ports, mut behind) = (Vec::new(), Vec::new());
    for i in 0..2 {
        let (socket, outside) = UnixDatagram::pair()?;
        socket.set_nonblocking(true)?;
        let port = Device {
            socket,
            says_room,
            wants_memory: if i == 1 { wants_memory } else { 0 },
            wanted: 0,
        };
        ports.push(Attached { port: Box::new(port), pipe: PipeId(i), leaves_at: 1 - i as usize });
        behind.push(outside);
    }
    let behind = behind.try_into().expect("two");
    Ok((Forwarder::new(clock, engine, ports, Options::default()), behind))
}

/// Sends `packets` packets through the link, as its queue has room. The device at the far end takes
/// the time `each` for a packet. Returns the order of arrival, and the activity of the loop.
fn pass(
    (mut forwarder, [near, far]): (Forwarder, [UnixDatagram; 2]),
    packets: u32,
    each: Duration,
) -> io::Result<(Vec<u32>, LoopActivity)> {
    let sender = thread::spawn(move || -> io::Result<()> {
        let mut unit = vec![0; SIZE];
        (0..packets).try_for_each(|number| {
            unit[..4].copy_from_slice(&number.to_le_bytes());
            near.send(&unit).map(drop)
        })
    });
    let receiver = thread::spawn(move || -> io::Result<Vec<u32>> {
        let mut unit = vec![0; SIZE];
        let number = |_| {
            far.recv(&mut unit)?;
            thread::sleep(each);
            Ok(u32::from_le_bytes(unit[..4].try_into().expect("four bytes")))
        };
        (0..packets).map(number).collect()
    });
    let clock = forwarder.clock();
    for _ in 0..2_000 {
        assert_eq!(forwarder.run(clock.now() + Span::from_millis(5), &[])?, Woken::Deadline);
        if sender.is_finished() && forwarder.is_empty() {
            break;
        }
    }
    sender.join().expect("it sends")?;
    let came = receiver.join().expect("it receives")?;
    assert_eq!(forwarder.losses(), LiveLosses::default());
    let counters = forwarder.counters(PipeId(0), FLOW);
    assert_eq!((counters.sent, counters.dropped(), counters.backlog), (packets.into(), 0, 0));
    assert_eq!(forwarder.flows()[0][0].release_error.count(), u64::from(packets));
    Ok((came, forwarder.awake()))
}

/// The device takes three times as long for a packet as its rate implies, and ten packets wait in
/// its socket.
#[test]
fn what_a_slow_device_refuses_is_kept_in_its_order() -> io::Result<()> {
    for backlog in [1, 4, 40] {
        let (mut forwarder, ends) = link(device(backlog), true, 0)?;
        forwarder.pace()?;
        let (came, awake) = pass((forwarder, ends), 400, Duration::from_micros(360))?;
        assert_eq!(came, (0..400).collect::<Vec<_>>());
        assert!(awake.refused > 0 && awake.by_room > 0, "{awake:?}");
    }
    Ok(())
}

#[test]
fn without_reports_of_room_sending_is_tried_again() -> io::Result<()> {
    let (mut forwarder, ends) = link(device(4), true, 2)?;
    forwarder.pace()?;
    let (came, awake) = pass((forwarder, ends), 100, Duration::ZERO)?;
    assert_eq!(came, (0..100).collect::<Vec<_>>());
    assert!(awake.refused >= 20, "{awake:?}");
    Ok(())
}

/// A device that is as fast as its rate refuses nothing, and the loop wakes up once for many
/// packets.
#[test]
fn a_device_is_handed_many_packets_at_one_wake_up() -> io::Result<()> {
    let (mut forwarder, ends) = link(device(20), true, 0)?;
    forwarder.pace()?;
    let (came, awake) = pass((forwarder, ends), 2_000, Duration::ZERO)?;
    assert_eq!(came, (0..2_000).collect::<Vec<_>>());
    // At least half of the device's backlog is handed over at once, which makes 200 wake-ups; other
    // wake-ups depend on the host.
    assert!(awake.by_timer + awake.by_room < 2_000 / 4, "{awake:?}");
    // The link takes 242 ms, and the loop does not spin before a refill.
    assert!(awake.spun < Span::from_millis(242 / 2), "{awake:?}");
    Ok(())
}

#[test]
fn a_port_that_does_not_say_when_it_has_room_paces_nothing() -> io::Result<()> {
    let (mut forwarder, _ends) = link(device(20), false, 0)?;
    let error = forwarder.pace().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(
        error.to_string().starts_with("The device: the interface does not say when it has room"),
        "{error}"
    );
    // A change must not make the device pace the link either; other changes are accepted.
    let (mut forwarder, _ends) = link(Pace::Falaj, false, 0)?;
    forwarder.pace()?;
    let change = |spec: PipeSpec| {
        let change = falaj_engine::change::PipeChange::new(PipeId(0), spec);
        let engine = Prepared::new(&[change]).unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
        let order = vec![PipeId(0), PipeId(1)];
        Transaction { engine, flows: Vec::new(), ingress: Vec::new(), rules: None, order }
    };
    assert_eq!(forwarder.change(change(pipe(device(20)))).map(|_| ()), Err(ChangeError::Unpaced));
    assert!(forwarder.change(change(pipe(Pace::Falaj))).is_ok());
    assert_eq!(forwarder.run(Time::ZERO, &[])?, Woken::Deadline);
    Ok(())
}
