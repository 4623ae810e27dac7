//! A trigger: a program that is run when something happens. Source: strigger(1).
//!
//! Pure data. `due` is set by the first event it waits for; the clock does the rest. Offsets in seconds.

use serde::{Deserialize, Serialize};
use sluice_model::ids::JobId;
use sluice_model::time::UnixSeconds;

/// What a trigger is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerTarget {
    /// Nodes by name; none = every node.
    Nodes(Vec<String>),
    /// A job.
    Job(JobId),
    /// The controller.
    Controller,
    /// The accounting daemon, which is part of the controller here.
    AccountingDaemon,
    /// The accounting database.
    Database,
    /// Burst buffers.
    Other,
}

impl TriggerTarget {
    /// Resource type as strigger prints it.
    #[must_use]
    pub fn resource(&self) -> &'static str {
        match self {
            TriggerTarget::Nodes(_) => "node",
            TriggerTarget::Job(_) => "job",
            TriggerTarget::Controller => "slurmctld",
            TriggerTarget::AccountingDaemon => "slurmdbd",
            TriggerTarget::Database => "database",
            TriggerTarget::Other => "other",
        }
    }
}

/// What a trigger waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TriggerEvent {
    /// A node returned from DOWN.
    Up,
    /// A node went DOWN.
    Down,
    /// A node is drained: nothing runs there any more.
    Drained,
    /// A node is being drained and still has jobs.
    Draining,
    /// A node is failing.
    Fail,
    /// A node has been idle for the offset.
    Idle,
    /// A node was resumed.
    Resume,
    /// The job's time limit comes.
    Time,
    /// The job has ended.
    Fini,
    /// The configuration changed.
    Reconfig,
    /// The controller failed.
    ControllerFailure,
    /// The controller works again after a failure.
    ControllerResumedOperation,
    /// The controller has control again.
    ControllerResumedControl,
    /// No more accounting records can be kept.
    AccountingBufferFull,
    /// The accounting daemon failed.
    AccountingDaemonFailure,
    /// The accounting daemon works again.
    AccountingDaemonResumed,
    /// The database failed.
    DatabaseFailure,
    /// The database works again.
    DatabaseResumed,
    /// The backup controller failed.
    BackupFailure,
    /// The backup controller works again.
    BackupResumed,
    /// The backup controller has taken over.
    BackupControl,
    /// A burst buffer failed.
    BurstBuffer,
}

const WORDS: [(TriggerEvent, &str); 22] = [
    (TriggerEvent::Up, "up"),
    (TriggerEvent::Down, "down"),
    (TriggerEvent::Drained, "drained"),
    (TriggerEvent::Draining, "draining"),
    (TriggerEvent::Fail, "fail"),
    (TriggerEvent::Idle, "idle"),
    (TriggerEvent::Resume, "resume"),
    (TriggerEvent::Time, "time"),
    (TriggerEvent::Fini, "fini"),
    (TriggerEvent::Reconfig, "reconfig"),
    (TriggerEvent::ControllerFailure, "primary_slurmctld_failure"),
    (
        TriggerEvent::ControllerResumedOperation,
        "primary_slurmctld_resumed_operation",
    ),
    (
        TriggerEvent::ControllerResumedControl,
        "primary_slurmctld_resumed_control",
    ),
    (
        TriggerEvent::AccountingBufferFull,
        "primary_slurmctld_acct_buffer_full",
    ),
    (
        TriggerEvent::AccountingDaemonFailure,
        "primary_slurmdbd_failure",
    ),
    (
        TriggerEvent::AccountingDaemonResumed,
        "primary_slurmdbd_resumed_operation",
    ),
    (TriggerEvent::DatabaseFailure, "primary_database_failure"),
    (
        TriggerEvent::DatabaseResumed,
        "primary_database_resumed_operation",
    ),
    (TriggerEvent::BackupFailure, "backup_slurmctld_failure"),
    (
        TriggerEvent::BackupResumed,
        "backup_slurmctld_resumed_operation",
    ),
    (
        TriggerEvent::BackupControl,
        "backup_slurmctld_assumed_control",
    ),
    (TriggerEvent::BurstBuffer, "burst_buffer"),
];

impl TriggerEvent {
    /// Type as strigger prints it and names its options.
    #[must_use]
    pub fn word(self) -> &'static str {
        WORDS
            .iter()
            .find(|(event, _)| *event == self)
            .map_or("unknown", |(_, word)| word)
    }

    /// The event with this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(event, _)| *event)
    }
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Number.
    pub id: u32,
    /// What it is about.
    pub target: TriggerTarget,
    /// What it waits for.
    pub event: TriggerEvent,
    /// Seconds after the event; negative = before it.
    pub offset: i32,
    /// Who set it, and whom the program runs as.
    pub uid: u32,
    /// Program, perhaps with arguments.
    pub program: String,
    /// It stays after it fired.
    pub permanent: bool,
    /// When it fires; set by the event.
    pub due: Option<UnixSeconds>,
    /// Nodes the event was about. Of a permanent idle trigger: those it has fired for.
    pub nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words are read back.
    #[test]
    fn words() {
        for (event, word) in WORDS {
            assert_eq!(TriggerEvent::from_word(word), Some(event));
            assert_eq!(event.word(), word);
        }
    }
}
