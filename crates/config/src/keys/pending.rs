//! Keys that are read and checked, but whose effect is not built yet. Each is said once, so that nobody relies on it.
//!
//! Take a key out of the list in the commit that makes it work. A value that asks for nothing (`0`, `NO`, `none`, `OFF`) is not
//! worth a word.

use super::Scope;

const GLOBAL: &[&str] = &[
    "AccountingStorageEnforce",
    "BatchStartTimeout",
    "CompleteWait",
    "EpilogSlurmctld",
    "InactiveLimit",
    "JobSubmitPlugins",
    "MaxBatchRequeue",
    "MpiDefault",
    "PreemptExemptTime",
    "PreemptMode",
    "PreemptParameters",
    "PreemptType",
    "PrologSlurmctld",
    "ResumeProgram",
    "SchedulerTimeSlice",
    "SuspendProgram",
    "TrackWCKey",
];

const PARTITION: &[&str] = &["AllocNodes", "GraceTime", "PreemptMode", "QOS"];

/// Values that ask for nothing, or for what happens anyway.
const NOTHING: &[&str] = &[
    "",
    "0",
    "-1",
    "no",
    "none",
    "off",
    "flat",
    "default",
    "normal",
    "all",
    "exclusive",
    "unlimited",
    "00:00:00",
];

/// The key has no effect yet, and the value asks for one.
pub(crate) fn has_no_effect_yet(scope: Scope, key: &str, value: &str) -> bool {
    let keys = match scope {
        Scope::Global => GLOBAL,
        Scope::Partition => PARTITION,
        _ => return false,
    };
    let asked = value.trim().to_ascii_lowercase();
    let asked = asked.rsplit('/').next().unwrap_or(&asked);
    keys.contains(&key) && !NOTHING.contains(&asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what asks for something is mentioned.
    #[test]
    fn values_that_ask_for_nothing_are_silent() {
        assert!(has_no_effect_yet(
            Scope::Global,
            "PreemptType",
            "preempt/qos"
        ));
        assert!(!has_no_effect_yet(
            Scope::Global,
            "PreemptType",
            "preempt/none"
        ));
        assert!(!has_no_effect_yet(
            Scope::Global,
            "PriorityWeightAge",
            "1000"
        ));
        assert!(has_no_effect_yet(Scope::Partition, "PreemptMode", "CANCEL"));
        assert!(!has_no_effect_yet(Scope::Partition, "PreemptMode", "OFF"));
        assert!(!has_no_effect_yet(Scope::Global, "KillWait", "30"));
    }
}
