//! Which options have an effect, and what the user hears about those that have none yet.
//!
//! The one table of that: an engine that begins to read an option strikes it out here. Nothing is lost meanwhile: what has a field
//! is kept there, everything else by name in `extra`. Invariant: an option without effect is named on standard error at submission.

use std::collections::BTreeMap;

use sluice_model::job::JobDescription;

use super::options::Options;

/// Tells whether a request uses an option.
type Uses = fn(&JobDescription) -> bool;

/// Options with a field in the record that neither the scheduler nor the nodes act on yet, and when the notice is due.
const FIELDS_WITHOUT_EFFECT: &[(&str, Uses)] = &[("time-min", |job| job.time_min.is_some())];

/// Entries of `extra` that something reads: no word that they have no effect.
const EFFECTIVE_EXTRAS: &[&str] = &[
    // Variables of the job's environment.
    "get-user-env",
    "hint",
    // Compared with the own cluster before anything is sent.
    "clusters",
    // Read by srun and the step.
    "bcast",
    "bcast-exclude",
    "external-launcher",
    "multi-prog",
    "oom-kill-step",
    "mpi",
    "prolog",
    "epilog",
    "no-allocate",
    "tres-bind",
    "slurmd-debug",
    "send-libs",
    "het-group",
    // Texts and places that are only kept, by their nature.
    "extra",
    "mcs-label",
    // Read by the choice of nodes and devices.
    "consolidate-segments",
    "gres-flags",
    "segment",
    "spread-segments",
    "switches",
    "thread-spec",
    // Read into counts and GRES; kept as the text that is shown.
    "tres-per-task",
];

/// Options that have a field, or that only this process needs.
const HANDLED: &[&str] = &[
    "account",
    "array",
    "async",
    "begin",
    "bell",
    "chdir",
    "comment",
    "constraint",
    "contiguous",
    "core-spec",
    "cores-per-socket",
    "cpu-bind",
    "cpus-per-gpu",
    "cpus-per-task",
    "deadline",
    "dependency",
    "disable-status",
    "distribution",
    "error",
    "exact",
    "exclude",
    "exclusive",
    "export",
    "export-file",
    "extra-node-info",
    "gid",
    "gpu-bind",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "help",
    "hold",
    "ignore-pbs",
    "immediate",
    "input",
    "job-name",
    "jobid",
    "kill-command",
    "kill-on-bad-exit",
    "kill-on-invalid-dep",
    "label",
    "licenses",
    "mail-type",
    "mail-user",
    "mem",
    "mem-bind",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "nice",
    "no-bell",
    "no-kill",
    "no-requeue",
    "no-shell",
    "nodefile",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "open-mode",
    "output",
    "overcommit",
    "overlap",
    "oversubscribe",
    "parsable",
    "partition",
    "prefer",
    "preserve-env",
    "priority",
    "propagate",
    "pty",
    "qos",
    "quiet",
    "quit-on-interrupt",
    "relative",
    "requeue",
    "reservation",
    "signal",
    "sockets-per-node",
    "spread-job",
    "task-epilog",
    "task-prolog",
    "test-only",
    "threads-per-core",
    "time",
    "time-min",
    "tmp",
    "uid",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait",
    "wckey",
    "wrap",
];

/// Options without a field, by name.
pub fn extra(options: &Options) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<String, String> = options
        .names()
        .into_iter()
        .filter(|name| !HANDLED.contains(name))
        .map(|name| {
            let value = options.get(name).unwrap_or_default().to_string();
            (name.to_string(), value)
        })
        .collect();
    if options
        .get("requeue")
        .is_some_and(|word| word.eq_ignore_ascii_case("expedite"))
    {
        kept.insert("requeue".to_string(), "expedite".to_string());
    }
    kept
}

/// The line about options that are only kept; `None` when each does something.
pub fn notice(options: &Options, job: &JobDescription) -> Option<String> {
    let fields = FIELDS_WITHOUT_EFFECT
        .iter()
        .filter(|(_, applies)| applies(job))
        .map(|(name, _)| *name)
        .filter(|name| options.has(name));
    let extras = job
        .extra
        .keys()
        .map(String::as_str)
        .filter(|name| !EFFECTIVE_EXTRAS.contains(name));
    let mut names: Vec<&str> = fields.chain(extras).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| {
        let names: Vec<String> = names.iter().map(|name| format!("--{name}")).collect();
        format!(
            "kept on the job's record, without effect yet: {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, flags_of};

    /// The tables name options that exist.
    #[test]
    fn every_name_is_an_option() {
        let known: Vec<&str> = [Command::Sbatch, Command::Salloc, Command::Srun]
            .into_iter()
            .flat_map(flags_of)
            .map(|flag| flag.name)
            .collect();
        for name in FIELDS_WITHOUT_EFFECT
            .iter()
            .map(|(name, _)| *name)
            .chain(HANDLED.iter().copied())
            .chain(EFFECTIVE_EXTRAS.iter().copied())
        {
            assert!(known.contains(&name), "{name}");
        }
    }

    /// What has a field is not kept a second time by name, or it would be told twice.
    #[test]
    fn fields_are_handled() {
        for (name, _) in FIELDS_WITHOUT_EFFECT {
            assert!(HANDLED.contains(name), "{name}");
        }
    }
}
