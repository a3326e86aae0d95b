//! Networks in the format of Saihu (Tsai and others 2023), which is common to several tools for
//! bounds: an "output-port network" in JSON.
//!
//! A network has servers and flows. The service curve of a server is the maximum of several curves,
//! each a rate after a latency. The arrival curve of a flow is the minimum of several token
//! buckets, and the flow passes a path of servers. A number is followed by its unit, or has the
//! unit that its object or an outer object gives. Decimals are read exactly.

use crate::network::Routes;
use falaj_theory::network::{Flow, Network, Order, Server};
use falaj_theory::{Curve, Exact, exact, float};
use serde_json::{Map, Value as Json, json};

/// A network as read.
#[derive(Debug)]
pub struct Read {
    /// The name of the network.
    pub name: String,
    /// The network.
    pub network: Network,
    /// Notes on flows whose copies (`multicast`) are treated as flows of their own here.
    pub notes: Vec<String>,
}

/// A result; the error names the place and the fault: `flows[2].path[1]: …`.
type SaihuResult<T> = Result<T, String>;

/// Reads a network.
///
/// # Errors
/// The text is not JSON, or something is missing or wrong; the error names the place.
pub fn read(text: &str) -> Result<Read, String> {
    let all: Json =
        serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let all = object(&all, "the file")?;
    let info = object(field(all, "", "network")?, "network")?;
    let mut notes = Vec::new();
    let order =
        match info.get("multiplexing").map(|of| text_of(of, "network.multiplexing")).transpose()? {
            None => Order::Fifo,
            Some(name) if name.eq_ignore_ascii_case("fifo") => Order::Fifo,
            Some(name) if name.eq_ignore_ascii_case("arbitrary") => Order::Any,
            Some(name) => {
                return Err(format!(
                    "network.multiplexing: {name:?} is not allowed; write \"FIFO\" or \"ARBITRARY\""
                ));
            }
        };
    let packets = match info.get("packetizer") {
        None => false,
        Some(Json::Bool(packets)) => *packets,
        Some(other) => {
            return Err(format!("network.packetizer: {other} is neither true nor false"));
        }
    };
    let scope = Scope { units: Units::default().inside(info, "network")?, defaults: info };
    let servers = list(field(all, "", "servers")?, "servers")?;
    let mut names: Vec<&str> = Vec::new();
    for (n, server) in servers.iter().enumerate() {
        let at = format!("servers[{n}]");
        let name = text_of(field(object(server, &at)?, &at, "name")?, &format!("{at}.name"))?;
        if names.contains(&name) {
            return Err(format!("{at}.name: a second server {name:?}"));
        }
        names.push(name);
    }
    let mut flows = Vec::new();
    let mut largest: Vec<Option<Exact>> = Vec::new();
    for (n, of) in list(field(all, "", "flows")?, "flows")?.iter().enumerate() {
        let at = format!("flows[{n}]");
        let of = object(of, &at)?;
        let inside = Scope { units: scope.units.inside(of, &at)?, ..scope };
        let name = text_of(field(of, &at, "name")?, &format!("{at}.name"))?;
        let sent = inside.arrivals(of, &at)?;
        let most = inside.one(of, &at, "max_packet_length", SaihuKind::Data)?;
        let mut paths = vec![(
            of.get("path_name").and_then(Json::as_str).unwrap_or("p0").to_owned(),
            path(of, &at, &names)?,
        )];
        if let Some(more) = of.get("multicast") {
            for (m, one) in list(more, &format!("{at}.multicast"))?.iter().enumerate() {
                let at = format!("{at}.multicast[{m}]");
                let one = object(one, &at)?;
                let name = one
                    .get("name")
                    .and_then(Json::as_str)
                    .map_or_else(|| format!("p{}", m + 1), str::to_owned);
                paths.push((name, path(one, &at, &names)?));
            }
        }
        let many = paths.len() > 1;
        if many {
            notes.push(format!(
                "{at}: copies are flows of their own, on common servers too: bounds hold, and may be lower"
            ));
        }
        for (way, path) in paths {
            let name = if many { format!("{name}#{way}") } else { name.to_owned() };
            flows.push(Flow { name, sent: Some(sent.clone()), path });
            largest.push(most.clone());
        }
    }
    let (mut made, mut lines) = (Vec::new(), Vec::new());
    for (n, of) in servers.iter().enumerate() {
        let at = format!("servers[{n}]");
        let of = object(of, &at)?;
        let inside = Scope { units: scope.units.inside(of, &at)?, ..scope };
        let mut packet = exact(0);
        for (flow, most) in flows.iter().zip(&largest).filter(|(flow, _)| flow.path.contains(&n)) {
            let needed = || {
                format!(
                    "network.packetizer: with it, flow {:?} needs a `max_packet_length`",
                    flow.name
                )
            };
            let most = match most {
                None if packets => return Err(needed()),
                most => most.clone().unwrap_or_else(|| exact(0)),
            };
            packet = packet.max(most);
        }
        let capacity = of.get("capacity").or_else(|| info.get("capacity"));
        let line = match capacity.filter(|capacity| !capacity.is_null()) {
            Some(given) => {
                let capacity = inside.number(given, SaihuKind::Rate, &format!("{at}.capacity"))?;
                lines.push(Curve::affine(capacity, packet.clone()));
                Some(lines.len() - 1)
            }
            None => None,
        };
        // A packet leaves with its last bit, so the service is later by the time for the largest
        // packet (Le Boudec and Thiran, 1.7.1).
        let later = if packets { packet } else { exact(0) };
        let service = inside.service(of, &at, &later)?;
        made.push(Server { name: names[n].to_owned(), service, line });
    }
    let name = info.get("name").and_then(Json::as_str).unwrap_or("").to_owned();
    Ok(Read { name, network: Network { servers: made, flows, lines, order }, notes })
}

