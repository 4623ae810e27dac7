//! `sluice check`: reads any configuration file and reports.
//!
//! The kind of file is told by its name (`…cgroup.conf`, `…gres.conf`, `…topology.conf`, `…slurmdbd.conf`, each also with `.tpl` or
//! `.template`), else by its content. A companion checked alone is checked alone; with slurm.conf it is checked against the nodes too.

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Severity};
use crate::keys::Scope;
use crate::load::read_any;
use crate::slurm::accounting::warn_mysql;
use crate::slurm::assemble::collect_lines;
use crate::slurm::files::{Disk, Files};
use crate::slurm::gres::gres_lines;
use crate::slurm::statement::{Pair, read_file};
use crate::slurm::topology::topology_lines;
use crate::slurm::values::Values;
use std::fmt;
use std::path::Path;

/// What was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: String,
    /// What it was read as.
    pub kind: &'static str,
    /// All faults and warnings, in order.
    pub diagnostics: Vec<Diagnostic>,
    /// What the file means, in a few words; empty when it was refused.
    pub summary: String,
}

impl Report {
    /// Whether there is no error.
    pub fn passed(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// How many of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in &self.diagnostics {
            writeln!(f, "{d}")?;
        }
        let plural = |n: usize, word: &str| {
            if n == 1 {
                format!("1 {word}")
            } else {
                format!("{n} {word}s")
            }
        };
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        write!(f, "{}: ", self.path)?;
        match errors {
            0 => write!(f, "ok")?,
            n => write!(f, "refused, {}", plural(n, "error"))?,
        }
        if warnings > 0 {
            write!(f, ", {}", plural(warnings, "warning"))?;
        }
        write!(f, " ({}", self.kind)?;
        if !self.summary.is_empty() {
            write!(f, ": {}", self.summary)?;
        }
        write!(f, ")")
    }
}

/// Reads a file and reports what is wrong with it.
pub fn check(path: &Path) -> Report {
    let path = path.to_string_lossy();
    let name = path.to_ascii_lowercase();
    let name = name.trim_end_matches(".tpl").trim_end_matches(".template");
    let companions = [
        ("cgroup.conf", Scope::Cgroup),
        ("gres.conf", Scope::Gres),
        ("topology.conf", Scope::Switch),
        ("slurmdbd.conf", Scope::Slurmdbd),
    ];
    match companions.iter().find(|(end, _)| name.ends_with(end)) {
        Some((kind, scope)) => check_companion(&path, kind, *scope, &Disk),
        None => check_main(&path, &Disk),
    }
}

fn check_main(path: &str, files: &dyn Files) -> Report {
    let is_spec = files
        .read(path)
        .is_ok_and(|t| crate::spec::looks_like_spec(path, &t));
    let (read, diagnostics) = read_any(files, path);
    let count = |n: usize, word: &str| {
        if n == 1 {
            format!("1 {word}")
        } else {
            format!("{n} {word}s")
        }
    };
    let summary = read.map(|(config, _)| {
        format!(
            "cluster {}, {}, {}",
            config.cluster_name,
            count(config.nodes.len(), "node"),
            count(config.partitions.len(), "partition")
        )
    });
    let kind = if is_spec {
        "training-cluster document"
    } else {
        "slurm.conf"
    };
    Report {
        path: path.to_owned(),
        kind,
        diagnostics,
        summary: summary.unwrap_or_default(),
    }
}

fn check_companion(path: &str, kind: &'static str, scope: Scope, files: &dyn Files) -> Report {
    let mut diags = Diagnostics::default();
    let statements = read_file(files, path, &mut diags).statements;
    let origin = Origin::file(path);
    match scope {
        Scope::Gres => {
            let lines = collect_lines(Scope::Gres, &statements, &mut diags);
            gres_lines(&lines, &mut diags);
        }
        Scope::Switch => {
            topology_lines(&statements, &mut diags);
        }
        _ => {
            let pairs: Vec<Pair> = statements.into_iter().flatten().collect();
            let values = Values::collect(scope, origin, &pairs, &mut diags);
            if scope == Scope::Slurmdbd {
                warn_mysql(&values, &mut diags);
            }
        }
    }
    Report {
        path: path.to_owned(),
        kind,
        diagnostics: diags.into_sorted(),
        summary: String::new(),
    }
}
