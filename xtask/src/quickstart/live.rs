//! Shows the queue and the nodes while jobs run.
//!
//! On a terminal the last picture is drawn over; elsewhere a picture is printed only when something other than the
//! running time has changed, so that a log stays readable.

use std::io::{IsTerminal, Write};

/// What is on the screen now.
pub(super) struct Live {
    is_terminal: bool,
    drawn_lines: usize,
    last: String,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: std::io::stdout().is_terminal(),
            drawn_lines: 0,
            last: String::new(),
        }
    }

    /// Shows `picture`; `essence` is what must have changed for a log to be worth a new picture.
    pub(super) fn show(&mut self, picture: &str, essence: &str) {
        let mut out = std::io::stdout().lock();
        // A closed standard output is no reason to fail the demonstration.
        let _ = if self.is_terminal {
            let up = match self.drawn_lines {
                0 => String::new(),
                lines => format!("\x1b[{lines}A\x1b[J"),
            };
            self.drawn_lines = picture.lines().count();
            write!(out, "{up}{picture}").and_then(|()| out.flush())
        } else if essence == self.last {
            Ok(())
        } else {
            self.last = essence.to_owned();
            writeln!(out, "{picture}")
        };
    }
}
