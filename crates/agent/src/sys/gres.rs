//! Generic resources of this node: device files, what of them exists, and the variables that tell a job about its GPUs.
//!
//! A GRES index counts through the node's groups of that name in the order of the configuration. Device files may be
//! ordinary files. Source: `gres.conf(5)`, page `gres`.

use std::path::{Path, PathBuf};

use sluice_config::NodeConfig;
use sluice_model::gres::shares_gpus;
use sluice_model::ids::StepId;
use sluice_model::job::GresAllocation;

/// Device files of one GRES name, by index; `None` where the device has no file.
pub fn device_files(node: &NodeConfig, name: &str) -> Vec<Option<PathBuf>> {
    let mut files = Vec::new();
    for group in node.gres.iter().filter(|group| group.name == name) {
        if group.files.is_empty() {
            files.extend((0..group.count.min(4096)).map(|_| None));
        } else {
            files.extend(group.files.iter().map(|file| Some(PathBuf::from(file))));
        }
    }
    files
}

/// GRES as the configuration counts them, groups of the same name and type added up.
pub fn configured_counts(node: &NodeConfig) -> Vec<GresAllocation> {
    counts(node, |group| group.count)
}

/// GRES with the devices that exist: groups with files count the files that are there.
pub fn found_counts(node: &NodeConfig) -> Vec<GresAllocation> {
    counts(node, |group| {
        if group.files.is_empty() {
            return group.count;
        }
        let present = group
            .files
            .iter()
            .filter(|file| Path::new(file).exists())
            .count() as u64;
        // A file for several devices (count given, one file) stands for all of them.
        if present == group.files.len() as u64 {
            group.count
        } else {
            present
        }
    })
}

fn counts(
    node: &NodeConfig,
    count: impl Fn(&sluice_config::GresConfig) -> u64,
) -> Vec<GresAllocation> {
    let mut all: Vec<GresAllocation> = Vec::new();
    for group in &node.gres {
        match all
            .iter_mut()
            .find(|known| known.name == group.name && known.type_name == group.type_name)
        {
            Some(known) => known.count += count(group),
            None => all.push(GresAllocation {
                name: group.name.clone(),
                type_name: group.type_name.clone(),
                count: count(group),
                indices: Vec::new(),
            }),
        }
    }
    all
}

/// NVIDIA device files of this machine, for `-C` and `-G` without a configuration.
pub fn nvidia_devices() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/dev") else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .to_str()?
                .strip_prefix("nvidia")?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| PathBuf::from(format!("/dev/nvidia{number}")))
        .collect()
}

/// `gpu:h100:4,shard:8`.
pub fn text(gres: &[GresAllocation]) -> String {
    let item = |gres: &GresAllocation| match &gres.type_name {
        Some(type_name) => format!("{}:{type_name}:{}", gres.name, gres.count),
        None => format!("{}:{}", gres.name, gres.count),
    };
    gres.iter().map(item).collect::<Vec<_>>().join(",")
}

/// What the GPU variables are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuAudience {
    /// Prolog and Epilog: global ids.
    Scripts,
    /// Tasks of a step. `relative`: devices are confined, so a job counts its own from 0.
    Step {
        /// Which step.
        step: StepId,
        /// Ids start at 0.
        relative: bool,
    },
}

