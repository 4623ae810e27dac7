//! Faults and warnings found in configuration files.
//!
//! A fault names file, line (or JSON path), key and value, says what is wrong and what would be legal. Readers collect all of them and go
//! on, so that one run shows every fault of a file. No I/O here.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It is used nevertheless.
    Warning,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// File name; empty when there is none.
    pub file: Arc<str>,
    /// Line, from 1; 0 when there is none.
    pub line: u32,
    /// Path inside a JSON document, such as `orchestrator_spec.slurm_spec.config.PreemptMode`.
    pub json_path: Option<Arc<str>>,
}

impl Origin {
    /// A line of a file.
    pub fn line(file: &Arc<str>, line: u32) -> Self {
        Origin {
            file: file.clone(),
            line,
            json_path: None,
        }
    }

    /// A file as a whole.
    pub fn file(file: &str) -> Self {
        Origin {
            file: file.into(),
            line: 0,
            json_path: None,
        }
    }
}

/// One fault or warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// File.
    pub file: String,
    /// Line, from 1; 0 when there is none.
    pub line: u32,
    /// Path inside a JSON document.
    pub json_path: Option<String>,
    /// Key.
    pub key: Option<String>,
    /// Value as written.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be legal, or what to do.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
            if self.line > 0 {
                write!(f, "{}:", self.line)?;
            }
            f.write_str(" ")?;
        }
        f.write_str(match self.severity {
            Severity::Error => "error: ",
            Severity::Warning => "warning: ",
        })?;
        if let Some(path) = &self.json_path {
            write!(f, "{path}: ")?;
        }
        // The end of the path is the key, in the spelling of the document.
        let last = self
            .json_path
            .as_deref()
            .and_then(|p| p.rsplit('.').next())
            .unwrap_or("")
            .replace('_', "");
        let key = self.key.as_ref().filter(|k| !k.eq_ignore_ascii_case(&last));
        match (key, &self.value) {
            (Some(k), Some(v)) => write!(f, "{k}={}: ", shorten(v))?,
            (Some(k), None) => write!(f, "{k}: ")?,
            (None, Some(v)) => write!(f, "`{}`: ", shorten(v))?,
            (None, None) => {}
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// A value may be a whole script; a message shows its beginning.
fn shorten(value: &str) -> String {
    const SHOWN_MAX: usize = 100;
    let line = value.lines().next().unwrap_or("");
    if line.len() == value.len() && line.chars().count() <= SHOWN_MAX {
        return value.to_owned();
    }
    line.chars()
        .take(SHOWN_MAX)
        .chain(std::iter::once('…'))
        .collect()
}

/// All faults of a configuration; the `Err` of the readers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<Diagnostic>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self
            .0
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .enumerate()
        {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

/// A fault in the making: what is known besides the message.
#[derive(Default)]
pub(crate) struct Detail<'a> {
    pub key: Option<&'a str>,
    pub value: Option<&'a str>,
    pub hint: Option<String>,
}

impl<'a> Detail<'a> {
    pub fn key(key: &'a str) -> Self {
        Detail {
            key: Some(key),
            ..Detail::default()
        }
    }

    pub fn pair(key: &'a str, value: &'a str) -> Self {
        Detail {
            key: Some(key),
            value: Some(value),
            hint: None,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Collects diagnostics.
#[derive(Default)]
pub(crate) struct Diagnostics {
    list: Vec<Diagnostic>,
    said: HashSet<String>,
}

impl Diagnostics {
    fn push(&mut self, severity: Severity, origin: &Origin, detail: Detail<'_>, message: String) {
        let diagnostic = Diagnostic {
            severity,
            file: origin.file.to_string(),
            line: origin.line,
            json_path: origin.json_path.as_ref().map(|p| p.to_string()),
            key: detail.key.map(str::to_owned),
            value: detail.value.map(str::to_owned),
            message,
            hint: detail.hint,
        };
        // One line of a file may stand for many nodes; the same words are said once.
        if !self.list.contains(&diagnostic) {
            self.list.push(diagnostic);
        }
    }

    pub fn error(&mut self, origin: &Origin, detail: Detail<'_>, message: impl Into<String>) {
        self.push(Severity::Error, origin, detail, message.into());
    }

    pub fn warn(&mut self, origin: &Origin, detail: Detail<'_>, message: impl Into<String>) {
        self.push(Severity::Warning, origin, detail, message.into());
    }

    /// A warning that is given once for each `subject`, however often it applies.
    pub fn warn_once(
        &mut self,
        subject: String,
        origin: &Origin,
        detail: Detail<'_>,
        message: impl Into<String>,
    ) {
        if self.said.insert(subject) {
            self.warn(origin, detail, message);
        }
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// All diagnostics in order of file and line (files in order of first appearance).
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut files: Vec<&str> = Vec::new();
        for d in &self.list {
            if !files.contains(&d.file.as_str()) {
                files.push(&d.file);
            }
        }
        let rank = |d: &Diagnostic| {
            files
                .iter()
                .position(|f| *f == d.file)
                .unwrap_or(usize::MAX)
        };
        let mut order: Vec<usize> = (0..self.list.len()).collect();
        order.sort_by_key(|i| (rank(&self.list[*i]), self.list[*i].line));
        order.into_iter().map(|i| self.list[i].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form that editors and people can read.
    #[test]
    fn display() {
        let mut diags = Diagnostics::default();
        let file: Arc<str> = "slurm.conf".into();
        diags.error(
            &Origin::line(&file, 7),
            Detail::pair("KillWait", "soon").hint("a number"),
            "not a whole number",
        );
        diags.warn(
            &Origin::line(&file, 3),
            Detail::key("FastSchedule"),
            "has no effect",
        );
        let lines: Vec<String> = diags
            .into_sorted()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                "slurm.conf:3: warning: FastSchedule: has no effect",
                "slurm.conf:7: error: KillWait=soon: not a whole number (a number)"
            ]
        );
    }
}
