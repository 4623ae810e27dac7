//! Amounts of memory: the unit is always MiB, units are powers of 1024.
//!
//! Pure. Invariant: `parse_memory(format_memory(x)) == x`. Source: `sbatch(1)` (--mem), `sacct(1)`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

/// Memory in MiB. `--mem=0` (all memory of the node) is a matter of the caller.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemoryMib(pub u64);

impl MemoryMib {
    /// No memory.
    pub const ZERO: MemoryMib = MemoryMib(0);

    /// In bytes; saturates at the largest `u64`.
    pub fn bytes(self) -> u64 {
        self.0.saturating_mul(1024 * 1024)
    }

    /// Difference that stops at zero.
    pub fn saturating_sub(self, other: MemoryMib) -> MemoryMib {
        MemoryMib(self.0.saturating_sub(other.0))
    }

    /// Difference, or `None` when there is less than that.
    pub fn checked_sub(self, other: MemoryMib) -> Option<MemoryMib> {
        self.0.checked_sub(other.0).map(MemoryMib)
    }

    /// `n` times as much; saturates.
    pub fn saturating_mul(self, n: u64) -> MemoryMib {
        MemoryMib(self.0.saturating_mul(n))
    }
}

impl Add for MemoryMib {
    type Output = MemoryMib;
    fn add(self, other: MemoryMib) -> MemoryMib {
        MemoryMib(self.0.saturating_add(other.0))
    }
}

impl AddAssign for MemoryMib {
    fn add_assign(&mut self, other: MemoryMib) {
        *self = *self + other;
    }
}

impl fmt::Display for MemoryMib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_memory(*self))
    }
}

impl FromStr for MemoryMib {
    type Err = MemoryError;
    fn from_str(text: &str) -> Result<Self, MemoryError> {
        parse_memory(text)
    }
}

/// Why an amount of memory was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid memory size `{text}`: use a whole number with an optional unit K, M (default), G, T or P"
)]
pub struct MemoryError {
    /// What was given.
    pub text: String,
}

/// The unit that a number counts in before [`format_exact`] looks for a larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ByteUnit {
    /// 1024 bytes.
    Kib,
    /// 1024 K.
    Mib,
}

/// Reads `--mem` and its like: a whole number and an optional unit, MiB without one. K rounds up to whole MiB. `GB` and `GiB`
/// mean the same as `G`: many scripts and submitit write them.
///
/// # Errors
/// Anything else, and amounts that do not fit.
pub fn parse_memory(text: &str) -> Result<MemoryMib, MemoryError> {
    let error = || MemoryError {
        text: text.to_owned(),
    };
    let digits_end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_end);
    let number: u64 = digits.parse().map_err(|_| error())?;
    let unit = unit.to_ascii_lowercase();
    let letter = unit
        .strip_suffix("ib")
        .or_else(|| unit.strip_suffix('b'))
        .filter(|letter| !letter.is_empty())
        .unwrap_or(&unit);
    let shift = match letter {
        "k" => return Ok(MemoryMib(number.div_ceil(1024))),
        "" | "m" => 0,
        "g" => 10,
        "t" => 20,
        "p" => 30,
        _ => return Err(error()),
    };
    number
        .checked_mul(1u64 << shift)
        .map(MemoryMib)
        .ok_or_else(error)
}

/// Writes memory as `squeue`, `scontrol` and `sacct` do: the largest unit that divides it evenly.
pub fn format_memory(memory: MemoryMib) -> String {
    format_exact(memory.0, ByteUnit::Mib)
}

/// Writes a number of `unit`s in the largest unit that divides it evenly; zero is a bare `0`. `sacct` writes MaxRSS so, from KiB.
pub fn format_exact(number: u64, unit: ByteUnit) -> String {
    if number == 0 {
        return "0".to_owned();
    }
    let letters: &[char] = match unit {
        ByteUnit::Kib => &['K', 'M', 'G', 'T', 'P', 'E'],
        ByteUnit::Mib => &['M', 'G', 'T', 'P', 'E'],
    };
    let mut value = number;
    let mut steps = 0;
    while value.is_multiple_of(1024) && steps + 1 < letters.len() {
        value /= 1024;
        steps += 1;
    }
    format!("{value}{}", letters[steps])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Units and the rounding of K, as the manual has them.
    #[test]
    fn reads() {
        for (text, mib) in [
            ("0", 0),
            ("100", 100),
            ("100M", 100),
            ("1K", 1),
            ("1024k", 1),
            ("1025K", 2),
            ("4G", 4096),
            ("2t", 2097152),
            ("1P", 1 << 30),
            ("204MB", 204),
            ("440gb", 440 << 10),
            ("2KB", 1),
            ("1GiB", 1024),
        ] {
            assert_eq!(parse_memory(text), Ok(MemoryMib(mib)), "{text}");
        }
        for bad in [
            "",
            "M",
            "-1",
            "abc",
            "1.5G",
            "1B",
            "1iB",
            "1GX",
            "1GBB",
            "1 G",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            assert!(parse_memory(bad).is_err(), "{bad} was accepted");
        }
    }

    /// Values taken from real output: 256000 MiB nodes print 250G, four of them 1000G.
    #[test]
    fn writes() {
        for (mib, text) in [
            (0, "0"),
            (20, "20M"),
            (1000, "1000M"),
            (2000, "2000M"),
            (1024, "1G"),
            (4096, "4G"),
            (256000, "250G"),
            (1024000, "1000G"),
            (1 << 20, "1T"),
        ] {
            assert_eq!(format_memory(MemoryMib(mib)), text);
        }
        assert_eq!(format_exact(1280, ByteUnit::Kib), "1280K");
        assert_eq!(format_exact(353, ByteUnit::Kib), "353K");
        assert_eq!(format_exact(2048, ByteUnit::Kib), "2M");
    }

    proptest! {
        /// Whatever is printed is read back as the same amount.
        #[test]
        fn round_trip(mib in 0u64..(1 << 45)) {
            prop_assert_eq!(parse_memory(&format_memory(MemoryMib(mib))), Ok(MemoryMib(mib)));
        }
    }
}
