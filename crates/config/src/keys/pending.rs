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

/// Items of SchedulerParameters that change what starts, when, or for whom. Those about Slurm's locks, threads and pauses
/// (bf_yield_interval, max_rpc_cnt, defer …) are not here: there is nothing that they could steer.
#[rustfmt::skip]
const SCHEDULER_ITEMS: &[&str] = &[
    "assoc_limit_stop", "bf_busy_nodes", "bf_hetjob_immediate", "bf_hetjob_prio", "bf_job_part_count_reserve",
    "bf_max_job_assoc", "bf_max_job_part", "bf_max_job_start", "bf_max_job_user", "bf_max_job_user_part",
    "bf_min_age_reserve", "bf_min_prio_reserve", "bf_topopt_enable", "delay_boot", "disable_hetjob_steps",
    "disable_job_shrink", "extra_constraints", "max_array_tasks", "max_depend_depth", "pack_serial_at_end",
    "partition_job_depth", "preempt_reorder_count", "preempt_send_user_signal", "preempt_strict_order",
    "preempt_youngest_first", "reduce_completing_frag", "requeue_on_resume_failure", "salloc_wait_nodes",
    "sbatch_wait_nodes", "sched_max_job_start", "spec_cores_first", "time_min_as_soft_limit", "whole_hetjob",
];

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

/// The items of SchedulerParameters that have no effect yet, as they were written.
pub(crate) fn scheduler_items_without_effect(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| {
        let name = item.split('=').next().unwrap_or_default();
        SCHEDULER_ITEMS.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What limits jobs is named, what steers Slurm's threads is not.
    #[test]
    fn items_that_would_change_what_starts() {
        let value =
            "bf_continue, bf_max_job_user=20,bf_yield_interval=5,salloc_wait_nodes,bf_licenses";
        let found: Vec<&str> = scheduler_items_without_effect(value).collect();
        assert_eq!(found, ["bf_max_job_user=20", "salloc_wait_nodes"]);
    }

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
