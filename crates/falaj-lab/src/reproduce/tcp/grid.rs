//! The grid: links, queues and congestion controls, and the duration of each cell.

use falaj_sched::units::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a full frame without its check sequence, as the link accounts it.
pub(super) const FRAME: u32 = 1514;
/// Bytes of the frame of an acknowledgement with a timestamp.
const ACK: u64 = 66;
/// With random losses: number of losses in a period, and maximum number of counted segments.
const LOSSES: f64 = 15.0;
const MOST: f64 = 30_000.0;
/// Number of parts into which the time with two connections is divided.
pub(super) const PARTS: u64 = 24;

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Congestion {
    Reno,
    Cubic,
    Dctcp,
    Bbr,
}

impl Congestion {
    pub(super) const ALL: [Congestion; 4] =
        [Congestion::Reno, Congestion::Cubic, Congestion::Dctcp, Congestion::Bbr];

    /// The name in a scenario and in the kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
            Congestion::Dctcp => "dctcp",
            Congestion::Bbr => "bbr",
        }
    }
}

/// Queue management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Management {
    Tail,
    Codel,
    FqCodel,
    DualPi2,
}

impl Management {
    pub(super) fn name(self) -> &'static str {
        match self {
            Management::Tail => "tail",
            Management::Codel => "codel",
            Management::FqCodel => "fq_codel",
            Management::DualPi2 => "dualpi2",
        }
    }

    /// The target of the queueing delay; `None`: only the queue's limit bounds the delay.
    fn target(self) -> Option<Span> {
        match self {
            Management::Tail => None,
            Management::Codel | Management::FqCodel => Some(Span::from_millis(5)),
            Management::DualPi2 => Some(Span::from_millis(15)),
        }
    }
}

/// A link, a queue and a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) congestion: Congestion,
    /// The link's rate in bit/s.
    pub(super) rate: u64,
    /// The round trip without queues and transmission, in milliseconds.
    pub(super) round_trip: u64,
    /// The queue's limit in bandwidth-delay products.
    pub(super) queue: f64,
    /// Loss at random, in percent.
    pub(super) loss: f64,
    pub(super) management: Management,
}

/// Times of a cell, from the start of the first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Beginning of the counted time, which lasts until `second`.
    pub(super) counted: Span,
    /// Start of the second connection.
    pub(super) second: Span,
    pub(super) end: Span,
}

impl Times {
    /// Length of a part of the time with two connections.
    pub(super) fn part(self) -> Span {
        Span((self.end - self.second).0 / PARTS)
    }
}

impl Cell {
    /// Transmission time of a full frame.
    pub(super) fn frame(&self) -> Span {
        self.time_of(FRAME.into())
    }

    fn time_of(&self, bytes: u64) -> Span {
        Span((u128::from(bytes) * 8_000_000_000 / u128::from(self.rate)) as u64)
    }

    /// Bandwidth-delay product in frames.
    fn product(&self) -> f64 {
        self.round_trip as f64 * 1e6 / self.frame().0 as f64
    }

    /// The queue's limit in packets: at least two.
    pub(super) fn limit(&self) -> u64 {
        ((self.queue * self.product()).ceil() as u64).max(2)
    }

    /// Number of segments that path and queue hold.
    pub(super) fn capacity(&self) -> f64 {
        self.product() + self.limit() as f64
    }

    /// Number of segments that the queue holds before it drops or marks some.
    fn standing(&self) -> f64 {
        let target = self.management.target();
        let most = target.map_or(f64::INFINITY, |span| span.0 as f64 / self.frame().0 as f64);
        (self.limit() as f64).min(most.max(2.0))
    }

    /// The window at a loss, in segments: the capacity of path and queue, or the limit by random
    /// losses.
    pub(super) fn window(&self) -> f64 {
        let held = (self.product() + self.standing()).max(2.0);
        match self.congestion {
            Congestion::Bbr => held,
            _ if self.loss == 0.0 => held,
            _ => held.min((1.5 / (self.loss / 100.0)).sqrt()),
        }
    }

    /// The round trip time under load.
    fn round(&self) -> Span {
        let held = (self.window() * self.frame().0 as f64) as u64;
        Span(self.round_trip * 1_000_000).max(Span(held))
    }

