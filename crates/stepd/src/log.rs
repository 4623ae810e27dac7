//! The daemon's own messages: one line each on stderr, which the agent connects to the step's log file.
//!
//! A message that cannot be written is dropped: a full disk must not end a step.

use std::io::Write;

/// Writes one line.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "stepd: {text}");
}
