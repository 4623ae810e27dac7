//! `--dependency`: what a job waits for.
//!
//! Invariant: an expression is all AND (`,`) or all OR (`?`). Whether a target exists or a circle results is the engine's
//! business. Source: sbatch(1) --dependency.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::JobId;

/// Kind of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DependencyKind {
    /// Target started or was cancelled.
    After,
    /// Target ended.
    AfterAny,
    /// Target ended with success.
    AfterOk,
    /// Target ended without success.
    AfterNotOk,
    /// Same task of the target array ended with success.
    AfterCorr,
    /// Target ended and its burst buffer is staged out.
    AfterBurstBuffer,
    /// No other job of this name and user is ahead.
    Singleton,
    /// Grows the target's allocation.
    Expand,
}

impl DependencyKind {
    const NAMES: [(DependencyKind, &'static str); 8] = [
        (DependencyKind::After, "after"),
        (DependencyKind::AfterAny, "afterany"),
        (DependencyKind::AfterOk, "afterok"),
        (DependencyKind::AfterNotOk, "afternotok"),
        (DependencyKind::AfterCorr, "aftercorr"),
        (DependencyKind::AfterBurstBuffer, "afterburstbuffer"),
        (DependencyKind::Singleton, "singleton"),
        (DependencyKind::Expand, "expand"),
    ];

    /// The option's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map(|(kind, _)| *kind)
    }
}

/// How far a dependency is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum DependencyStatus {
    /// Still open.
    #[default]
    Unfulfilled,
    /// Can never be satisfied.
    Failed,
    /// Satisfied; no longer shown.
    Fulfilled,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DependencyTerm {
    /// Kind.
    pub kind: DependencyKind,
    /// Target; meaningless (0) for a singleton.
    pub job: JobId,
    /// Task of a target array.
    pub array_task: Option<u32>,
    /// `after:id+minutes`.
    pub minutes: u32,
}

impl DependencyTerm {
    /// As `scontrol show job` has it: `afterok:20(unfulfilled)`.
    #[must_use]
    pub fn display_with(&self, status: DependencyStatus) -> String {
        match status {
            DependencyStatus::Unfulfilled => format!("{self}(unfulfilled)"),
            DependencyStatus::Failed => format!("{self}(failed)"),
            DependencyStatus::Fulfilled => self.to_string(),
        }
    }
}

impl fmt::Display for DependencyTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.kind == DependencyKind::Singleton {
            return Ok(());
        }
        write!(f, ":{}", self.job)?;
        if let Some(task) = self.array_task {
            write!(f, "_{task}")?;
        }
        if self.minutes > 0 {
            write!(f, "+{}", self.minutes)?;
        }
        Ok(())
    }
}

/// All conditions of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DependencyExpr {
    /// One satisfied term is enough (`?`).
    pub any: bool,
    /// The conditions, without duplicates.
    pub terms: Vec<DependencyTerm>,
}

/// A dependency that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DependencyError {
    /// `,` and `?` together.
    #[error("dependency \"{0}\" mixes ',' (all) and '?' (any): use one of them")]
    MixedSeparators(String),
    /// No such kind.
    #[error(
        "unknown dependency type \"{0}\": use after, afterany, afterok, afternotok, aftercorr, singleton or expand"
    )]
    UnknownKind(String),
    /// Not a job id.
    #[error("\"{0}\" in a dependency is no job id: use for example 20, 20_3 or, with after, 20+5")]
    BadJob(String),
    /// `+min` where it means nothing.
    #[error("\"{0}\": only after takes +minutes, and they must be more than 0")]
    BadMinutes(String),
}

impl FromStr for DependencyExpr {
    type Err = DependencyError;

    /// `afterok:20:21,after:22+5`, `afterok:20?afterok:21`, `singleton`, `20,21` (afterany). An empty text is no dependency.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains(',') && text.contains('?') {
            return Err(DependencyError::MixedSeparators(text.to_string()));
        }
        let any = text.contains('?');
        let mut terms = Vec::new();
        for clause in text.split([',', '?']).map(str::trim) {
            if clause.is_empty() && text.trim().is_empty() {
                continue;
            }
            for term in parse_clause(clause)? {
                if !terms.contains(&term) {
                    terms.push(term);
                }
            }
        }
        Ok(Self { any, terms })
    }
}