    /// Time from one reduction of the window to the next; for BBR, a cycle of its gains.
    pub(super) fn period(&self) -> Span {
        let (window, round) = (self.window(), self.round().0 as f64);
        let rounds = match self.congestion {
            Congestion::Reno => 0.5 * window,
            // While packets are marked, DCTCP may reduce its window in each round trip; without
            // marks, it behaves as Reno. The longer of the two periods counts.
            Congestion::Dctcp => 0.5 * window,
            Congestion::Bbr => 8.0,
            // The window grows as fast as Reno's if it is small, and by CUBIC's cubic function if
            // it is larger.
            Congestion::Cubic => (0.57 * window).min((0.75 * window).cbrt() * 1e9 / round).max(1.0),
        };
        Span((rounds * round) as u64)
    }

    /// The times of the cell for this number of periods.
    pub(super) fn times(&self, periods: u64) -> Times {
        let rounds = self.round() * 40;
        let counted = if self.loss > 0.0 && self.congestion != Congestion::Bbr {
            // Losses are random, so that a sufficient number of them is needed.
            let segments = (LOSSES * periods as f64 / (self.loss / 100.0)).min(MOST);
            Span((segments / self.window() * self.round().0 as f64) as u64)
        } else {
            self.period() * periods
        };
        let counted = counted.max(rounds).max(self.frame() * 3_000);
        // The time before the second connection is also a whole number of parts.
        let part = Span(counted.0.div_ceil(PARTS));
        let counted = part * (PARTS / 3);
        Times { counted, second: part * (PARTS + PARTS / 3), end: part * (2 * PARTS + PARTS / 3) }
    }

    /// Maximum number of segments in this time.
    pub(super) fn segments(&self, times: Times) -> u64 {
        let at_rate = times.end.0 / self.frame().0.max(1);
        if self.congestion != Congestion::Bbr && self.loss > 0.0 {
            let by_window = self.window() * times.end.0 as f64 / (self.round_trip as f64 * 1e6);
            return at_rate.min(2 * by_window as u64);
        }
        at_rate
    }

    /// Time until an acknowledgement arrives: the link's delay, and the acknowledgement's
    /// transmission time.
    pub(super) fn back(&self) -> Span {
        self.delay() + self.time_of(ACK)
    }

    fn delay(&self) -> Span {
        Span(self.round_trip * 500_000)
    }

    /// Returns true if packets are marked instead of dropped: DCTCP without marks would be Reno.
    fn marks(&self) -> bool {
        self.congestion == Congestion::Dctcp
    }

    /// The link as a scenario, for the kernel's side and for the simulation.
    pub(super) fn link(&self, seed: u64) -> String {
        let limit = self.limit();
        let ecn = if self.marks() { "yes" } else { "no" };
        let codel =
            format!("queue = {{ limit = \"{limit}p\", policy = \"codel\", ecn = \"{ecn}\" }}\n");
        let one_queue = format!("kind = \"fifo\", queue = \"{limit}p\"");
        let (scheduler, queue) = match self.management {
            Management::Tail => (one_queue, String::new()),
            Management::Codel => (one_queue, codel),
            Management::FqCodel => {
                (format!("kind = \"fq_codel\", limit = {limit}, ecn = \"{ecn}\""), String::new())
            }
            Management::DualPi2 => (format!("kind = \"dualpi2\", limit = {limit}"), String::new()),
        };
        let loss = match self.loss {
            0.0 => String::new(),
            percent => format!("loss = \"{percent}%\"\n"),
        };
        format!(
            "[link.x]\nrate = \"{}bit\"\ndelay = \"{}ns\"\n\
             [link.x.up]\nscheduler = {{ {scheduler} }}\n{loss}\
             [link.x.up.flow.a]\nmatch = \"tcp dport {PORT}\"\n{queue}\
             [link.x.up.flow.b]\nmatch = \"any\"\n{queue}\
             [link.x.down]\nscheduler = {{ kind = \"fifo\", queue = \"10000p\" }}\n\
             [link.x.down.flow.all]\nmatch = \"any\"\n\
             [run]\nseed = {seed}\nreplications = 1\n",
            self.rate,
            self.delay().0,
        )
    }

    /// The scenario with both connections, for the simulation.
    pub(super) fn with_connections(&self, times: Times, seed: u64) -> String {
        let ecn = if self.marks() { "ecn = \"ect0\"\n" } else { "" };
        let connection = |name: &str, start: Span| {
            format!(
                "[traffic.{name}]\nlink = \"x\"\nflow = \"{name}\"\nmodel = \"tcp\"\n\
                 congestion = \"{}\"\nsize = \"{FRAME}B\"\nstart = \"{}ns\"\n\
                 return = \"{}ns\"\nwindow = \"1GiB\"\n{ecn}",
                self.congestion.name(),
                start.0,
                self.back().0
            )
        };
        self.link(seed) + &connection("a", Span::ZERO) + &connection("b", times.second)
    }
}

