//! Levels of messages by number and name, as `scontrol setdebug` and `srun --slurmd-debug` take them.
//!
//! Source: slurm.conf(5), SlurmctldDebug.

/// Names, quietest first: their numbers are their places.
pub(super) const NAMES: [&str; 10] = [
    "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5",
];

/// The number of a level that is given by either.
pub(super) fn number(text: &str) -> Option<usize> {
    match text.parse::<usize>() {
        Ok(number) => (number < NAMES.len()).then_some(number),
        Err(_) => NAMES
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!(number("debug"), Some(5));
        assert_eq!(number("4"), Some(4));
        assert_eq!(number("10"), None);
        assert_eq!(number("loud"), None);
    }
}
