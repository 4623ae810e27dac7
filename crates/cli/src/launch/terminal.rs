//! The terminal of `srun --pty`: its size, and raw mode while the task has it.
//!
//! Invariant: whatever ends srun normally gives the terminal back as it was (the guard's drop).

use std::io::{IsTerminal as _, Stdin, stdin};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// Rows and columns when the terminal does not tell.
const SIZE_DEFAULT: (u16, u16) = (24, 80);

/// Rows and columns of the terminal at standard input.
#[must_use]
pub fn size() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => SIZE_DEFAULT,
    }
}

/// Raw mode until it is dropped.
pub struct RawMode {
    stdin: Stdin,
    before: Option<Termios>,
}

impl RawMode {
    /// Switches a terminal at standard input to raw mode; does nothing when there is none.
    #[must_use]
    pub fn enter() -> Self {
        let stdin = stdin();
        let before = if stdin.is_terminal() {
            tcgetattr(&stdin).ok()
        } else {
            None
        };
        if let Some(before) = &before {
            let mut raw = before.clone();
            cfmakeraw(&mut raw);
            // A terminal that refuses stays as it is: the task works, only less comfortably.
            let _ = tcsetattr(&stdin, SetArg::TCSANOW, &raw);
        }
        Self { stdin, before }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.stdin, SetArg::TCSANOW, before);
        }
    }
}
