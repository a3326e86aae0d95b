//! Reads TCP connections.

use crate::diagnostics::Problem;
use crate::model::Direction;
use crate::read::Fields;
use falaj_sched::contract::params::Values;
use falaj_sched::units::time::Span;
use falaj_traffic::source::size::Sizes;
use falaj_traffic::tcp::{Congestion, Tcp};

/// Default initial window in segments, as in the hosts' TCP (RFC 6928).
const INITIAL: u32 = 10;
/// Default receive window, in bytes.
const WINDOW: u64 = 16 << 20;

/// Reads the keys of a connection. The propagation delays of the link are set later.
pub(crate) fn connection(
    fields: &Fields<'_>,
    given: &Values,
    problems: &mut Vec<Problem>,
) -> Option<Tcp> {
    let mut whole = true;
    let mut refused = |key: &str, why: &str, help: &str| {
        if let Some(field) = fields.field(key) {
            problems
                .push(Problem::error(field.name_at.clone(), format!("`{key}`: {why}")).help(help));
            whole = false;
        }
    };
    for key in ["shaped", "policed"] {
        let help =
            "leave it out, or let the traffic pass a link with such a discipline, as `shaper`";
        refused(
            key,
            "a connection adapts its sending to the packets that arrive, and has no token bucket",
            help,
        );
    }
    if !fields.means("bytes") {
        refused(
            "pause",
            "no transfer follows a transfer without end",
            "write `bytes = \"1MB\"` too",
        );
    }
    let congestion = match given.choice("congestion") {
        Some("reno") => Congestion::Reno,
        Some("dctcp") => Congestion::Dctcp,
        Some("bbr") => Congestion::Bbr,
        _ => Congestion::Cubic,
    };
    if congestion == Congestion::Dctcp && matches!(given.choice("ecn"), None | Some("no")) {
        let at = fields.field("congestion").map_or(fields.at.clone(), |field| field.at.clone());
        let why = "`congestion`: packets of this source are not marked, and without marks DCTCP behaves like Reno";
        let help = "write `ecn = \"ect1\"`, or `\"ect0\"` for a queue that marks all alike";
        problems.push(Problem::warning(at, why).help(help));
    }
    let tcp = Tcp {
        congestion,
        back: given.span("return").unwrap_or(Span::ZERO),
        base: Span::ZERO,
        bytes: given.bytes("bytes"),
        pause: given.span("pause"),
        initial_window: given
            .count("initial-window")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(INITIAL),
        window: given.bytes("window").unwrap_or(WINDOW),
        delayed: given.choice("acknowledge") != Some("each"),
    };
    whole.then_some(tcp)
}

/// Reports an error if the connection's segments have several sizes, or if its first link has no
/// rate.
pub(crate) fn judge(
    sizes: &Sizes,
    direction: &Direction,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) {
    if !matches!(sizes, Sizes::Fixed(_)) {
        let at = fields.field("size").map_or(fields.at.clone(), |field| field.at.clone());
        problems.push(
            Problem::error(
                at,
                "`size`: all segments of a connection except the last have the same size",
            )
            .help("write the size of a full one, as in `size = \"1514B\"`"),
        );
    }
    if direction.pipe.setup.rate.is_unlimited() {
        let why = format!("nothing limits {}: its link has no rate", fields.what);
        let at = fields.field("model").map_or(fields.at.clone(), |field| field.at.clone());
        problems.push(Problem::error(at, why).help("write a `rate` in the link's table"));
    }
}
