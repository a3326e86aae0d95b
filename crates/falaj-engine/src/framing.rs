//! What a packet costs on the link beyond the bytes that its account counts.

/// Bytes that the link adds to each packet or takes from it, and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// So many bytes more, or fewer.
    pub overhead: i32,
    /// What the sum is carried in.
    pub cells: Cells,
    /// The longest packet that is taken, before all that.
    pub largest: u32,
}

/// What bytes are carried in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cells {
    /// As they are.
    #[default]
    None,
    /// Whole cells of ATM: 53 bytes for 48.
    Atm,
    /// PTM of VDSL: a byte more for each 64.
    Ptm,
}

impl Cells {
    /// Their names in a scenario.
    pub const NAMES: &'static [&'static str] = &["none", "atm", "ptm"];

    /// By its name in a scenario.
    pub fn from_name(name: &str) -> Option<Cells> {
        let all = [Cells::None, Cells::Atm, Cells::Ptm];
        Cells::NAMES.iter().position(|n| *n == name).map(|n| all[n])
    }
}

impl Framing {
    /// What a packet of so many bytes costs; one at least, and below 2^31.
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
