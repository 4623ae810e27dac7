//! From flags, `#SBATCH` lines and environment variables to a job request.
//!
//! Pure except for [`script`] (reads the script), [`nodes`] (reads files of names) and [`rlimits`] (reads this process's limits). Nothing here talks to the
//! controller. Precedence: command line, then environment variable, then `#SBATCH` line. Source: sbatch(1), srun(1).

mod checks;
pub mod components;
pub mod description;
pub mod effects;
pub mod environment;
mod foreign;
pub mod listing;
pub mod nodes;
pub mod options;
pub mod resources;
pub mod rlimits;
pub mod script;
pub mod variables;

use std::fmt;

/// A refused request: what to print on stderr and the exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Lines as they are, without the command's name.
    pub plain: Vec<String>,
    /// Lines after `<command>: error: `.
    pub errors: Vec<String>,
    /// Line after `<command>: fatal: `.
    pub fatal: Option<String>,
    /// Exit status.
    pub exit_code: i32,
}

impl Refusal {
    /// A bad option value: exit status 255.
    #[must_use]
    pub fn option(message: impl Into<String>) -> Self {
        Self {
            plain: Vec::new(),
            errors: vec![message.into()],
            fatal: None,
            exit_code: 255,
        }
    }

    /// The usual text for a bad value of `--name`.
    #[must_use]
    pub fn invalid(name: &str) -> Self {
        Self::option(format!("Invalid --{name} specification"))
    }

    /// An error with exit status 1.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            plain: Vec::new(),
            errors: vec![message.into()],
            fatal: None,
            exit_code: 1,
        }
    }

    /// A fatal error with exit status 1.
    #[must_use]
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            plain: Vec::new(),
            errors: Vec::new(),
            fatal: Some(message.into()),
            exit_code: 1,
        }
    }

    /// The lines to print for `command`.
    #[must_use]
    pub fn lines(&self, command: &str) -> Vec<String> {
        let mut lines = self.plain.clone();
        lines.extend(
            self.errors
                .iter()
                .map(|text| format!("{command}: error: {text}")),
        );
        lines.extend(
            self.fatal
                .iter()
                .map(|text| format!("{command}: fatal: {text}")),
        );
        lines
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines("error").join("\n"))
    }
}

impl std::error::Error for Refusal {}