fn parse_clause(clause: &str) -> Result<Vec<DependencyTerm>, DependencyError> {
    if clause.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(vec![parse_target(DependencyKind::AfterAny, clause)?]);
    }
    let mut parts = clause.split(':');
    let name = parts.next().unwrap_or_default();
    let kind = DependencyKind::from_name(name)
        .ok_or_else(|| DependencyError::UnknownKind(name.to_string()))?;
    if kind == DependencyKind::Singleton {
        return match parts.next() {
            None => Ok(vec![DependencyTerm {
                kind,
                job: JobId(0),
                array_task: None,
                minutes: 0,
            }]),
            Some(extra) => Err(DependencyError::BadJob(extra.to_string())),
        };
    }
    let terms = parts
        .map(|target| parse_target(kind, target))
        .collect::<Result<Vec<_>, _>>()?;
    if terms.is_empty() {
        Err(DependencyError::BadJob(String::new()))
    } else {
        Ok(terms)
    }
}

fn parse_target(kind: DependencyKind, text: &str) -> Result<DependencyTerm, DependencyError> {
    let bad_job = || DependencyError::BadJob(text.to_string());
    let bad_minutes = || DependencyError::BadMinutes(text.to_string());
    let (target, minutes) = match text.split_once('+') {
        Some((target, minutes)) => {
            let minutes: u32 = minutes.parse().map_err(|_| bad_minutes())?;
            if minutes == 0 || kind != DependencyKind::After {
                return Err(bad_minutes());
            }
            (target, minutes)
        }
        None => (text, 0),
    };
    let (job, array_task) = match target.split_once('_') {
        // `20_*` names the whole array, as squeue writes it.
        Some((job, "*")) => (job, None),
        Some((job, task)) => (job, Some(task.parse().map_err(|_| bad_job())?)),
        None => (target, None),
    };
    let job: u32 = job.parse().ok().filter(|id| *id > 0).ok_or_else(bad_job)?;
    Ok(DependencyTerm {
        kind,
        job: JobId(job),
        array_task,
        minutes,
    })
}

impl fmt::Display for DependencyExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.any { "?" } else { "," };
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(separator)?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forms of sbatch(1); each must come back as its normal text.
    #[test]
    fn parses_and_prints() {
        let rows = [
            (
                "afterok:20:21,afterany:23",
                false,
                "afterok:20,afterok:21,afterany:23",
            ),
            ("afterok:20?afternotok:21", true, "afterok:20?afternotok:21"),
            ("after:20+5", false, "after:20+5"),
            ("singleton", false, "singleton"),
            ("12,13", false, "afterany:12,afterany:13"),
            ("aftercorr:9_3", false, "aftercorr:9_3"),
            ("AFTEROK:9", false, "afterok:9"),
            ("afterok:9,afterok:9", false, "afterok:9"),
            ("afterany:9_*", false, "afterany:9"),
            ("", false, ""),
        ];
        for (text, any, shown) in rows {
            let expr: DependencyExpr = text.parse().expect(text);
            assert_eq!(
                (expr.any, expr.to_string().as_str()),
                (any, shown),
                "{text}"
            );
        }
        let term = &"afterok:20".parse::<DependencyExpr>().expect("valid").terms[0];
        assert_eq!(
            term.display_with(DependencyStatus::Unfulfilled),
            "afterok:20(unfulfilled)"
        );
        assert_eq!(
            term.display_with(DependencyStatus::Failed),
            "afterok:20(failed)"
        );
    }

    /// What Slurm answers with "Job dependency problem".
    #[test]
    fn refuses() {
        for text in [
            "nosuch:1",
            "afterok",
            "afterok:",
            "afterok:x",
            "afterok:0",
            "afterok:1,afterany:2?afterok:3",
            "after:20+0",
            "after:20+-1",
            "afterok:20+5",
            "singleton:3",
            "afterok:1,",
        ] {
            assert!(text.parse::<DependencyExpr>().is_err(), "{text}");
        }
    }
}
