//! Hosts behind interfaces.

use super::scene::Sender;
use crate::host::Host;
use crate::netlink;

const UPLINK: &str = "10.9.0.1";

/// Three hosts behind veth pairs: two adapters, and the host behind the uplink.
pub(crate) struct Hosts(pub(crate) [Host; 3]);

const PAIRS: [[&str; 3]; 3] =
    [["a1", "a0", "10.9.0.2"], ["b1", "b0", "10.9.0.3"], ["u1", "u0", UPLINK]];

impl Hosts {
    pub(crate) fn new() -> Hosts {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let mut hosts = Hosts(PAIRS.map(|_| Host::start()));
        (0..PAIRS.len()).for_each(|n| hosts.join(n));
        hosts
    }

    pub(crate) fn join(&mut self, n: usize) {
        let [here, there, address] = PAIRS[n];
        netlink::veth(here, there, self.0[n].pid());
        netlink::set_up(here, true);
        self.0[n].does(&format!("up {there} {address}"));
    }

    pub(crate) fn send(&self, n: usize) -> Sender {
        Sender::from(self.0[n].pid(), &format!("{UPLINK}:9"))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Deleting one end of a pair removes the other at once; otherwise the kernel would remove
        // the pair later, with its namespace.
        PAIRS.iter().for_each(|[here, ..]| netlink::delete(here));
    }
}