/// The receiver's port of the first connection; the second connection has the next one.
pub(super) const PORT: u16 = 5201;

/// The cell's name, as in `reno-10mbit-40ms-1bdp-0%-tail`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}-{}mbit-{}ms-{}bdp-{}%-{}",
            self.congestion.name(),
            self.rate as f64 / 1e6,
            self.round_trip,
            self.queue,
            self.loss,
            self.management.name()
        )
    }
}

/// The size of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Quick,
    Usual,
    Full,
}

impl Size {
    /// Number of periods of the window that are counted.
    pub(super) fn periods(self) -> u64 {
        match self {
            Size::Quick => 6,
            Size::Usual => 8,
            Size::Full => 20,
        }
    }

    /// Maximum number of segments of a cell on each side.
    pub(super) fn segments(self) -> u64 {
        match self {
            Size::Quick => 12_000,
            Size::Usual => 80_000,
            Size::Full => 1_000_000,
        }
    }

    /// The cells of this grid, without duplicates. First come rates and round-trip times with tail
    /// drop at one bandwidth-delay product. Then come variations in queue, loss and queue
    /// management: none in the quick grid, those of one link in the usual grid, and those of each
    /// link in the full grid. The usual grid ends with fast links with a loss of 1 %.
    pub(super) fn cells(self) -> Vec<Cell> {
        use Congestion::{Cubic, Reno};
        let mut cells = match self {
            Size::Quick => square(&[Reno, Cubic], &[1, 10], &[10, 40]),
            Size::Usual => [
                square(&[Reno, Cubic], &[1, 10, 100], &[10, 40, 100]),
                square(&[Reno, Cubic], &[1_000], &[1]),
                square(&[Reno, Cubic], &[1], &[300]),
                square(&[Congestion::Dctcp, Congestion::Bbr], &[1, 10, 100], &[10, 40]),
                axes(BASE, &[0.1, 0.5, 2.0, 4.0], &[0.1, 0.5, 1.0, 3.0]),
                // Losses keep windows small where bandwidth-delay products are large.
                square(&[Reno, Cubic], &[100, 1_000], &[1, 40, 300])
                    .into_iter()
                    .map(|cell| Cell { loss: 1.0, ..cell })
                    .collect(),
            ]
            .concat(),
            Size::Full => {
                let rates = [1, 10, 100, 1_000];
                let mut cells = square(&Congestion::ALL, &rates, &[1, 10, 40, 100, 300]);
                for rate in rates {
                    for round_trip in [1, 10, 40, 100, 300] {
                        let link = Cell { rate: rate * 1_000_000, round_trip, ..BASE };
                        cells.extend(axes(link, &[0.1, 0.5, 2.0, 4.0], &[0.1, 0.5, 1.0, 3.0]));
                    }
                }
                cells
            }
        };
        let mut seen: Vec<Cell> = Vec::new();
        cells.retain(|cell| {
            let new = !seen.contains(cell);
            seen.push(*cell);
            new
        });
        cells
    }
}

/// Variations of a link: other queues, other losses, and other queue management, one change at a
/// time.
fn axes(link: Cell, queues: &[f64], losses: &[f64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for congestion in Congestion::ALL {
        let of = Cell { congestion, ..link };
        cells.extend(queues.iter().map(|&queue| Cell { queue, ..of }));
        cells.extend(losses.iter().map(|&loss| Cell { loss, ..of }));
        for management in [Management::Codel, Management::FqCodel, Management::DualPi2] {
            // The queue of `link` is too short for a queue management to act.
            cells.push(Cell { management, queue: 4.0, ..of });
        }
    }
    cells
}

/// Each rate in Mbit/s with each round trip in milliseconds: tail drop at one bandwidth-delay
/// product, no loss.
fn square(congestion: &[Congestion], rates: &[u64], round_trips: &[u64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &congestion in congestion {
        for rate in rates {
            for &round_trip in round_trips {
                cells.push(Cell { congestion, rate: rate * 1_000_000, round_trip, ..BASE });
            }
        }
    }
    cells
}

/// The cell that is varied in queue, loss and queue management.
const BASE: Cell = Cell {
    congestion: Congestion::Reno,
    rate: 10_000_000,
    round_trip: 40,
    queue: 1.0,
    loss: 0.0,
    management: Management::Tail,
};
