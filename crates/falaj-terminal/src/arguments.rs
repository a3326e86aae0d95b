//! Parsers of command-line values that several commands take.

use falaj_scenario::parse_span;
use falaj_scenario::units::Unreadable;
use falaj_sched::units::time::Span;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

/// Parses the duration of a simulation or a measurement, which must be above zero.
///
/// # Errors
/// The text is not a span of time, or is zero. The message names the permitted form.
pub fn parse_duration(text: &str) -> Result<Span, String> {
    above_zero(text, parse_span, Span::ZERO, "10s")
}

/// Parses a number of bytes above zero.
///
/// # Errors
/// The text is not a size, or is zero. The message names the permitted form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    above_zero(text, falaj_scenario::parse_size, 0, "64MB")
}

fn above_zero<T: PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, Unreadable>,
    zero: T,
    example: &str,
) -> Result<T, String> {
    let above = |text: &str| match parse(text) {
        Ok(value) if value == zero => Err(Unreadable {
            what: "it must be above zero".into(),
            help: format!("write `{example}`, for instance"),
            near: None,
            at: None,
        }),
        other => other,
    };
    let otherwise = format!("write more than zero, as in `{example}`");
    above(text).map_err(|error| error.checked(text, above, &otherwise).to_string())
}

/// Parses a whole number in this range.
pub fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let most = match *most {
                u64::MAX => "or more".to_owned(),
                most => format!("to `{most}`"),
            };
            format!("`{text}` is not an allowed number; write `{least}` {most}")
        })
    }
}

/// Parses a socket address. Permitted forms are an address and a port (`127.0.0.1:5000`,
/// `[::1]:5000`), a name and a port, or only a port of this host. For a name, its first IPv4
/// address is preferred to other addresses.
///
/// # Errors
/// The text has none of these forms, or the name has no address. The message names the permitted
/// forms.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    const FORMS: &str = "`127.0.0.1:5000`, `[::1]:5000`, `localhost:5000` or `5000`";
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains(':'));
    let Some((host, Ok(port))) = parts.map(|(host, port)| (host, port.parse::<u16>())) else {
        return Err(format!("write an address, a colon and a port: {FORMS}"));
    };
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    // RFC 6761: this name, and names below it, mean the loopback address, even if no resolver or
    // file of the host knows them.
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    let local = is_local.then_some((Ipv4Addr::LOCALHOST, port).into());
    first.copied().or(local).ok_or_else(|| {
        format!(
            "no host `{host}` was found; write its address, or make sure that its name resolves"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_ports_are_read() {
        let is = |text: &str, address: &str| {
            assert_eq!(socket_address(text), Ok(address.parse().unwrap()), "{text}");
        };
        is("127.0.0.1:5000", "127.0.0.1:5000");
        is("[::1]:5000", "[::1]:5000");
        is("9000", "127.0.0.1:9000");
        is("localhost:8000", "127.0.0.1:8000");
        is("Never-Resolved.localhost:80", "127.0.0.1:80");
        for text in ["", ":80", "70000", "::1:80", "localhost", "localhost:http", "localhost:70000"]
        {
            let error = socket_address(text).unwrap_err();
            assert!(error.contains("`localhost:5000`"), "{text}: {error}");
        }
        let error = socket_address("no host:80").unwrap_err();
        assert!(error.contains("`no host`"), "{error}");
    }
}
