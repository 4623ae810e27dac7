//! Settings of a private cluster, and the writing of its folder.
//!
//! The folder after writing: `etc/` (configuration, prolog and epilog), `bin/` (commands), `state/`, `spool/`, `run/`,
//! `log/`, `dev/` (fake GPUs), `work/` (where commands run), `cluster.json`. Nothing outside it is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::unistd::{Uid, User, gethostname};
use tempfile::TempDir;

use crate::binaries::BinDir;
use crate::cluster::Cluster;
use crate::conf::{self, ConfFiles, ConfSettings, Layout};
use crate::ports::PortRun;

/// Longest folder path, in bytes. A Unix socket's path may have 107 bytes, and the longest socket below the folder is
/// a step daemon's (`/spool/n1/job67043328/step_4294967291/…`).
const DIR_BYTES_MAX: usize = 56;

type CustomConf = Box<dyn FnOnce(&Layout) -> ConfFiles>;

/// Settings of a private cluster; each has a default that suits a test.
pub struct ClusterBuilder {
    dir: Option<PathBuf>,
    bin: Option<BinDir>,
    cluster_name: String,
    settings: ConfSettings,
    prolog: Option<String>,
    epilog: Option<String>,
    custom: Option<CustomConf>,
}

impl ClusterBuilder {
    pub(crate) fn new() -> Self {
        Self {
            dir: None,
            bin: None,
            cluster_name: "test".to_owned(),
            settings: ConfSettings {
                nodes: 4,
                cpus: 4,
                memory_mib: 4000,
                gpus: 4,
                kill_wait_secs: 5,
                debug_level: "debug".to_owned(),
                partition: "MaxTime=1-00:00:00".to_owned(),
                has_prolog: false,
                has_epilog: false,
                configless: false,
                lines: Vec::new(),
            },
            prolog: None,
            epilog: None,
            custom: None,
        }
    }

    /// The folder; it is made, and must be empty or absent. Default: a temporary one, removed at the end.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Where the built programs are. Default: beside the running executable.
    #[must_use]
    pub fn bin_dir(mut self, bin: BinDir) -> Self {
        self.bin = Some(bin);
        self
    }

    /// ClusterName. Default: `test`.
    #[must_use]
    pub fn cluster_name(mut self, name: &str) -> Self {
        self.cluster_name = name.to_owned();
        self
    }

    /// Number of nodes, named `n1`, `n2`, …. Default: 4.
    #[must_use]
    pub fn nodes(mut self, count: u16) -> Self {
        self.settings.nodes = count;
        self
    }

    /// CPUs of each node. Default: 4.
    #[must_use]
    pub fn cpus(mut self, count: u32) -> Self {
        self.settings.cpus = count;
        self
    }

    /// RealMemory of each node. Default: 4000 MiB. A job that asks for none gets 128 MiB per CPU.
    #[must_use]
    pub fn memory_mib(mut self, mib: u64) -> Self {
        self.settings.memory_mib = mib;
        self
    }

    /// Fake GPUs of each node (type `fake`, ordinary files). Default: 4.
    #[must_use]
    pub fn gpus(mut self, count: u32) -> Self {
        self.settings.gpus = count;
        self
    }

    /// KillWait in seconds. Default: 5.
    #[must_use]
    pub fn kill_wait_secs(mut self, secs: u32) -> Self {
        self.settings.kill_wait_secs = secs;
        self
    }

    /// SlurmctldDebug and SlurmdDebug. Default: `debug`.
    #[must_use]
    pub fn debug_level(mut self, level: &str) -> Self {
        self.settings.debug_level = level.to_owned();
        self
    }

    /// Options of the partition `main` besides its nodes. Default: `MaxTime=1-00:00:00`.
    #[must_use]
    pub fn partition(mut self, options: &str) -> Self {
        self.settings.partition = options.to_owned();
        self
    }

    /// Text of the Prolog script.
    #[must_use]
    pub fn prolog(mut self, text: &str) -> Self {
        self.settings.has_prolog = true;
        self.prolog = Some(text.to_owned());
        self
    }

    /// Text of the Epilog script.
    #[must_use]
    pub fn epilog(mut self, text: &str) -> Self {
        self.settings.has_epilog = true;
        self.epilog = Some(text.to_owned());
        self
    }

    /// One more line of slurm.conf.
    #[must_use]
    pub fn conf_line(mut self, line: &str) -> Self {
        self.settings.lines.push(line.to_owned());
        self
    }

    /// Agents get no file: they fetch their configuration from `ctld`.
    #[must_use]
    pub fn configless(mut self) -> Self {
        self.settings.configless = true;
        self
    }

