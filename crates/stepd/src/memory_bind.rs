//! Which NUMA nodes' memory each task of a step uses: `--mem-bind`.
//!
//! Pure apart from [`numa_nodes`]. A node that the machine does not have is an error of the task, told in Slurm's words. The call that
//! binds is [`crate::process`]'s. Source: srun(1) --mem-bind.

use sluice_model::cpu_bind::{CpuSet, MemBind, kernel_list, mask_text};

/// What one task is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Word of the line of `verbose`; empty = say nothing.
    pub word: &'static str,
    /// Only prefer these nodes.
    pub prefer: bool,
    /// Use memory of these nodes; empty = of the CPU in use.
    pub nodes: Vec<u32>,
    /// Nodes that the line tells.
    pub told: Vec<u32>,
    /// Leave the policy as it is.
    pub unbound: bool,
    /// Why this task cannot be bound.
    pub error: Option<String>,
}

impl MemoryPlan {
    /// The line of `--mem-bind=verbose`.
    #[must_use]
    pub fn line(&self, node: &str, rank: u32, local_id: usize, pid: u32) -> String {
        let set: CpuSet = self.told.iter().copied().collect();
        let mask = mask_text(&set, 1).to_ascii_lowercase();
        let end = if self.unbound { "" } else { " set" };
        format!(
            "mem-bind={} - {node}, task {rank:2} {local_id:2} [{pid}]: mask {mask}{end}\n",
            self.word
        )
    }
}

/// NUMA nodes of this machine; none when the kernel does not tell.
#[must_use]
pub fn numa_nodes() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    kernel_list(&text)
}

/// Decides for one task. `there` are the machine's nodes, `near` those of the task's CPUs.
#[must_use]
pub fn plan(bind: &MemBind, local_id: usize, there: &[u32], near: &[u32]) -> MemoryPlan {
    let local = local_id as u32;
    let first = there.first().copied().into_iter().collect::<Vec<u32>>();
    let (word, wanted, option) = match bind.kind.as_str() {
        "local" => ("LOC", Vec::new(), "local"),
        "rank" => ("RANK", vec![local], "rank"),
        "map_mem:" => {
            let map = bind.map();
            let node = map.get(local_id % map.len().max(1)).copied();
            ("MAP", node.into_iter().collect(), "map_mem")
        }
        "mask_mem:" => {
            let masks = bind.masks();
            let set = masks.get(local_id % masks.len().max(1)).cloned();
            (
                "MASK",
                set.unwrap_or_default().into_iter().collect(),
                "mask_mem",
            )
        }
        _ => ("NONE", Vec::new(), "none"),
    };
    let error = if there.is_empty() && word != "NONE" {
        Some("this machine has no NUMA nodes; memory cannot be bound (--mem-bind)".to_owned())
    } else {
        wanted.iter().find(|node| !there.contains(node)).map(|node| {
            format!(
                "NUMA node {node} does not exist; cannot bind local task {local_id} to it (--mem-bind={option})"
            )
        })
    };
    MemoryPlan {
        word: if bind.verbose { word } else { "" },
        prefer: bind.prefer,
        told: match (&error, word) {
            (Some(_), _) => first,
            (None, "LOC") if !near.is_empty() => near.to_vec(),
            (None, "LOC" | "NONE") => there.to_vec(),
            (None, _) => wanted.clone(),
        },
        nodes: wanted,
        unbound: word == "NONE",
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, local_id: usize) -> MemoryPlan {
        plan(
            &MemBind::parse(text).expect("valid"),
            local_id,
            &[0, 1],
            &[1],
        )
    }

    /// Where each kind puts a task, and the lines as a real Slurm prints them.
    #[test]
    fn kinds() {
        assert_eq!(of("rank", 1).nodes, [1]);
        assert_eq!(of("map_mem:0,1", 2).nodes, [0]);
        assert_eq!(of("mask_mem:0x3", 0).nodes, [0, 1]);
        assert!(of("none", 0).unbound);
        assert_eq!(of("local", 0).told, [1]);
        assert_eq!(
            of("verbose,map_mem:0", 1).line("n1", 1, 1, 7),
            "mem-bind=MAP - n1, task  1  1 [7]: mask 0x1 set\n"
        );
        assert_eq!(
            of("v,none", 0).line("n1", 0, 0, 7),
            "mem-bind=NONE - n1, task  0  0 [7]: mask 0x3\n"
        );
    }

    /// A node that is not there.
    #[test]
    fn missing() {
        assert_eq!(
            of("rank", 2).error.as_deref(),
            Some("NUMA node 2 does not exist; cannot bind local task 2 to it (--mem-bind=rank)")
        );
        let none = plan(&MemBind::parse("local").expect("valid"), 0, &[], &[]);
        assert!(none.error.is_some());
    }
}