/// Variables for the GPUs in `gres`.
pub fn gpu_environment(
    node: &NodeConfig,
    gres: &[GresAllocation],
    audience: GpuAudience,
) -> Vec<(String, String)> {
    let own: Vec<&GresAllocation> = gres.iter().filter(|gres| gres.name == "gpu").collect();
    let count: u64 = own.iter().map(|gres| gres.count).sum();
    // A job that shares a GPU sees that one.
    let gpus: Vec<&GresAllocation> = gres
        .iter()
        .filter(|gres| gres.name == "gpu" || (count == 0 && shares_gpus(&gres.name)))
        .collect();
    if gpus.is_empty() {
        return Vec::new();
    }
    let mut environment = Vec::new();
    if matches!(audience, GpuAudience::Step { .. }) && count > 0 {
        environment.push(("SLURM_GPUS_ON_NODE".to_owned(), count.to_string()));
    }
    let files = device_files(node, "gpu");
    let mut indices: Vec<u32> = gpus
        .iter()
        .flat_map(|gres| gres.indices.iter().copied())
        .collect();
    indices.sort_unstable();
    // GPUs without File= (a training-cluster document knows only their number) are told by index too: that is how their
    // driver numbers them. Slurm says nothing there, which leaves the job with all GPUs of the node.
    indices.retain(|index| files.is_empty() || (*index as usize) < files.len());
    if indices.is_empty() {
        return environment;
    }
    let list = |numbers: &[u32]| {
        numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let global = list(&indices);
    let visible = match audience {
        GpuAudience::Step { relative: true, .. } => {
            list(&(0..u32::try_from(indices.len()).unwrap_or(u32::MAX)).collect::<Vec<_>>())
        }
        _ => global.clone(),
    };
    let name = match audience {
        GpuAudience::Scripts
        | GpuAudience::Step {
            step: StepId::Batch,
            ..
        } => "SLURM_JOB_GPUS",
        GpuAudience::Step { .. } => "SLURM_STEP_GPUS",
    };
    environment.push((name.to_owned(), global));
    environment.extend(
        vendor_variables(node)
            .into_iter()
            .map(|name| (name.to_owned(), visible.clone())),
    );
    environment
}

/// Variables of the vendors that the node's GPUs are configured for; all of them when nothing is said.
fn vendor_variables(node: &NodeConfig) -> Vec<&'static str> {
    const VENDORS: [(&str, &str); 4] = [
        ("nvidia_gpu_env", "CUDA_VISIBLE_DEVICES"),
        ("amd_gpu_env", "ROCR_VISIBLE_DEVICES"),
        ("intel_gpu_env", "ZE_AFFINITY_MASK"),
        ("opencl_env", "GPU_DEVICE_ORDINAL"),
    ];
    let flags: Vec<&str> = node
        .gres
        .iter()
        .filter(|group| group.name == "gpu")
        .flat_map(|group| group.flags.iter().map(String::as_str))
        .collect();
    if flags.contains(&"no_gpu_env") {
        return Vec::new();
    }
    let chosen = VENDORS
        .iter()
        .filter(|(flag, _)| flags.contains(flag))
        .map(|(_, name)| *name)
        .collect::<Vec<_>>();
    if chosen.is_empty() {
        VENDORS.iter().map(|(_, name)| *name).collect()
    } else {
        chosen
    }
}

/// Device files of the node's GRES that are not in `gres`: what a confined step may not open.
pub fn denied_devices(node: &NodeConfig, gres: &[GresAllocation]) -> Vec<PathBuf> {
    let mut denied = Vec::new();
    let mut names: Vec<&str> = node.gres.iter().map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    // Shares have no files of their own.
    for name in names.into_iter().filter(|name| !shares_gpus(name)) {
        let granted: Vec<u32> = gres
            .iter()
            .filter(|gres| gres.name == name || (name == "gpu" && shares_gpus(&gres.name)))
            .flat_map(|gres| gres.indices.iter().copied())
            .collect();
        for (index, file) in device_files(node, name).into_iter().enumerate() {
            if let Some(file) = file
                && !granted.iter().any(|granted| *granted as usize == index)
            {
                denied.push(file);
            }
        }
    }
    denied
}

#[cfg(test)]
mod tests {
    use sluice_config::{GresConfig, NodeInitialState};
    use sluice_model::memory::MemoryMib;

    use super::*;

    fn group(files: &[&str], count: u64, flags: &[&str]) -> GresConfig {
        GresConfig {
            name: "gpu".to_owned(),
            type_name: Some("h100".to_owned()),
            count,
            no_consume: false,
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            cores: Vec::new(),
            links: None,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        }
    }

    fn node(gres: Vec<GresConfig>) -> NodeConfig {
        NodeConfig {
            name: "n1".to_owned(),
            hostname: "n1".to_owned(),
            addr: "n1".to_owned(),
            port: 6818,
            cpus: 1,
            boards: 1,
            sockets: 1,
            cores_per_socket: 1,
            threads_per_core: 1,
            real_memory: MemoryMib(1),
            tmp_disk_mib: 0,
            mem_spec_limit: MemoryMib(0),
            core_spec_count: 0,
            cpu_spec_list: Vec::new(),
            features: Vec::new(),
            gres,
            weight: 1,
            state: NodeInitialState::Unknown,
            reason: None,
            cpu_bind: None,
            suspend_time_secs: None,
            topology: None,
            other: Vec::new(),
        }
    }