    /// Configuration files of the test's own making, in place of the generated ones. Ports for as many agents as
    /// [`ClusterBuilder::nodes`] says are reserved and given in the layout.
    #[must_use]
    pub fn custom_conf(mut self, write: impl FnOnce(&Layout) -> ConfFiles + 'static) -> Self {
        self.custom = Some(Box::new(write));
        self
    }

    /// Writes the folder and starts the daemons. [`Cluster::wait_ready`] waits until they serve.
    ///
    /// # Errors
    /// When a program is missing, the folder cannot be made, or a daemon cannot be started.
    pub fn start(self) -> Result<Cluster> {
        let mut cluster = self.write()?;
        cluster.start_ctld()?;
        for node in cluster.nodes().to_vec() {
            cluster.start_agent(&node)?;
        }
        Ok(cluster)
    }

    /// Writes the folder and starts nothing.
    ///
    /// # Errors
    /// When a program is missing or the folder cannot be made.
    pub fn write(self) -> Result<Cluster> {
        let bin = match self.bin {
            Some(bin) => bin,
            None => BinDir::of_current_exe()?,
        };
        let (dir, temporary) = folder(self.dir)?;
        let ports = PortRun::reserve(1 + self.settings.nodes)?;
        let layout = Layout {
            host: short_host_name()?,
            user: current_user()?,
            cluster_name: self.cluster_name,
            ctld_port: ports.port(0),
            node_ports: (1..=self.settings.nodes)
                .map(|nth| ports.port(nth))
                .collect(),
            dir,
        };
        for sub in ["etc", "state", "spool", "run", "log", "dev", "work"] {
            let path = layout.path(sub);
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        // Jobs of any user may write there, like in /tmp.
        fs::set_permissions(layout.path("work"), Permissions::from_mode(0o1777))?;
        for nth in 0..self.settings.gpus {
            fs::write(layout.path(&format!("dev/gpu{nth}")), "")?;
        }
        for (name, text) in [("prolog.sh", &self.prolog), ("epilog.sh", &self.epilog)] {
            if let Some(text) = text {
                write_script(&layout.path("etc").join(name), text)?;
            }
        }
        let conf = match self.custom {
            Some(write) => write(&layout),
            None => conf::generate(&layout, &self.settings),
        };
        for (name, text) in &conf.files {
            fs::write(layout.path("etc").join(name), text)?;
        }
        bin.link_commands(&layout.path("bin"))?;
        Ok(Cluster::new(
            layout,
            &conf,
            bin,
            self.settings.configless,
            ports,
            temporary,
        ))
    }
}

/// The absolute folder, made if need be; and its owner when it is a temporary one.
fn folder(wanted: Option<PathBuf>) -> Result<(PathBuf, Option<TempDir>)> {
    let (dir, temporary) = match wanted {
        Some(dir) => {
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            (dir, None)
        }
        None => {
            let temporary = tempfile::Builder::new().prefix("sluice-").tempdir()?;
            // Jobs of other users must be able to go in.
            fs::set_permissions(temporary.path(), Permissions::from_mode(0o755))?;
            (temporary.path().to_path_buf(), Some(temporary))
        }
    };
    let dir = dir.canonicalize()?;
    let bytes = dir.as_os_str().len();
    if bytes > DIR_BYTES_MAX {
        bail!(
            "the path {} has {bytes} bytes, but sockets below it need it to have at most {DIR_BYTES_MAX}: choose a shorter one",
            dir.display()
        );
    }
    if fs::read_dir(&dir)?.next().is_some() {
        bail!(
            "{} is not empty: choose another folder, or remove it first",
            dir.display()
        );
    }
    Ok((dir, temporary))
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

fn short_host_name() -> Result<String> {
    let name = gethostname().context("cannot read the host name")?;
    let name = name.to_string_lossy();
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}

fn current_user() -> Result<String> {
    let uid = Uid::effective();
    let user = User::from_uid(uid)?.with_context(|| format!("uid {uid} has no user name"))?;
    Ok(user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a daemon would fail later with "path too long" on a socket nobody knows of.
    #[test]
    fn a_folder_too_deep_for_sockets_is_refused_at_once() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a".repeat(DIR_BYTES_MAX));
        let error = folder(Some(deep)).unwrap_err().to_string();
        assert!(error.contains("at most 56"), "{error}");
    }

    /// Without this, quickstart could write over somebody's files.
    #[test]
    fn a_folder_in_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("thesis.tex"), "").unwrap();
        let error = folder(Some(base.path().to_path_buf()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not empty"), "{error}");
    }
}
