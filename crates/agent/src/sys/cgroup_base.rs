//! Where this node's control groups are, and what each step's are limited to.
//!
//! Found once at the start: the mounts of `/proc/self/mounts`, and a folder `sluice-<node>-<hash of the spool directory>`
//! in each hierarchy that is needed, made only as root. What is missing is told once; process tracking then goes by
//! ancestry. Limits in bytes.
//! Source: `cgroup.conf(5)`.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_config::{CgroupPlugin, ClusterConfig, ProctrackKind};
use sluice_model::memory::MemoryMib;
use sluice_stepd::spec::CgroupSettings;
use tracing::{info, warn};

/// The node's folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupBase {
    unified: Option<PathBuf>,
    legacy: Vec<(String, PathBuf)>,
}

/// Hierarchies that are mounted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounts {
    unified: Option<PathBuf>,
    legacy: Vec<(String, PathBuf)>,
}

fn parse_mounts(text: &str) -> Mounts {
    let mut mounts = Mounts::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, folder, kind, options, ..] = fields.as_slice() else {
            continue;
        };
        match *kind {
            "cgroup2" => mounts.unified = mounts.unified.or_else(|| Some(PathBuf::from(folder))),
            "cgroup" => {
                for controller in ["memory", "freezer", "cpuset", "devices"] {
                    if options.split(',').any(|option| option == controller) {
                        mounts
                            .legacy
                            .push((controller.to_owned(), PathBuf::from(folder)));
                    }
                }
            }
            _ => {}
        }
    }
    mounts
}

/// Makes the node's folders; `None` when control groups are off, not asked for or not to be had.
///
/// They are used when the configuration says so (`ProctrackType=proctrack/cgroup`, or task/cgroup with something to
/// constrain): an agent that nobody told to stays inside its own folder. `spool` tells apart nodes of the same name.
pub fn prepare(config: &ClusterConfig, node: &str, spool: &Path) -> Option<CgroupBase> {
    let settings = &config.cgroup;
    let constrains =
        settings.constrain_ram_space || settings.constrain_cores || settings.constrain_devices;
    let tracks = config.agent.proctrack == ProctrackKind::Cgroup
        && config.raw_value("ProctrackType").is_some();
    let wanted = tracks || (config.agent.task_cgroup && constrains);
    if settings.plugin == CgroupPlugin::Disabled || !wanted || !nix::unistd::geteuid().is_root() {
        return None;
    }
    let mounts = parse_mounts(&fs::read_to_string("/proc/self/mounts").unwrap_or_default());
    let folder = format!(
        "sluice-{node}-{:08x}",
        hash(spool.as_os_str().as_encoded_bytes())
    );
    let mut base = CgroupBase::default();
    if settings.plugin != CgroupPlugin::V1
        && let Some(mount) = &mounts.unified
    {
        let path = mount.join(&folder);
        match fs::create_dir_all(&path) {
            Ok(()) => {
                enable_controllers(mount, &path, constrains);
                base.unified = Some(path);
            }
            Err(error) => warn!("no control group {}: {error}", path.display()),
        }
    }
    if settings.plugin != CgroupPlugin::V2 {
        let needed = |controller: &str| match controller {
            "memory" => settings.constrain_ram_space,
            "cpuset" => settings.constrain_cores,
            "devices" => settings.constrain_devices,
            "freezer" => base.unified.is_none(),
            _ => false,
        };
        for (controller, mount) in mounts
            .legacy
            .iter()
            .filter(|(controller, _)| needed(controller))
        {
            let path = mount.join(&folder);
            match fs::create_dir_all(&path) {
                Ok(()) => base.legacy.push((controller.clone(), path)),
                Err(error) => warn!("no control group {}: {error}", path.display()),
            }
        }
    }
    if base == CgroupBase::default() {
        info!("no control groups on this machine: processes are tracked by ancestry");
        return None;
    }
    if constrains {
        base.tell_missing(config);
    }
    Some(base)
}

/// FNV-1a, for a short name that is the same after a restart.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn enable_controllers(mount: &Path, base: &Path, constrains: bool) {
    if !constrains {
        return;
    }
    for controller in ["+memory", "+cpuset"] {
        // The root group usually hands them on already; in a container it may not be allowed to.
        let _ = fs::write(mount.join("cgroup.subtree_control"), controller);
        let _ = fs::write(base.join("cgroup.subtree_control"), controller);
    }
}