    fn given(indices: &[u32]) -> Vec<GresAllocation> {
        vec![GresAllocation {
            name: "gpu".to_owned(),
            type_name: Some("h100".to_owned()),
            count: indices.len() as u64,
            indices: indices.to_vec(),
        }]
    }

    fn value(environment: &[(String, String)], name: &str) -> Option<String> {
        environment
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }

    /// Ids are global in scripts and unconfined jobs, and count from 0 inside a confined job (pitfall 19).
    #[test]
    fn gpu_ids_are_global_or_relative() {
        let node = node(vec![
            group(&["/dev/a", "/dev/b"], 2, &[]),
            group(&["/dev/c"], 1, &[]),
        ]);
        let scripts = gpu_environment(&node, &given(&[2, 1]), GpuAudience::Scripts);
        assert_eq!(value(&scripts, "SLURM_JOB_GPUS").as_deref(), Some("1,2"));
        assert_eq!(
            value(&scripts, "CUDA_VISIBLE_DEVICES").as_deref(),
            Some("1,2")
        );
        assert_eq!(value(&scripts, "SLURM_GPUS_ON_NODE"), None);
        let audience = GpuAudience::Step {
            step: StepId::Num(0),
            relative: true,
        };
        let step = gpu_environment(&node, &given(&[1, 2]), audience);
        assert_eq!(value(&step, "SLURM_STEP_GPUS").as_deref(), Some("1,2"));
        assert_eq!(value(&step, "CUDA_VISIBLE_DEVICES").as_deref(), Some("0,1"));
        assert_eq!(value(&step, "ROCR_VISIBLE_DEVICES").as_deref(), Some("0,1"));
        assert_eq!(value(&step, "SLURM_GPUS_ON_NODE").as_deref(), Some("2"));
        assert_eq!(gpu_environment(&node, &[], audience), []);
        assert_eq!(
            denied_devices(&node, &given(&[1])),
            [PathBuf::from("/dev/a"), PathBuf::from("/dev/c")]
        );
    }

    /// GPUs without files are told by index, and the flags of gres.conf choose the vendor's variable.
    #[test]
    fn counted_gpus_are_told_by_index_and_flags_choose_the_vendor() {
        let audience = GpuAudience::Step {
            step: StepId::Batch,
            relative: false,
        };
        let counted = gpu_environment(&node(vec![group(&[], 2, &[])]), &given(&[0, 1]), audience);
        assert_eq!(value(&counted, "SLURM_GPUS_ON_NODE").as_deref(), Some("2"));
        assert_eq!(value(&counted, "SLURM_JOB_GPUS").as_deref(), Some("0,1"));
        assert_eq!(
            value(&counted, "CUDA_VISIBLE_DEVICES").as_deref(),
            Some("0,1")
        );
        let amd = gpu_environment(
            &node(vec![group(&["/dev/a"], 1, &["amd_gpu_env"])]),
            &given(&[0]),
            audience,
        );
        assert_eq!(value(&amd, "ROCR_VISIBLE_DEVICES").as_deref(), Some("0"));
        assert_eq!(value(&amd, "SLURM_JOB_GPUS").as_deref(), Some("0"));
        assert_eq!(value(&amd, "CUDA_VISIBLE_DEVICES"), None);
    }

    /// A missing device file is what drains a node; counting it as present would hand it to jobs.
    #[test]
    fn missing_device_files_are_not_counted() {
        let folder = tempfile::tempdir().expect("folder");
        let there = folder.path().join("gpu0");
        std::fs::write(&there, "").expect("device");
        let there = there.to_string_lossy().into_owned();
        let node = node(vec![group(&[&there, "/nosuch/gpu1"], 2, &[])]);
        assert_eq!(found_counts(&node)[0].count, 1);
        assert_eq!(configured_counts(&node)[0].count, 2);
        assert_eq!(text(&configured_counts(&node)), "gpu:h100:2");
    }
}
