//! Lookup tables: addresses and prefixes, or numbers, each with a value. A lookup is a binary
//! search.

use crate::header::Net;
use crate::key::Key;
use std::net::IpAddr;

/// The field of a packet that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Source address.
    Src,
    /// Destination address.
    Dst,
    /// Source port of TCP and UDP.
    Sport,
    /// Destination port.
    Dport,
    /// The protocol's number.
    Protocol,
    /// The DSCP.
    Dscp,
    /// The VLAN.
    Vlan,
}

impl Field {
    /// Names of the fields in a scenario.
    pub const NAMES: &'static [&'static str] =
        &["src", "dst", "sport", "dport", "proto", "dscp", "vlan"];
    const ALL: [Field; 7] = [
        Field::Src,
        Field::Dst,
        Field::Sport,
        Field::Dport,
        Field::Protocol,
        Field::Dscp,
        Field::Vlan,
    ];

    /// Returns the field of this name in a scenario.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The field's name in a scenario.
    pub const fn name(self) -> &'static str {
        Field::NAMES[self as usize]
    }

    /// Returns true if it is an address, and not a number.
    pub const fn is_address(self) -> bool {
        matches!(self, Field::Src | Field::Dst)
    }
}

/// The key of a table's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableEntry {
    /// Addresses of a prefix; if several prefixes contain an address, the longest one applies.
    Net(Net),
    /// Range of numbers, both ends included.
    Numbers(u16, u16),
}

/// A table of entries, each with a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LookupTable {
    name: String,
    /// IPv4 addresses, ascending: from each address on, the value of the longest prefix there, or
    /// none.
    four: Vec<(u32, Option<u32>)>,
    /// The same for IPv6.
    six: RangeSteps,
    /// Ranges of numbers with their values, ascending and without overlap; both ends included.
    numbers: Vec<(u16, u16, u32)>,
}

