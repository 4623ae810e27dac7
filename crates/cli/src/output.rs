//! Standard output and standard error of the commands.
//!
//! stdout carries data, stderr everything else. A reader that went away (`squeue | head`) ends the program quietly, as it
//! ends every filter; it is no panic. Nothing else in this crate prints.

use std::io::{ErrorKind, Write as _};

/// Exit status of a program whose reader is gone: 128 + SIGPIPE.
const BROKEN_PIPE_EXIT: i32 = 141;

/// Writes a line to stdout.
pub fn line(text: impl AsRef<str>) {
    text_out(&format!("{}\n", text.as_ref()));
}

/// Writes lines to stdout, all at once.
pub fn lines(texts: &[String]) {
    text_out(&(texts.join("\n") + "\n"));
}

/// Writes text to stdout as it is.
pub fn text_out(text: &str) {
    bytes_out(text.as_bytes());
}

/// Writes bytes to stdout as they are.
pub fn bytes_out(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush())
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(BROKEN_PIPE_EXIT);
    }
}

/// Writes bytes to stderr as they are; nothing is left to do when that fails.
pub fn bytes_err(bytes: &[u8]) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}

/// Writes a line to stderr.
pub fn error_line(text: impl AsRef<str>) {
    bytes_err(format!("{}\n", text.as_ref()).as_bytes());
}

/// The system's text of an error, without its number.
#[must_use]
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// Writes a line to stderr, and below it what the error advises.
pub fn error_with_hint(text: impl AsRef<str>, error: &crate::client::ClientError) {
    error_line(text);
    if let Some(hint) = error.hint() {
        error_line(format!("hint: {hint}"));
    }
}
