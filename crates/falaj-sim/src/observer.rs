//! Who watches a run packet by packet.

use falaj_engine::{Dropped, Emit};
use falaj_sched::units::time::Time;

/// Is told of packets as a run goes by.
pub trait Observer {
    /// It is told of all packets: of those that are lost too, from the beginning on, and of those
    /// that still wait when the run is over, which are sent then. Else of those alone that
    /// leave a pipe and are counted.
    const ALL: bool;

    /// A packet leaves a pipe. Of one pipe they are told in the order in which transmissions begin.
    fn sent(&mut self, emit: &Emit);

    /// A packet is lost.
    fn lost(&mut self, loss: &Loss);
}

/// A packet that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where, and why.
    pub dropped: Dropped,
    /// When it was lost, or a little later: when the next packet came. Of what is lost after the
    /// run it is the run's end.
    pub told: Time,
}

/// A packet's end.
#[derive(Clone, Copy, Debug)]
pub enum PacketEnd<'a> {
    /// It left.
    Sent(&'a Emit),
    /// It was lost.
    Lost(&'a Loss),
}

/// A closure that is told of all packets.
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

/// A closure that is told of what is counted.
impl<F: FnMut(&Emit)> Observer for F {
    const ALL: bool = false;

    fn sent(&mut self, emit: &Emit) {
        self(emit);
    }

    fn lost(&mut self, _: &Loss) {}
}
