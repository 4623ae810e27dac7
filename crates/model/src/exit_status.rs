//! Raw wait status of a process: how jobs, steps and tasks end.
//!
//! Invariant: the number is what `waitpid` gave (exit code in bits 8..15, signal in bits 0..6), because Slurm's records
//! and environment variables carry exactly that. Shown as `code:signal`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Raw wait status.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// Exit code 0.
    pub const SUCCESS: Self = Self(0);

    /// Ended by itself with `code` (0 to 255; higher bits are cut as the kernel does).
    #[must_use]
    pub fn exited(code: i32) -> Self {
        Self((code & 0xff) << 8)
    }

    /// Ended by `signal`.
    #[must_use]
    pub fn signaled(signal: i32) -> Self {
        Self(signal & 0x7f)
    }

    /// Exit code; 0 when a signal ended it.
    #[must_use]
    pub fn code(self) -> i32 {
        (self.0 >> 8) & 0xff
    }

    /// Signal; 0 when it ended by itself.
    #[must_use]
    pub fn signal(self) -> i32 {
        self.0 & 0x7f
    }

    /// Left a core file.
    #[must_use]
    pub fn core_dumped(self) -> bool {
        self.signal() != 0 && self.0 & 0x80 != 0
    }

    /// Exit code 0 and no signal.
    #[must_use]
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// What a shell reports: the code, or 128 + signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        if self.signal() == 0 {
            self.code()
        } else {
            128 + self.signal()
        }
    }
}

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.code(), self.signal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits are the kernel's: exit 3 is 0x300, SIGKILL is 9.
    #[test]
    fn bits_and_display() {
        assert_eq!(WaitStatus::exited(3), WaitStatus(0x300));
        assert_eq!(WaitStatus::exited(3).to_string(), "3:0");
        assert_eq!(WaitStatus::signaled(9).to_string(), "0:9");
        assert_eq!(WaitStatus::signaled(9).shell_code(), 137);
        assert_eq!(WaitStatus::exited(256 + 7).code(), 7);
        assert!(WaitStatus(0x8b).core_dumped() && WaitStatus(0x8b).signal() == 11);
        assert!(WaitStatus::SUCCESS.is_success() && !WaitStatus::exited(1).is_success());
    }
}
