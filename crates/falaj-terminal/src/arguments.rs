//! Parsers of values that several commands take.

use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;
use std::net::SocketAddr;

/// Parses the duration of a simulation or a measurement, which is above zero.
///
/// # Errors
/// It is not a span of time, or zero: says what to write.
pub fn parse_duration(text: &str) -> Result<Span, String> {
    match parse_span(text) {
        Ok(Span::ZERO) => Err("it must be above zero; write `10s`, for instance".into()),
        Ok(span) => Ok(span),
        Err(unreadable) => Err(unreadable.to_string()),
    }
}

/// Parses a number of bytes above zero.
///
/// # Errors
/// It is not a size, or zero: says what to write.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match falaj_scenario::parse_size(text) {
        Ok(0) => Err("it must be above zero; write `64MB`, for instance".into()),
        Ok(bytes) => Ok(bytes),
        Err(unreadable) => Err(unreadable.to_string()),
    }
}

/// Parses an address and a port.
///
/// # Errors
/// It is neither; says what to write instead.
pub fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "write an address, a colon and a port: `127.0.0.1:5000`, `[::1]:5000`; names are not looked up")
}