fn object<'a>(of: &'a Json, at: &str) -> SaihuResult<&'a Map<String, Json>> {
    of.as_object().ok_or_else(|| format!("{at}: an object is needed, in braces"))
}

fn list<'a>(of: &'a Json, at: &str) -> SaihuResult<&'a Vec<Json>> {
    of.as_array().ok_or_else(|| format!("{at}: a list is needed, in brackets"))
}

fn text_of<'a>(of: &'a Json, at: &str) -> SaihuResult<&'a str> {
    of.as_str().ok_or_else(|| format!("{at}: {of} is not a text in quotes"))
}

fn field<'a>(of: &'a Map<String, Json>, at: &str, key: &str) -> SaihuResult<&'a Json> {
    let place = if at.is_empty() { "the file".to_owned() } else { at.to_owned() };
    of.get(key).ok_or_else(|| {
        let keys: Vec<String> = of.keys().map(|key| format!("`{key}`")).collect();
        format!("{place}: there is no `{key}`, which is needed; it has {}", keys.join(", "))
    })
}

fn path(of: &Map<String, Json>, at: &str, names: &[&str]) -> SaihuResult<Vec<usize>> {
    let mut path = Vec::new();
    for (n, server) in list(field(of, at, "path")?, &format!("{at}.path"))?.iter().enumerate() {
        let at = format!("{at}.path[{n}]");
        let name = text_of(server, &at)?;
        let server = names.iter().position(|known| *known == name);
        let server = server.ok_or_else(|| {
            format!("{at}: there is no server {name:?}; there are {}", names.join(", "))
        })?;
        if path.contains(&server) {
            return Err(format!("{at}: {name:?} appears twice; a flow passes a server only once"));
        }
        path.push(server);
    }
    if path.is_empty() { Err(format!("{at}.path: the flow passes no server")) } else { Ok(path) }
}

/// The quantity that a number measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SaihuKind {
    Time,
    Data,
    Rate,
}

/// The units of numbers that are written without one.
#[derive(Clone, Copy, Default)]
struct Units<'a> {
    time: Option<&'a str>,
    data: Option<&'a str>,
    rate: Option<&'a str>,
}

