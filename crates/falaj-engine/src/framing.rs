//! Framing: the bytes of a packet on the link beyond those that its accounting layer counts.

/// Bytes that the link adds to each packet or removes from it, and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each packet; negative: removed.
    pub overhead: i32,
    /// The cells that carry the packet and the added bytes.
    pub cells: Cells,
    /// The longest packet that is accepted, before overhead and cells.
    pub largest: u32,
}

/// Cells that carry a packet's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cells {
    /// No cells.
    #[default]
    None,
    /// Whole cells of ATM: 53 bytes on the link for every 48 bytes begun.
    Atm,
    /// PTM of VDSL: one more byte for every 64 bytes begun.
    Ptm,
}

impl Cells {
    /// Names of the cells in a scenario.
    pub const NAMES: &'static [&'static str] = &["none", "atm", "ptm"];

    /// Returns the cells of this name in a scenario.
    pub fn from_name(name: &str) -> Option<Cells> {
        let all = [Cells::None, Cells::Atm, Cells::Ptm];
        Cells::NAMES.iter().position(|n| *n == name).map(|n| all[n])
    }
}

impl Framing {
    /// Bytes on the link of a packet of `bytes` bytes; at least one, and below 2^31.
    pub fn of(&self, bytes: u32) -> u32 {
        const LONGEST: i64 = (1 << 31) - 1;
        let sum = (i64::from(bytes) + i64::from(self.overhead)).max(1);
        let whole = match self.cells {
            Cells::None => sum,
            Cells::Atm => (sum as u64).div_ceil(48) as i64 * 53,
            Cells::Ptm => sum + (sum as u64).div_ceil(64) as i64,
        };
        whole.min(LONGEST) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads_and_cells() {
        let of = |overhead, cells, bytes| Framing { overhead, cells, largest: 1514 }.of(bytes);
        assert_eq!(of(24, Cells::None, 1514), 1538);
        assert_eq!([of(-14, Cells::None, 1514), of(-14, Cells::None, 10)], [1500, 1]);
        assert_eq!([40, 41, 88, 89].map(|bytes| of(8, Cells::Atm, bytes)), [53, 106, 106, 159]);
        assert_eq!([64, 65, 1500].map(|bytes| of(0, Cells::Ptm, bytes)), [65, 67, 1524]);
        assert_eq!(of(65_535, Cells::Atm, u32::MAX), (1 << 31) - 1);
    }
}
