//! Observers of a run, packet by packet.

use falaj_engine::{Dropped, Emit};
use falaj_sched::units::time::Time;

/// Receives the packets of a run as it proceeds.
pub trait Observer {
    /// If true, the observer receives every packet from the beginning of the run. These include
    /// lost packets, and packets that are still queued at the end of the run and are sent after it.
    /// If false, it receives only packets that leave a pipe and are counted.
    const ALL: bool;

    /// A packet leaves a pipe. The packets of one pipe come in the order in which their
    /// transmissions begin.
    fn sent(&mut self, emit: &Emit);

    /// A packet is lost.
    fn lost(&mut self, loss: &Loss);
}

/// A packet that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The pipe, the flow, and the reason.
    pub dropped: Dropped,
    /// Time at which the engine reported the loss: the time of the loss, or of the next arrival
    /// after it. For a loss after the run it is the end of the run.
    pub reported_at: Time,
}

/// The last event of a packet.
#[derive(Clone, Copy, Debug)]
pub enum PacketEnd<'a> {
    /// The packet left its pipe.
    Sent(&'a Emit),
    /// The packet was lost.
    Lost(&'a Loss),
}

/// A closure that receives all packets.
pub struct Every<F>(pub F);

impl<F: FnMut(PacketEnd<'_>)> Observer for Every<F> {
    const ALL: bool = true;

    fn sent(&mut self, emit: &Emit) {
        self.0(PacketEnd::Sent(emit));
    }

    fn lost(&mut self, loss: &Loss) {
        self.0(PacketEnd::Lost(loss));
    }
}

/// A closure that receives the packets that are counted.
impl<F: FnMut(&Emit)> Observer for F {
    const ALL: bool = false;

    fn sent(&mut self, emit: &Emit) {
        self(emit);
    }

    fn lost(&mut self, _: &Loss) {}
}
