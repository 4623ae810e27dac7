//! Where the streams of srun's tasks go, and whether `--pty` has a terminal.
//!
//! Source: srun(1) --input, --output, --error, --pty.

use crate::launch::streams::StreamMode;
use crate::output;
use crate::submit::options::Options;

/// Whether `--pty` has a terminal to be one; says so when it has not.
pub(super) fn has_terminal() -> bool {
    match rustix::termios::tcgetwinsize(std::io::stdin()) {
        Ok(_) => true,
        Err(error) => {
            let text = std::io::Error::from(error);
            output::error_line(format!(
                "srun: error: ioctl(TIOCGWINSZ): {}",
                output::os_text(&text)
            ));
            output::error_line(
                "srun: error: Not using a pseudo-terminal, disregarding --pty option",
            );
            false
        }
    }
}

/// What the three stream options ask for.
pub(super) struct Streams {
    pub input: StreamMode,
    pub output: StreamMode,
    pub error: StreamMode,
}

impl Streams {
    pub(super) fn new(options: &Options) -> Self {
        let output = StreamMode::parse(options.get("output"));
        // Without --error, errors go where output goes.
        let error = if options.has("error") {
            StreamMode::parse(options.get("error"))
        } else {
            output.clone()
        };
        Self {
            input: StreamMode::parse(options.get("input")),
            output,
            error,
        }
    }
}
