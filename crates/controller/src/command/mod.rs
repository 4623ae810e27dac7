//! What may be asked of the engine: one file per subject, each with its checks and the events it makes.
//!
//! A command either makes its events or is rejected with Slurm's error code and changes nothing.

pub mod agent;
pub mod allocation;
pub mod cancel;
pub mod config;
pub mod cron;
pub mod dependency;
pub mod het;
pub mod hold;
pub mod job_end;
pub mod mail;
pub mod node;
pub mod node_create;
pub mod partition;
pub mod plan;
pub mod policy;
pub mod priority;
pub mod reboot;
pub mod requeue;
pub mod reservation;
mod resize;
pub mod selector;
pub mod step;
mod step_distribution;
mod step_extern;
pub mod step_limit;
pub mod submit;
pub mod suspend;
pub mod tick;
pub mod top;
pub mod trigger;
pub mod update;

use std::collections::BTreeSet;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;

use crate::cluster::Job;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// uid.
    pub uid: u32,
    /// Operator, administrator, SlurmUser or root.
    pub privileged: bool,
    /// Accounts whose jobs the caller coordinates, those below them included.
    pub coordinates: BTreeSet<String>,
}

impl Caller {
    /// An ordinary user.
    #[must_use]
    pub const fn user(uid: u32) -> Self {
        Self {
            uid,
            privileged: false,
            coordinates: BTreeSet::new(),
        }
    }

    /// root, and the daemon itself.
    #[must_use]
    pub const fn root() -> Self {
        Self {
            uid: 0,
            privileged: true,
            coordinates: BTreeSet::new(),
        }
    }

    /// Has an operator's rights over the job: an operator, or a coordinator of its account.
    #[must_use]
    pub fn presides_over(&self, job: &Job) -> bool {
        self.privileged || self.coordinates.contains(&job.account)
    }

    /// May change the job: its owner, a coordinator of its account, an operator.
    #[must_use]
    pub fn may_change_job(&self, job: &Job) -> bool {
        self.uid == job.request.uid || self.presides_over(job)
    }

    /// The caller with the rights that he has over this job.
    #[must_use]
    pub fn over(&self, job: &Job) -> Self {
        Self {
            privileged: self.presides_over(job),
            ..self.clone()
        }
    }

    /// May change what belongs to `owner`. Of jobs ask [`Self::may_change_job`].
    #[must_use]
    pub fn may_change(&self, owner: u32) -> bool {
        self.privileged || self.uid == owner
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .text.as_deref().unwrap_or(.code.message()))]
pub struct Rejection {
    /// Slurm's code.
    pub code: ErrorCode,
    /// Our words about object, cause and remedy; `None` = the code's own text is enough.
    pub text: Option<String>,
    /// Line that Slurm's commands print before the error's own.
    pub notice: Option<String>,
}

impl Rejection {
    /// A refusal with the code's own text.
    #[must_use]
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            text: None,
            notice: None,
        }
    }

    /// A refusal with more words.
    #[must_use]
    pub fn with_text(code: ErrorCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: Some(text.into()),
            notice: None,
        }
    }
}

impl From<crate::select::SelectError> for Rejection {
    fn from(error: crate::select::SelectError) -> Self {
        Self {
            code: error.code,
            text: None,
            notice: Some(error.message).filter(|text| !text.is_empty()),
        }
    }
}

impl From<ErrorCode> for Rejection {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

/// Outcome of a command for one of several jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetOutcome {
    /// What the caller typed.
    pub target: String,
    /// Record, when one was found.
    pub job: Option<JobId>,
    /// `None` = done.
    pub rejection: Option<Rejection>,
}
