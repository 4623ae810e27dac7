//! Control groups of a step: tracking, memory limit, CPUs, freezing, killing, and the count of kills for memory.
//!
//! Versions 1 and 2 side by side, one folder a controller (version 2: one for all), each `…/job_N/step_S`. Everything is
//! best effort: what the kernel refuses is told once and left out, because tracking by ancestry always works. Limits in
//! bytes. Invariant: the daemon itself is never a member. Source: `cgroup.conf(5)`, the kernel's cgroup documentation.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sluice_model::ids::{JobId, StepId};

use crate::spec::CgroupSettings;

/// The folders of one step.
#[derive(Debug, Clone, Default)]
pub struct Cgroup {
    unified: Option<PathBuf>,
    legacy: Vec<(String, PathBuf)>,
    /// Kills for memory counted before the step began (the count of version 1 is the folder's own and starts at 0).
    memory_limited: bool,
}

impl Cgroup {
    /// Makes the folders and sets the limits. Returns what could not be had, for the log.
    pub fn create(
        settings: Option<&CgroupSettings>,
        job: JobId,
        step: StepId,
        cpus: &[u32],
    ) -> (Self, Vec<String>) {
        let mut cgroup = Self::default();
        let mut complaints = Vec::new();
        let Some(settings) = settings else {
            return (cgroup, complaints);
        };
        let job_name = format!("job_{job}");
        let step_name = format!("step_{step}");
        if let Some(base) = &settings.unified {
            match create_unified(base, &job_name, &step_name, settings, cpus, &mut complaints) {
                Ok(path) => cgroup.unified = Some(path),
                Err(error) => complaints.push(format!(
                    "no control group under {}: {error}",
                    base.display()
                )),
            }
        }
        for (controller, base) in &settings.legacy {
            match create_legacy(controller, base, &job_name, &step_name, settings, cpus) {
                Ok(path) => cgroup.legacy.push((controller.clone(), path)),
                Err(error) => complaints.push(format!(
                    "no {controller} control group under {}: {error}",
                    base.display()
                )),
            }
        }
        cgroup.memory_limited = settings.job_memory_bytes > 0 || settings.step_memory_bytes > 0;
        (cgroup, complaints)
    }

    /// True when the step has at least one folder.
    pub fn is_active(&self) -> bool {
        self.unified.is_some() || !self.legacy.is_empty()
    }