impl<'a> Units<'a> {
    /// The units inside an object: its own units if it gives some, otherwise those around it.
    fn inside(self, of: &'a Map<String, Json>, at: &str) -> SaihuResult<Units<'a>> {
        let unit = |key: &str,
                    kind: SaihuKind,
                    outside: Option<&'a str>|
         -> SaihuResult<Option<&'a str>> {
            match of.get(key) {
                None => Ok(outside),
                Some(unit) => {
                    let at = format!("{at}.{key}");
                    let unit = text_of(unit, &at)?;
                    kind.unit(unit).ok_or_else(|| {
                        format!("{at}: {unit:?} is not a unit; {}", kind.example())
                    })?;
                    Ok(Some(unit))
                }
            }
        };
        Ok(Units {
            time: unit("time_unit", SaihuKind::Time, self.time)?,
            data: unit("data_unit", SaihuKind::Data, self.data)?,
            rate: unit("rate_unit", SaihuKind::Rate, self.rate)?,
        })
    }
}

impl SaihuKind {
    fn noun(self) -> &'static str {
        match self {
            SaihuKind::Time => "a time",
            SaihuKind::Data => "an amount of data",
            SaihuKind::Rate => "a rate",
        }
    }

    fn example(self) -> &'static str {
        match self {
            SaihuKind::Time => "write `us`, `ms`, `s`",
            SaihuKind::Data => "write `b`, `B`, `kB`",
            SaihuKind::Rate => "write `bps`, `kbps`, `MBps`",
        }
    }

    /// The value of a unit in nanoseconds, bytes, or bytes per nanosecond; `None` if it is not a
    /// unit.
    fn unit(self, unit: &str) -> Option<Exact> {
        let ten = |power: i32| {
            (0..power.abs())
                .fold(exact(1), |all, _| if power > 0 { all * exact(10) } else { all / exact(10) })
        };
        let many = |prefix: &str| {
            let powers =
                [("a", -18), ("f", -15), ("p", -12), ("n", -9), ("u", -6), ("m", -3), ("", 0)];
            let more = [("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
            powers
                .iter()
                .chain(&more)
                .find(|(name, _)| *name == prefix)
                .map(|(_, power)| ten(*power))
        };
        let time = |name: char| match name {
            's' => Some(ten(9)),
            'm' => Some(exact(60) * ten(9)),
            'h' => Some(exact(3600) * ten(9)),
            _ => None,
        };
        let data = |name: char| match name {
            'b' => Some(exact(1) / exact(8)),
            'B' => Some(exact(1)),
            _ => None,
        };
        let mut letters = unit.chars();
        match self {
            SaihuKind::Time => {
                time(letters.next_back()?).and_then(|one| Some(one * many(letters.as_str())?))
            }
            SaihuKind::Data => {
                data(letters.next_back()?).and_then(|one| Some(one * many(letters.as_str())?))
            }
            SaihuKind::Rate => {
                let seconds = time(letters.next_back()?)?;
                if letters.next_back()? != 'p' {
                    return None;
                }
                let one = data(letters.next_back()?)?;
                Some(one * many(letters.as_str())? / seconds)
            }
        }
    }
}

/// The units and defaults that apply at a place.
#[derive(Clone, Copy)]
struct Scope<'a> {
    units: Units<'a>,
    defaults: &'a Map<String, Json>,
}

