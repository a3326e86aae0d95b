//! The time from a change of a weight over HTTP to the first packets on the wire that are sent by
//! the new weight.
//!
//! Two adapters are always backlogged with packets of one size. While their weights are equal,
//! their packets alternate; with eight times the weight, one of them sends several packets in a
//! row. So the first packets in a row, or the first packets that alternate again, are sent by the
//! new weight.

use super::fixture::{Fixture, Outside, adapter_of, ask, unit};
use anyhow::{Context, Result, ensure};
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ADAPTERS: u32 = 16;
const PAYLOAD: usize = 958;
/// Packets that each of the two adapters sends in a millisecond. The link carries 12.5 packets in a
/// millisecond.
const BATCH: u32 = 13;
/// While the weights are equal, no adapter sends this number of packets in a row.
const ROW: usize = 4;

/// The result of the measurement.
pub(super) struct Effect {
    /// Time from before the request to the first packets on the wire that are sent by the new
    /// weight.
    pub(super) wire: Meter,
    /// Time from the request to the answer.
    pub(super) answers: Meter,
}

fn text() -> String {
    let mut text =
        "[link.uplink]\nrate = \"100mbit\"\nuplink = \"far\"\nscheduler = { kind = \"wf2q+\" }\n"
            .to_owned();
    for n in 0..ADAPTERS {
        let _ = write!(
            text,
            "\n[link.uplink.flow.a{n}]\nadapter = \"b{n}\"\nweight = 1\nqueue = \"400p\"\n"
        );
    }
    text
}

/// A change that was made: true if the new weight is the larger one, the time of the request, and
/// the time of the answer.
struct Made {
    larger: bool,
    asked: Instant,
    answered: Instant,
}

/// Arrival times of packets, each with true if the packet is from the adapter whose weight changes.
type Came = Vec<(Instant, bool)>;

pub(super) fn measure(changes: u32) -> Result<Effect> {
    let (mut stand, outside) = Fixture::new(text(), ADAPTERS)?;
    let Outside { adapters, uplink, http } = &outside;
    let over = AtomicBool::new(false);
    let (made, came) = std::thread::scope(|scope| -> Result<(Vec<Made>, Came)> {
        scope.spawn(|| {
            let units = [0, 1].map(|adapter| unit(adapter, 0, PAYLOAD));
            while !over.load(Ordering::Relaxed) {
                for _ in 0..BATCH {
                    // Packets that do not fit into the socket are dropped.
                    units.iter().zip(adapters).for_each(|(unit, adapter)| drop(adapter.send(unit)));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let receiving = scope.spawn(|| -> Result<Came> {
            uplink.set_nonblocking(false)?;
            uplink.set_read_timeout(Some(Duration::from_millis(20)))?;
            let (mut buffer, mut came) = ([0; 2048], Vec::new());
            while !over.load(Ordering::Relaxed) {
                if let Ok(length) = uplink.recv(&mut buffer) {
                    came.push((Instant::now(), adapter_of(&buffer[..length]) == Some(0)));
                }
            }
            Ok(came)
        });
        let client = scope.spawn(|| -> Result<Vec<Made>> {
            std::thread::sleep(Duration::from_millis(500));
            let mut made = Vec::new();
            for n in 0..changes {
                let larger = n % 2 == 0;
                let asked = Instant::now();
                let body = format!("{{\"weight\": {}}}", if larger { 8 } else { 1 });
                let (status, ..) = ask(http, "PATCH", "/v1/adapters/a0", &body)?;
                ensure!(status == 200, "a change of weight was answered by {status}");
                made.push(Made { larger, asked, answered: Instant::now() });
                // The changes have varying offsets from the work that the service does once a
                // second.
                std::thread::sleep(Duration::from_millis(100 + u64::from(n % 7) * 13));
            }
            Ok(made)
        });
        while !client.is_finished() {
            stand.run(Span::from_millis(20))?;
        }
        over.store(true, Ordering::Relaxed);
        let made = client.join().ok().context("the client failed")??;
        Ok((made, receiving.join().ok().context("the receiver failed")??))
    })?;
    stand.end();
    let (mut wire, mut answers) = (Meter::new(), Meter::new());
    let nanos = |time: Duration| Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    for Made { larger, asked, answered } in made {
        answers.record(nanos(answered - asked));
        let from = came.partition_point(|(at, _)| *at < asked);
        let is_by = |packets: &&[(Instant, bool)]| {
            let changes = packets.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
            if larger { packets.iter().all(|(_, first)| *first) } else { changes == ROW - 1 }
        };
        let first =
            came[from..].windows(ROW).find(is_by).context("no packet came by the new weight")?;
        wire.record(nanos(first[ROW - 1].0 - asked));
    }
    Ok(Effect { wire, answers })
}
