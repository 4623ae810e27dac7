//! Signals: names, numbers, what the C library calls them, and the `--signal` option.
//!
//! Numbers are Linux's (generic architecture). Nothing is sent from here. Source: signal(7), sbatch(1) --signal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Number, name without SIG, and the C library's description.
const SIGNALS: [(u8, &str, &str); 31] = [
    (1, "HUP", "Hangup"),
    (2, "INT", "Interrupt"),
    (3, "QUIT", "Quit"),
    (4, "ILL", "Illegal instruction"),
    (5, "TRAP", "Trace/breakpoint trap"),
    (6, "ABRT", "Aborted"),
    (7, "BUS", "Bus error"),
    (8, "FPE", "Floating point exception"),
    (9, "KILL", "Killed"),
    (10, "USR1", "User defined signal 1"),
    (11, "SEGV", "Segmentation fault"),
    (12, "USR2", "User defined signal 2"),
    (13, "PIPE", "Broken pipe"),
    (14, "ALRM", "Alarm clock"),
    (15, "TERM", "Terminated"),
    (16, "STKFLT", "Stack fault"),
    (17, "CHLD", "Child exited"),
    (18, "CONT", "Continued"),
    (19, "STOP", "Stopped (signal)"),
    (20, "TSTP", "Stopped"),
    (21, "TTIN", "Stopped (tty input)"),
    (22, "TTOU", "Stopped (tty output)"),
    (23, "URG", "Urgent I/O condition"),
    (24, "XCPU", "CPU time limit exceeded"),
    (25, "XFSZ", "File size limit exceeded"),
    (26, "VTALRM", "Virtual timer expired"),
    (27, "PROF", "Profiling timer expired"),
    (28, "WINCH", "Window changed"),
    (29, "IO", "I/O possible"),
    (30, "PWR", "Power failure"),
    (31, "SYS", "Bad system call"),
];

/// Highest signal number that is accepted (the last real-time signal).
const SIGNAL_MAX: u8 = 64;

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signal(u8);

/// A signal that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown signal \"{0}\": use a name such as TERM or SIGTERM, or a number from 1 to 64")]
pub struct SignalError(pub String);

impl Signal {
    /// SIGINT.
    pub const INT: Self = Self(2);
    /// SIGKILL.
    pub const KILL: Self = Self(9);
    /// SIGUSR1.
    pub const USR1: Self = Self(10);
    /// SIGUSR2.
    pub const USR2: Self = Self(12);
    /// SIGTERM.
    pub const TERM: Self = Self(15);
    /// SIGCONT.
    pub const CONT: Self = Self(18);
    /// SIGSTOP.
    pub const STOP: Self = Self(19);

    /// The signal with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        u8::try_from(number)
            .ok()
            .filter(|n| (1..=SIGNAL_MAX).contains(n))
            .map(Self)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// Its name without SIG; `None` for real-time signals.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|(_, name, _)| *name)
    }

    /// What strsignal(3) says.
    #[must_use]
    pub fn description(self) -> String {
        match self.row() {
            Some((_, _, description)) => (*description).to_string(),
            None => format!("Real-time signal {}", self.number() - 34),
        }
    }

    fn row(self) -> Option<&'static (u8, &'static str, &'static str)> {
        SIGNALS.iter().find(|(number, _, _)| *number == self.0)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(&format!("SIG{name}")),
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl FromStr for Signal {
    type Err = SignalError;

    /// `TERM`, `SIGTERM`, `sigterm`, `15`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || SignalError(text.to_string());
        let word = text.trim();
        if let Ok(number) = word.parse::<i32>() {
            return Self::from_number(number).ok_or_else(error);
        }
        let upper = word.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let name = match name {
            "IOT" => "ABRT",
            "CLD" => "CHLD",
            "POLL" => "IO",
            other => other,
        };
        SIGNALS
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(number, _, _)| Self(*number))
            .ok_or_else(error)
    }
}

/// `--signal=[{R|B}:]<sig>[@sec]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SignalSpec {
    /// What is sent.
    pub signal: Signal,
    /// How many seconds before the end of the time limit.
    pub seconds_before_end: u16,
    /// Only to the batch shell (`B:`).
    pub batch_only: bool,
    /// The job may borrow nodes of a reservation with MaxStartDelay (`R:`).
    pub reservation: bool,
}

/// Seconds before the end when the option names none.
pub const SIGNAL_SECONDS_DEFAULT: u16 = 60;

impl FromStr for SignalSpec {
    type Err = SignalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || SignalError(text.to_string());
        let (flags, rest) = text.split_once(':').unwrap_or(("", text));
        let mut spec = Self {
            signal: Signal::USR1,
            seconds_before_end: SIGNAL_SECONDS_DEFAULT,
            batch_only: false,
            reservation: false,
        };
        for flag in flags.chars() {
            match flag.to_ascii_uppercase() {
                'B' => spec.batch_only = true,
                'R' => spec.reservation = true,
                _ => return Err(error()),
            }
        }
        let (signal, seconds) = match rest.split_once('@') {
            Some((signal, seconds)) => (signal, Some(seconds)),
            None => (rest, None),
        };
        spec.signal = signal.parse().map_err(|_| error())?;
        if let Some(seconds) = seconds {
            spec.seconds_before_end = seconds.parse().map_err(|_| error())?;
        }
        Ok(spec)
    }
}

impl fmt::Display for SignalSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reservation {
            f.write_str("R")?;
        }
        if self.batch_only {
            f.write_str("B")?;
        }
        if self.reservation || self.batch_only {
            f.write_str(":")?;
        }
        match self.signal.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "{}", self.signal.number())?,
        }
        write!(f, "@{}", self.seconds_before_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All three spellings of scancel -s.
    #[test]
    fn names_and_numbers() {
        for text in ["TERM", "SIGTERM", "sigterm", "15", "term"] {
            assert_eq!(text.parse(), Ok(Signal::TERM), "{text}");
        }
        for text in ["NOSUCH", "0", "65", "-9", "", "SIG"] {
            assert!(text.parse::<Signal>().is_err(), "{text}");
        }
        assert_eq!(Signal::KILL.description(), "Killed");
        assert_eq!(Signal::KILL.to_string(), "SIGKILL");
    }

    /// Forms of sbatch(1) --signal.
    #[test]
    fn signal_option() {
        let spec: SignalSpec = "B:USR1@120".parse().expect("valid");
        assert_eq!(
            spec,
            SignalSpec {
                signal: Signal::USR1,
                seconds_before_end: 120,
                batch_only: true,
                reservation: false
            }
        );
        assert_eq!(spec.to_string(), "B:USR1@120");
        let plain: SignalSpec = "10".parse().expect("valid");
        assert_eq!((plain.seconds_before_end, plain.batch_only), (60, false));
        for text in ["NOSUCH", "X:TERM", "TERM@", "TERM@70000", "TERM@-1"] {
            assert!(text.parse::<SignalSpec>().is_err(), "{text}");
        }
    }
}