impl CgroupBase {
    /// Removes the folders if no step uses them.
    pub fn remove(&self) {
        for folder in self
            .unified
            .iter()
            .chain(self.legacy.iter().map(|(_, folder)| folder))
        {
            let _ = fs::remove_dir(folder);
        }
    }

    fn has(&self, controller: &str) -> bool {
        let unified = self.unified.as_ref().is_some_and(|base| {
            fs::read_to_string(base.join("cgroup.subtree_control"))
                .is_ok_and(|text| text.split_whitespace().any(|name| name == controller))
        });
        unified || self.legacy.iter().any(|(name, _)| name == controller)
    }

    /// Whether GRES devices can be confined here.
    pub fn confines_devices(&self, config: &ClusterConfig) -> bool {
        config.cgroup.constrain_devices && self.legacy.iter().any(|(name, _)| name == "devices")
    }

    fn tell_missing(&self, config: &ClusterConfig) {
        for (key, on, controller) in [
            (
                "ConstrainRAMSpace",
                config.cgroup.constrain_ram_space,
                "memory",
            ),
            ("ConstrainCores", config.cgroup.constrain_cores, "cpuset"),
        ] {
            if on && !self.has(controller) {
                warn!(
                    "{key}=yes has no effect: the kernel offers no {controller} controller to this agent"
                );
            }
        }
        if config.cgroup.constrain_devices && !self.confines_devices(config) {
            warn!(
                "ConstrainDevices=yes has no effect: no devices controller of cgroup version 1 is mounted"
            );
        }
    }

    /// Settings of one step.
    pub fn step_settings(
        &self,
        config: &ClusterConfig,
        job_memory: MemoryMib,
        step_memory: MemoryMib,
        denied_devices: Vec<PathBuf>,
    ) -> CgroupSettings {
        let limit = |memory: MemoryMib| {
            if memory.0 == 0 || !config.cgroup.constrain_ram_space || !self.has("memory") {
                return 0;
            }
            allowed_bytes(
                memory,
                config.cgroup.allowed_ram_space_percent,
                config.cgroup.min_ram_space_mib,
            )
        };
        CgroupSettings {
            unified: self.unified.clone(),
            legacy: self.legacy.clone(),
            job_memory_bytes: limit(job_memory),
            step_memory_bytes: limit(step_memory),
            constrain_cores: config.cgroup.constrain_cores && self.has("cpuset"),
            denied_devices: if self.confines_devices(config) {
                denied_devices
            } else {
                Vec::new()
            },
            oom_kill_step: config
                .agent
                .task_plugin_param
                .iter()
                .any(|item| item.eq_ignore_ascii_case("oomkillstep")),
        }
    }
}

/// AllowedRAMSpace percent of an allocation, but at least MinRAMSpace.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bytes of real memory fit"
)]
fn allowed_bytes(memory: MemoryMib, percent: f64, min_mib: u64) -> u64 {
    const MIB: u64 = 1024 * 1024;
    let allowed = (memory.0 as f64 * percent.max(0.0) / 100.0 * MIB as f64) as u64;
    allowed.max(min_mib * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both versions side by side, as on many machines, and version 2 alone.
    #[test]
    fn mounts_are_recognised() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let mounts = parse_mounts(hybrid);
        assert_eq!(
            mounts.unified,
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(
            mounts.legacy,
            [("memory".to_owned(), PathBuf::from("/sys/fs/cgroup/memory"))]
        );
        let pure = parse_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
        assert_eq!(
            (pure.unified, pure.legacy.len()),
            (Some(PathBuf::from("/sys/fs/cgroup")), 0)
        );
    }

    /// cgroup.conf(5): a percentage of the allocation, with a floor.
    #[test]
    fn allowed_memory() {
        assert_eq!(
            allowed_bytes(MemoryMib(1000), 100.0, 30),
            1000 * 1024 * 1024
        );
        assert_eq!(
            allowed_bytes(MemoryMib(1000), 150.0, 30),
            1500 * 1024 * 1024
        );
        assert_eq!(allowed_bytes(MemoryMib(10), 100.0, 30), 30 * 1024 * 1024);
    }
}
