//! Which of a step's GPUs each of its tasks sees: `--gpu-bind`, `--tres-bind`, and one's own with `--gpus-per-task`.
//!
//! Pure. GPUs are known by their place in the step's list on the node. Nothing is enforced here: the variables of the drivers name
//! the chosen ones. `closest` needs to know which GPU is near which CPU and is left alone. Source: srun(1) --gpu-bind.

use sluice_model::cpu_bind::{mask, number, repeated};

use crate::environment::Environment;

/// Variables that list GPUs, in the order of the step's list.
const LISTS: [&str; 5] = [
    "SLURM_STEP_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "GPU_DEVICE_ORDINAL",
];

/// Variable that says how tasks are bound.
const BIND: &str = "SLURMD_TRES_BIND";

/// Places of the GPUs of one task; `None` = it sees all.
fn places(bind: &str, count: usize, local_id: usize) -> Option<Vec<usize>> {
    let words: Vec<&str> = bind.split(',').collect();
    let start = words
        .iter()
        .position(|word| !matches!(*word, "verbose" | "v" | "quiet" | "q" | ""))?;
    let (kind, first) = words[start].split_once(':').unwrap_or((words[start], ""));
    let items: Vec<String> = std::iter::once(first)
        .chain(words[start + 1..].iter().copied())
        .map(str::to_owned)
        .collect();
    let chosen: Vec<usize> = match kind {
        "per_task" => {
            let each: usize = first.parse().ok().filter(|each| *each > 0)?;
            (local_id * each..(local_id + 1) * each).collect()
        }
        "single" => {
            let tasks: usize = first.parse().ok().filter(|tasks| *tasks > 0)?;
            vec![local_id / tasks % count.max(1)]
        }
        "map" | "map_gpu" => {
            let map = repeated(&items, number)?;
            vec![map[local_id % map.len()] as usize]
        }
        "mask" | "mask_gpu" => {
            let masks = repeated(&items, mask)?;
            let set = &masks[local_id % masks.len()];
            set.iter().map(|place| *place as usize).collect()
        }
        _ => return None,
    };
    let there: Vec<usize> = chosen.into_iter().filter(|place| *place < count).collect();
    (!there.is_empty()).then_some(there)
}

/// Leaves one task the GPUs that are meant for it.
pub fn choose(environment: &mut Environment, local_id: usize) {
    let Some(text) = environment.get(BIND) else {
        return;
    };
    let Some(bind) = text.strip_prefix("gres/gpu:").map(str::to_owned) else {
        return;
    };
    for name in LISTS {
        let Some(list) = environment.get(name) else {
            continue;
        };
        let all: Vec<&str> = list.split(',').collect();
        if let Some(places) = places(&bind, all.len(), local_id) {
            let mine: Vec<&str> = places.into_iter().map(|place| all[place]).collect();
            let mine = mine.join(",");
            environment.set(name, mine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a real Slurm gave two tasks with two GPUs.
    #[test]
    fn each_task_its_own() {
        assert_eq!(places("per_task:1", 2, 1), Some(vec![1]));
        assert_eq!(places("single:1", 2, 1), Some(vec![1]));
        assert_eq!(places("single:2", 2, 1), Some(vec![0]));
        assert_eq!(places("map_gpu:1,0", 2, 0), Some(vec![1]));
        assert_eq!(places("mask_gpu:0x3,0x1", 2, 0), Some(vec![0, 1]));
        assert_eq!(places("verbose,mask_gpu:0x3,0x1", 2, 1), Some(vec![0]));
        assert_eq!(places("none", 2, 0), None);
        assert_eq!(places("closest", 2, 0), None);
        assert_eq!(places("per_task:x", 2, 0), None);
    }

    /// The variables of the task, by global and by visible number.
    #[test]
    fn variables() {
        let strings = [
            "SLURMD_TRES_BIND=gres/gpu:per_task:1".to_owned(),
            "SLURM_STEP_GPUS=2,3".to_owned(),
            "CUDA_VISIBLE_DEVICES=0,1".to_owned(),
        ];
        let mut environment = Environment::from_strings(&strings);
        choose(&mut environment, 1);
        assert_eq!(environment.get("SLURM_STEP_GPUS"), Some("3"));
        assert_eq!(environment.get("CUDA_VISIBLE_DEVICES"), Some("1"));
    }
}