impl Scope<'_> {
    /// Reads a number with its unit, or with the unit of its surroundings. If neither gives a unit,
    /// it is in seconds, bits, or bits per second.
    fn number(&self, of: &Json, kind: SaihuKind, at: &str) -> SaihuResult<Exact> {
        let (outside, base) = match kind {
            SaihuKind::Time => (self.units.time, "s"),
            SaihuKind::Data => (self.units.data, "b"),
            SaihuKind::Rate => (self.units.rate, "bps"),
        };
        let text = match of {
            Json::Number(number) => number.to_string(),
            Json::String(text) => text.trim().to_owned(),
            other => return Err(format!("{at}: {other} is not a number")),
        };
        let wrong = || {
            format!(
                "{at}: {of} is not {}; {}",
                kind.noun(),
                kind.example().replace("write `", "write `1.5")
            )
        };
        let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        // An `E` begins an exponent only if digits follow: `1Eb` is an exabit.
        let (mut mantissa, mut rest, mut power) = (&text[..digits], text[digits..].trim(), 0i32);
        if let Some(more) = rest.strip_prefix(['e', 'E']) {
            let end = more
                .char_indices()
                .find(|(n, c)| !(c.is_ascii_digit() || *n == 0 && "+-".contains(*c)));
            let end = end.map_or(more.len(), |(n, _)| n);
            if let Ok(given) = more[..end].parse::<i32>() {
                (power, rest) = (given, more[end..].trim());
            }
        }
        if let Some((before, behind)) = mantissa.split_once('.') {
            if behind.contains('.') {
                return Err(wrong());
            }
            // Each digit after the point is worth a power of ten less.
            power = power.saturating_sub(i32::try_from(behind.len()).unwrap_or(i32::MAX));
            let joined = format!("{before}{behind}");
            return self.made(&joined, power, rest, (outside, base), kind).ok_or_else(wrong);
        }
        mantissa = mantissa.trim();
        self.made(mantissa, power, rest, (outside, base), kind).ok_or_else(wrong)
    }

    fn made(
        &self,
        digits: &str,
        power: i32,
        unit: &str,
        (outside, base): (Option<&str>, &str),
        kind: SaihuKind,
    ) -> Option<Exact> {
        if digits.is_empty() || digits.len() > 400 || power.abs() > 400 {
            return None;
        }
        let whole = digits
            .chars()
            .try_fold(exact(0), |all, c| Some(all * exact(10) + exact(c.to_digit(10)?)))?;
        let scaled = (0..power.abs())
            .fold(whole, |all, _| if power > 0 { all * exact(10) } else { all / exact(10) });
        Some(scaled * kind.unit(if unit.is_empty() { outside.unwrap_or(base) } else { unit })?)
    }

    /// The number under a key, or the network's default for it.
    fn one(
        &self,
        of: &Map<String, Json>,
        at: &str,
        key: &str,
        kind: SaihuKind,
    ) -> SaihuResult<Option<Exact>> {
        let given = of.get(key).or_else(|| self.defaults.get(key));
        given.map(|given| self.number(given, kind, &format!("{at}.{key}"))).transpose()
    }

    /// Two lists of the same length, as pairs.
    fn pairs(
        &self,
        of: &Map<String, Json>,
        at: &str,
        key: &str,
        (first, kind): (&str, SaihuKind),
    ) -> SaihuResult<Vec<(Exact, Exact)>> {
        let curve = match of.get(key).or_else(|| self.defaults.get(key)) {
            Some(curve) => curve,
            None => field(of, at, key)?,
        };
        let at = format!("{at}.{key}");
        let curve = object(curve, &at)?;
        let [a, b] = [first, "rates"]
            .map(|key| field(curve, &at, key).and_then(|of| list(of, &format!("{at}.{key}"))));
        let (a, b) = (a?, b?);
        if a.len() != b.len() || a.is_empty() {
            return Err(format!(
                "{at}: {} {first} and {} rates; as many of both are needed, and one at least",
                a.len(),
                b.len()
            ));
        }
        let pair = |(n, (a, b)): (usize, (&Json, &Json))| {
            Ok((
                self.number(a, kind, &format!("{at}.{first}[{n}]"))?,
                self.number(b, SaihuKind::Rate, &format!("{at}.rates[{n}]"))?,
            ))
        };
        a.iter().zip(b).enumerate().map(pair).collect()
    }

    fn arrivals(&self, of: &Map<String, Json>, at: &str) -> SaihuResult<Curve> {
        let buckets = self.pairs(of, at, "arrival_curve", ("bursts", SaihuKind::Data))?;
        let curves = buckets.into_iter().map(|(burst, rate)| Curve::affine(rate, burst));
        curves
            .reduce(|a, b| a.min(&b))
            .ok_or_else(|| format!("{at}.arrival_curve: the list is empty"))
    }

    fn service(&self, of: &Map<String, Json>, at: &str, packet: &Exact) -> SaihuResult<Curve> {
        let mut all: Option<Curve> = None;
        for (n, (latency, rate)) in self
            .pairs(of, at, "service_curve", ("latencies", SaihuKind::Time))?
            .into_iter()
            .enumerate()
        {
            if rate == exact(0) {
                return Err(format!(
                    "{at}.service_curve.rates[{n}]: it serves nothing; a rate above zero is needed"
                ));
            }
            let curve = Curve::served(rate.clone(), latency + packet / rate);
            all = Some(all.map_or_else(|| curve.clone(), |all| all.max(&curve)));
        }
        all.ok_or_else(|| format!("{at}.service_curve: the list is empty"))
    }
}