    /// Moves the calling process in.
    ///
    /// # Errors
    /// When the kernel refuses: running outside would escape the limits.
    pub fn enter(&self) -> io::Result<()> {
        for path in self.folders() {
            fs::write(path.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// Moves a process of somebody else in.
    pub fn add(&self, pid: u32) {
        for path in self.folders() {
            // A process that is gone, or that the kernel keeps where it is, is found by ancestry.
            let _ = fs::write(path.join("cgroup.procs"), pid.to_string());
        }
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.unified
            .iter()
            .map(PathBuf::as_path)
            .chain(self.legacy.iter().map(|(_, path)| path.as_path()))
    }

    fn legacy_folder(&self, controller: &str) -> Option<&Path> {
        self.legacy
            .iter()
            .find(|(name, _)| name == controller)
            .map(|(_, path)| path.as_path())
    }

    /// Members, from the first folder.
    pub fn processes(&self) -> Vec<u32> {
        let Some(folder) = self.folders().next() else {
            return Vec::new();
        };
        fs::read_to_string(folder.join("cgroup.procs"))
            .map(|text| text.lines().filter_map(|line| line.parse().ok()).collect())
            .unwrap_or_default()
    }

    /// Kills every member at once where the kernel can (version 2).
    pub fn kill(&self) {
        if let Some(folder) = &self.unified {
            let _ = fs::write(folder.join("cgroup.kill"), "1");
        }
    }

    /// Freezes or thaws all members; false when there is no freezer.
    pub fn freeze(&self, frozen: bool) -> bool {
        if let Some(folder) = &self.unified {
            return fs::write(folder.join("cgroup.freeze"), if frozen { "1" } else { "0" }).is_ok();
        }
        self.legacy_folder("freezer").is_some_and(|folder| {
            fs::write(
                folder.join("freezer.state"),
                if frozen { "FROZEN" } else { "THAWED" },
            )
            .is_ok()
        })
    }

    /// How many members the kernel killed because the memory limit was reached.
    pub fn oom_kills(&self) -> u64 {
        if !self.memory_limited {
            return 0;
        }
        let counted = |path: PathBuf| {
            let text = fs::read_to_string(path).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        };
        let unified = self
            .unified
            .as_ref()
            .and_then(|folder| counted(folder.join("memory.events")));
        let legacy = self
            .legacy_folder("memory")
            .and_then(|folder| counted(folder.join("memory.oom_control")));
        unified.or(legacy).unwrap_or(0)
    }

    /// Removes the step's folders, and the job's when they are empty.
    pub fn remove(&self) {
        for folder in self.folders() {
            if fs::remove_dir(folder).is_ok()
                && let Some(job) = folder.parent()
            {
                // Fails while other steps of the job are there, as it should.
                let _ = fs::remove_dir(job);
            }
        }
    }
}

fn create_unified(
    base: &Path,
    job_name: &str,
    step_name: &str,
    settings: &CgroupSettings,
    cpus: &[u32],
    complaints: &mut Vec<String>,
) -> io::Result<PathBuf> {
    let job = base.join(job_name);
    let step = job.join(step_name);
    fs::create_dir_all(&job)?;
    if settings.job_memory_bytes > 0 || settings.step_memory_bytes > 0 {
        let _ = fs::write(job.join("cgroup.subtree_control"), "+memory");
    }
    if settings.constrain_cores {
        let _ = fs::write(job.join("cgroup.subtree_control"), "+cpuset");
    }
    fs::create_dir_all(&step)?;
    let mut set = |path: PathBuf, value: String| {
        if let Err(error) = fs::write(&path, value) {
            complaints.push(format!("cannot set {}: {error}", path.display()));
        }
    };
    if settings.job_memory_bytes > 0 {
        set(
            job.join("memory.max"),
            settings.job_memory_bytes.to_string(),
        );
        let _ = fs::write(job.join("memory.swap.max"), "0");
    }
    if settings.step_memory_bytes > 0 {
        set(
            step.join("memory.max"),
            settings.step_memory_bytes.to_string(),
        );
    }
    if settings.oom_kill_step {
        set(step.join("memory.oom.group"), "1".to_owned());
    }
    if settings.constrain_cores && !cpus.is_empty() {
        set(step.join("cpuset.cpus"), cpu_list(cpus));
    }
    Ok(step)
}

fn create_legacy(
    controller: &str,
    base: &Path,
    job_name: &str,
    step_name: &str,
    settings: &CgroupSettings,
    cpus: &[u32],
) -> io::Result<PathBuf> {
    let job = base.join(job_name);
    let step = job.join(step_name);
    if controller == "cpuset" {
        // A folder of this controller takes no member before both files have a value.
        for folder in [base, &job, &step] {
            fs::create_dir_all(folder)?;
            for file in ["cpuset.mems", "cpuset.cpus"] {
                let path = folder.join(file);
                if fs::read_to_string(&path)?.trim().is_empty() {
                    let above = folder
                        .parent()
                        .map(|parent| fs::read_to_string(parent.join(file)));
                    fs::write(path, above.transpose()?.unwrap_or_default().trim())?;
                }
            }
        }
        if !cpus.is_empty() {
            fs::write(step.join("cpuset.cpus"), cpu_list(cpus))?;
        }
        return Ok(step);
    }
    fs::create_dir_all(&step)?;
    match controller {
        "memory" => {
            if settings.job_memory_bytes > 0 {
                fs::write(
                    job.join("memory.limit_in_bytes"),
                    settings.job_memory_bytes.to_string(),
                )?;
            }
            if settings.step_memory_bytes > 0 {
                fs::write(
                    step.join("memory.limit_in_bytes"),
                    settings.step_memory_bytes.to_string(),
                )?;
            }
        }
        "devices" => {
            use std::os::unix::fs::{FileTypeExt, MetadataExt};
            for device in &settings.denied_devices {
                let Ok(metadata) = fs::metadata(device) else {
                    continue;
                };
                let kind = match metadata.file_type() {
                    kind if kind.is_char_device() => 'c',
                    kind if kind.is_block_device() => 'b',
                    _ => continue,
                };
                let (major, minor) = (
                    nix::sys::stat::major(metadata.rdev()),
                    nix::sys::stat::minor(metadata.rdev()),
                );
                fs::write(
                    step.join("devices.deny"),
                    format!("{kind} {major}:{minor} rwm"),
                )?;
            }
        }
        _ => {}
    }
    Ok(step)
}

fn cpu_list(cpus: &[u32]) -> String {
    cpus.iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