impl LookupTable {
    /// The table of this name; the value of an entry is its index in `entries`.
    ///
    /// # Errors
    /// Two entries are the same, or their numbers overlap; returns the indices of both.
    pub fn new(name: &str, entries: &[TableEntry]) -> Result<LookupTable, (usize, usize)> {
        let (mut four, mut six, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (n, entry) in entries.iter().enumerate() {
            let value = n as u32;
            match entry {
                TableEntry::Net(net) => {
                    let (low, high) = net.range();
                    let of_version = if net.addr.is_ipv4() { &mut four } else { &mut six };
                    of_version.push((low, high, value));
                }
                TableEntry::Numbers(from, to) => numbers.push((*from, *to, value)),
            }
        }
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            let (a, b) = (pair[0].2 as usize, pair[1].2 as usize);
            return Err((a.min(b), a.max(b)));
        }
        // A step beyond 255.255.255.255 fits no IPv4 address and is left out.
        let within = |(from, value): (u128, Option<u32>)| Some((u32::try_from(from).ok()?, value));
        let four = innermost(four)?.into_iter().filter_map(within).collect();
        Ok(LookupTable { name: name.to_owned(), four, six: innermost(six)?, numbers })
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if it has entries for this kind of field.
    pub fn has(&self, field: Field) -> bool {
        if field.is_address() {
            !(self.four.is_empty() && self.six.is_empty())
        } else {
            !self.numbers.is_empty()
        }
    }

    /// The index of the entry that contains this field of a packet.
    pub fn find(&self, field: Field, key: &Key) -> Option<u32> {
        match field {
            Field::Src => self.address(key.src?),
            Field::Dst => self.address(key.dst?),
            Field::Sport => self.number(key.ports?.0),
            Field::Dport => self.number(key.ports?.1),
            Field::Protocol => self.number(key.protocol?.0.into()),
            Field::Dscp => self.number((key.tos? >> 2).into()),
            Field::Vlan => self.number(key.vlan?),
        }
    }

    fn address(&self, address: IpAddr) -> Option<u32> {
        fn before<T: Copy + Ord>(all: &[(T, Option<u32>)], what: T) -> Option<u32> {
            let behind = all.partition_point(|(from, _)| *from <= what);
            all[..behind].last()?.1
        }
        match address {
            IpAddr::V4(address) => before(&self.four, address.to_bits()),
            IpAddr::V6(address) => before(&self.six, address.to_bits()),
        }
    }

    fn number(&self, number: u16) -> Option<u32> {
        let behind = self.numbers.partition_point(|(from, _, _)| *from <= number);
        self.numbers[..behind].last().filter(|(_, to, _)| number <= *to).map(|(_, _, value)| *value)
    }
}

/// Values by the first address to which they apply, ascending; `None` where no range is.
type RangeSteps = Vec<(u128, Option<u32>)>;

/// Flattens ranges, each pair of which is nested or disjoint, into steps: from each address on, the
/// value of the innermost range.
///
/// # Errors
/// Two ranges are the same; returns their values.
fn innermost(mut ranges: Vec<(u128, u128, u32)>) -> Result<RangeSteps, (usize, usize)> {
    // An outer range comes before the ranges within it.
    ranges.sort_unstable_by_key(|&(low, high, value)| (low, std::cmp::Reverse(high), value));
    if let Some(pair) =
        ranges.windows(2).find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
    {
        return Err((pair[0].2 as usize, pair[1].2 as usize));
    }
    let mut out = RangeSteps::new();
    let mut set = |from: u128, value: Option<u32>| match out.last_mut() {
        Some(last) if last.0 == from => last.1 = value,
        _ => out.push((from, value)),
    };
    let mut open: Vec<(u128, u32)> = Vec::new();
    let close = |open: &mut Vec<(u128, u32)>,
                 until: Option<u128>,
                 set: &mut dyn FnMut(u128, Option<u32>)| {
        while let Some(&(high, _)) = open.last()
            && until.is_none_or(|until| high < until)
        {
            open.pop();
            if let Some(behind) = high.checked_add(1) {
                set(behind, open.last().map(|(_, value)| *value));
            }
        }
    };
    for (low, high, value) in ranges {
        close(&mut open, Some(low), &mut set);
        set(low, Some(value));
        open.push((high, value));
    }
    close(&mut open, None, &mut set);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(address: u32, port: u16) -> Key {
        Key { src: Some(IpAddr::V4(address.into())), ports: Some((port, 0)), ..Key::default() }
    }

    #[test]
    fn names_are_those_of_the_fields() {
        for name in Field::NAMES {
            assert_eq!(Field::from_name(name).map(Field::name), Some(*name));
        }
    }

    #[test]
    fn duplicate_entries_are_refused() {
        let net =
            |text: &str, len| TableEntry::Net(Net::new(text.parse().expect("an address"), len));
        assert_eq!(
            LookupTable::new("t", &[net("10.0.0.0", 8), net("::", 0), net("10.0.0.0", 8)]),
            Err((0, 2))
        );
        assert_eq!(
            LookupTable::new("t", &[TableEntry::Numbers(5, 9), TableEntry::Numbers(9, 10)]),
            Err((0, 1))
        );
        let all = [net("0.0.0.0", 0), net("255.255.255.255", 32), net("::", 0), net("ffff::", 16)];
        let table = LookupTable::new("t", &all).expect("they differ");
        assert_eq!(table.find(Field::Src, &key(u32::MAX, 0)), Some(1));
        assert_eq!(table.find(Field::Src, &key(u32::MAX - 1, 0)), Some(0));
        assert_eq!(table.address("ffff::1".parse().expect("an address")), Some(3));
        assert_eq!(table.address("fffe::1".parse().expect("an address")), Some(2));
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            nets in prop::collection::vec((0u32..64, 24u8..=32), 0..12),
            numbers in prop::collection::vec((0u16..40, 0u16..4), 0..8),
            address in 0u32..80, port in 0u16..50,
        ) {
            let nets = nets
                .into_iter()
                .map(|(a, len)| TableEntry::Net(Net::new(IpAddr::V4((a << 2).into()), len)));
            let numbers =
                numbers.into_iter().map(|(from, more)| TableEntry::Numbers(from, from + more));
            let all: Vec<TableEntry> = nets.chain(numbers).collect();
            let Ok(table) = LookupTable::new("t", &all) else { return Ok(()) };
            let key = key(address << 1, port);
            let of = |entry: &TableEntry| match entry {
                TableEntry::Net(net) if net.contains(key.src.expect("it has one")) => Some(net.len),
                _ => None,
            };
            let longest = all
                .iter()
                .enumerate()
                .filter_map(|(n, e)| Some((of(e)?, n as u32)))
                .max()
                .map(|(_, n)| n);
            prop_assert_eq!(table.find(Field::Src, &key), longest);
            let within = |e: &TableEntry| match e {
                TableEntry::Numbers(from, to) => (*from..=*to).contains(&port),
                _ => false,
            };
            prop_assert_eq!(
                table.find(Field::Sport, &key),
                all.iter().position(within).map(|n| n as u32)
            );
        }
    }
}
