//! What srun takes over from the job it is called in, and what it tells its tasks about its own options.
//!
//! Pure. A batch script is told the resources of a task as one list, SLURM_TRES_PER_TASK; for srun the GPUs in it are an option.
//! Names and values are a real Slurm's. Source: srun(1) INPUT and OUTPUT ENVIRONMENT VARIABLES.

use super::caller::Place;
use super::{log_levels, srun_components};
use crate::submit::options::Options;

/// Level of messages of the nodes when nothing is said.
const NODE_LEVEL: usize = 2;

/// Level of srun's own messages when nothing is said.
const OWN_LEVEL: usize = 3;

/// A variable as it stands for an srun of one component.
pub(super) fn variable(place: &Place, group: Option<u32>, name: &str) -> Option<String> {
    let plain = |name: &str| srun_components::variable(place, group, name);
    let list = || plain("SLURM_TRES_PER_TASK");
    match name {
        "SLURM_TRES_PER_TASK" => list().filter(|list| !is_told_otherwise(list)),
        "SLURM_GPUS_PER_TASK" => plain(name).or_else(|| gpus_of(&list()?)),
        _ => plain(name),
    }
}

/// True when everything in the list has an option of its own.
fn is_told_otherwise(list: &str) -> bool {
    list.split(',')
        .all(|item| item.starts_with("cpu=") || item.starts_with("gres/gpu"))
}

/// `gres/gpu:v100=2` as the value of `--gpus-per-task`.
fn gpus_of(list: &str) -> Option<String> {
    list.split(',').find_map(|item| {
        let (name, count) = item.strip_prefix("gres/gpu")?.split_once(['='])?;
        Some(match name.strip_prefix(':') {
            Some(kind) => format!("{kind}:{count}"),
            None => count.to_string(),
        })
    })
}

/// The number of a level of messages, blanks around it or not.
pub(super) fn log_level(text: &str) -> Option<usize> {
    log_levels::number(text.trim())
}

/// `--cpu-freq` as the tasks are told: words with a capital.
fn cpu_frequency(text: &str) -> String {
    let word = |word: &str| {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "highm1" => "HighM1".to_string(),
            "ondemand" => "OnDemand".to_string(),
            "powersave" => "PowerSave".to_string(),
            "userspace" => "UserSpace".to_string(),
            "schedutil" => "SchedUtil".to_string(),
            _ => lower
                .chars()
                .enumerate()
                .map(|(at, letter)| {
                    if at == 0 {
                        letter.to_ascii_uppercase()
                    } else {
                        letter
                    }
                })
                .collect(),
        }
    };
    text.split_inclusive(['-', ':', ','])
        .map(|part| {
            let end = part.trim_end_matches(['-', ':', ',']);
            format!("{}{}", word(end), &part[end.len()..])
        })
        .collect()
}

/// What the tasks are told about options, names without `SLURM_` aside from those of the messages.
pub(super) fn told(options: &Options) -> Vec<(&'static str, String)> {
    let own_level = OWN_LEVEL + options.count("verbose");
    let own_level = if options.has("quiet") {
        OWN_LEVEL - 1
    } else {
        own_level
    };
    let node_level = options
        .get("slurmd-debug")
        .and_then(log_level)
        .unwrap_or(NODE_LEVEL);
    let mut found = vec![
        ("SRUN_DEBUG", own_level.to_string()),
        ("SLURMD_DEBUG", node_level.to_string()),
    ];
    for (name, option) in [
        ("SLURM_LABELIO", "label"),
        ("SLURM_UNBUFFEREDIO", "unbuffered"),
    ] {
        if options.has(option) {
            found.push((name, "1".to_string()));
        }
    }
    if let Some(threads) = options.get("threads-per-core") {
        found.push(("SLURM_THREADS_PER_CORE", threads.to_string()));
    }
    if let Some(frequency) = options.get("cpu-freq") {
        found.push(("SLURM_CPU_FREQ_REQ", cpu_frequency(frequency)));
    }
    if let Some(cpus) = options.typed("cpus-per-task") {
        found.push(("SLURM_TRES_PER_TASK", format!("cpu={cpus}")));
    }
    if let Some(name) = options.typed("job-name") {
        found.push(("SLURM_JOB_NAME", name.to_string()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a batch script is told them.
    #[test]
    fn gpus_of_a_task() {
        assert_eq!(gpus_of("cpu=2,gres/gpu=1").as_deref(), Some("1"));
        assert_eq!(gpus_of("gres/gpu:v100=2").as_deref(), Some("v100:2"));
        assert_eq!(gpus_of("cpu=2"), None);
        assert!(is_told_otherwise("cpu=2,gres/gpu=1"));
        assert!(!is_told_otherwise("cpu=2,license/a=1"));
    }

    /// Levels by number and name; the words of frequencies.
    #[test]
    fn words() {
        assert_eq!(log_level("debug"), Some(5));
        assert_eq!(log_level("4"), Some(4));
        assert_eq!(log_level("loud"), None);
        assert_eq!(cpu_frequency("high"), "High");
        assert_eq!(cpu_frequency("low-HIGHM1:ondemand"), "Low-HighM1:OnDemand");
    }
}