/// Writes the servers and flows of a scenario as a network.
///
/// # Errors
/// A flow has no known envelope, which the format cannot express.
pub fn write(name: &str, routes: &Routes) -> Result<Json, String> {
    let network = &routes.network;
    let mbit = |of: &Exact| float(of) * 8e3;
    let mut flows = Vec::new();
    for (flow, route) in network.flows.iter().zip(&routes.routes) {
        let Some(sent) = flow.sent.as_ref().filter(|_| route.none.is_none()) else {
            let why = route.none.as_deref().unwrap_or("its traffic has no limit");
            return Err(format!(
                "nothing is known of {}: {why}; give its flow an `envelope`, or take it out",
                flow.name
            ));
        };
        // Each straight piece of the arrival curve lies on the line of a token bucket.
        let buckets: Vec<(f64, f64)> = sent
            .pieces()
            .iter()
            .map(|p| (float(&(&p.after - &p.slope * &p.at)), mbit(&p.slope)))
            .collect();
        let path: Vec<&str> = flow.path.iter().map(|s| &*network.servers[*s].name).collect();
        flows.push(json!({
            "name": flow.name, "path": path, "max_packet_length": route.largest,
            "arrival_curve": {
                "bursts": buckets.iter().map(|b| b.0).collect::<Vec<_>>(),
                "rates": buckets.iter().map(|b| b.1).collect::<Vec<_>>(),
            },
        }));
    }
    let server = |(server, rate): (&Server, &falaj_sched::units::rate::Rate)| {
        let rising = server.service.pieces().iter().filter(|p| p.slope > exact(0));
        let curves: Vec<(f64, f64)> =
            rising.map(|p| (float(&(&p.at - &p.value / &p.slope)) / 1e3, mbit(&p.slope))).collect();
        json!({
            "name": server.name,
            "service_curve": {
                "latencies": curves.iter().map(|c| c.0).collect::<Vec<_>>(),
                "rates": curves.iter().map(|c| c.1).collect::<Vec<_>>(),
            },
            "capacity": if rate.is_unlimited() { Json::Null } else { json!(rate.0 as f64 / 1e6) },
        })
    };
    // Service curves count packets at their last bits, so nothing is added for packets.
    Ok(json!({
        "network": {
            "name": name, "packetizer": false, "multiplexing": "FIFO",
            "time_unit": "us", "data_unit": "B", "rate_unit": "Mbps",
        },
        "flows": flows,
        "servers": network.servers.iter().zip(&routes.capacity).map(server).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The network of the tests of `falaj_theory::network`, written in many different units.
    const NETWORK: &str = r#"{
        "network": {
            "name": "two", "packetizer": false, "multiplexing": "FIFO", "analysis_option": ["IS"],
            "time_unit": "ms", "data_unit": "B", "rate_unit": "Mbps"
        },
        "flows": [
            { "name": "f", "path": ["a", "b"], "arrival_curve": { "bursts": [1e3], "rates": ["1000kbps"] } },
            {
                "name": "g", "path": ["b"], "arrival_curve": { "bursts": ["4kb", 10000], "rates": [0.25, "1MBps"] },
                "rate_unit": "MBps", "max_packet_length": "500B"
            }
        ],
        "servers": [
            { "name": "a", "service_curve": { "latencies": [1, "9ms"], "rates": [10, "0.5E1Mbps"] } },
            { "name": "b", "service_curve": { "latencies": ["1000us"], "rates": ["0.01Gbps"] }, "capacity": 100 }
        ]
    }"#;

    fn delays(text: &str) -> Vec<(Option<f64>, Option<f64>)> {
        let bounds = read(text).unwrap().network.bounds().unwrap();
        bounds
            .flows
            .iter()
            .map(|f| (f.total.as_ref().map(float), f.separated.as_ref().map(float)))
            .collect()
    }

    #[test]
    fn a_network_is_read_with_its_units() {
        let read = read(NETWORK).unwrap();
        assert_eq!((&*read.name, read.network.order, read.notes.len()), ("two", Order::Fifo, 0));
        // `g` passes the second server alone: 1 ms, and 1625 B at 10 Mbit/s. For `f`, the second
        // server sends 200 B at once after 1.56 ms, and both servers let its burst wait for 800 us.
        assert_eq!(
            delays(NETWORK),
            [(Some(1.8e6 + 2.3e6), Some(1e6 + 1.56e6 + 0.8e6)), (Some(2.3e6), Some(2.3e6))]
        );
        let any = NETWORK.replace("FIFO", "arbitrary");
        assert_eq!(delays(&any)[0], (None, Some(3.75e6)));
    }

    /// The service of each server is later by the largest packet that passes it: 1000 B at 10
    /// Mbit/s at both servers.
    #[test]
    fn packets_cost_the_service_their_length() {
        let packets = NETWORK.replace("\"packetizer\": false", "\"packetizer\": true");
        assert!(read(&packets).unwrap_err().contains("flow \"f\" needs a `max_packet_length`"));
        let packets = packets
            .replace("\"bursts\": [1e3]", "\"bursts\": [1e3], \"x\": 1")
            .replace("\"name\": \"f\",", "\"name\": \"f\", \"max_packet_length\": 1000,");
        assert_eq!(delays(&packets)[0].1, Some(3.36e6 + 2.0 * 0.8e6));
    }

    #[test]
    fn copies_are_flows() {
        let copies = NETWORK.replace(
            "\"name\": \"f\",",
            "\"name\": \"f\", \"multicast\": [{ \"name\": \"x\", \"path\": [\"b\"] }],",
        );
        let names: Vec<String> =
            read(&copies).unwrap().network.flows.into_iter().map(|flow| flow.name).collect();
        assert_eq!(names, ["f#p0", "f#x", "g"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, said) in [
            ("\"two\",", "\"two\"", "not JSON"),
            ("\"servers\"", "\"server\"", "the file: there is no `servers`"),
            ("[\"b\"]", "[\"c\"]", "flows[1].path[0]: there is no server \"c\"; there are a, b"),
            ("[\"a\", \"b\"]", "[\"a\", \"a\"]", "flows[0].path[1]: \"a\" appears twice"),
            ("[\"b\"]", "[]", "flows[1].path: the flow passes no server"),
            ("[1e3]", "[1e3, 1]", "flows[0].arrival_curve: 2 bursts and 1 rates"),
            (
                "[1e3]",
                "[-1]",
                "flows[0].arrival_curve.bursts[0]: -1 is not an amount of data; write `1.5b`",
            ),
            (
                "\"4kb\"",
                "\"4ks\"",
                "flows[1].arrival_curve.bursts[0]: \"4ks\" is not an amount of data",
            ),
            ("\"1000us\"", "\"1.0.0us\"", "servers[1].service_curve.latencies[0]"),
            ("[\"0.01Gbps\"]", "[0]", "servers[1].service_curve.rates[0]: it serves nothing"),
            (
                "\"time_unit\": \"ms\"",
                "\"time_unit\": \"Mbps\"",
                "network.time_unit: \"Mbps\" is not a unit",
            ),
            ("\"FIFO\"", "\"LIFO\"", "network.multiplexing: \"LIFO\" is not allowed"),
            ("\"name\": \"b\"", "\"name\": \"a\"", "servers[1].name: a second server \"a\""),
            (
                "\"packetizer\": false",
                "\"packetizer\": 1",
                "network.packetizer: 1 is neither true nor false",
            ),
            ("[\"b\"]", "\"b\"", "flows[1].path: a list is needed, in brackets"),
            (
                "{ \"bursts\": [1e3], \"rates\": [\"1000kbps\"] }",
                "1",
                "flows[0].arrival_curve: an object is needed, in braces",
            ),
            ("\"name\": \"g\"", "\"name\": 7", "flows[1].name: 7 is not a text in quotes"),
        ] {
            assert!(NETWORK.contains(from), "{from}");
            let what = read(&NETWORK.replacen(from, to, 1)).unwrap_err();
            assert!(what.contains(said), "{what}");
        }
    }
}
