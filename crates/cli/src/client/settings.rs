//! The few settings that a command needs before it can ask the controller for anything.
//!
//! A full reading of slurm.conf belongs to the daemons, which refuse a bad file; a command takes what it needs and leaves the
//! rest, so that it starts in no time. Found by SLURM_CONF, else below the command's own prefix, else in the usual places.
//! Source: slurm.conf(5).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Places where a configuration may be, in the order in which they are tried.
const DEFAULT_PATHS: [&str; 5] = [
    "/etc/slurm/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/run/slurm/conf/cluster.jsonc",
];

/// Deepest nesting of `Include`.
const INCLUDE_DEPTH_MAX: usize = 8;

/// What a command knows about its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file they came from; empty when only an address is known.
    pub file: PathBuf,
    /// ClusterName.
    pub cluster: String,
    /// Addresses of the controllers, the primary first.
    pub controllers: Vec<String>,
    /// Host names of the controllers.
    pub controller_hosts: Vec<String>,
    /// SlurmctldPort.
    pub port: u16,
    /// SlurmctldPidFile.
    pub pid_file: PathBuf,
    /// StateSaveLocation.
    pub state_dir: PathBuf,
    /// SlurmdSpoolDir, `%n` and `%h` not replaced.
    pub spool_dir: String,
    /// `jwt_key=` of AuthAltParameters: the cluster key.
    pub jwt_key: Option<PathBuf>,
    /// WaitTime: seconds after the first task's end; 0 = no limit.
    pub wait_time_secs: u32,
    /// KillOnBadExit.
    pub kill_on_bad_exit: bool,
    /// SrunProlog.
    pub srun_prolog: Option<String>,
    /// SrunEpilog.
    pub srun_epilog: Option<String>,
    /// `use_interactive_step` of LaunchParameters.
    pub interactive_step: bool,
}

/// No usable configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// SLURM_CONF names nothing.
    #[error("SLURM_CONF={0}: no such file")]
    Variable(String),
    /// None of the usual places has one.
    #[error("no configuration found: set SLURM_CONF, or create {}", DEFAULT_PATHS[0])]
    Nowhere,
    /// It cannot be read.
    #[error("{path}: {reason}")]
    Unreadable {
        /// File.
        path: String,
        /// Why.
        reason: String,
    },
}

impl Settings {
    /// Finds and reads the configuration; `variable` looks up environment variables.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        if let Some(server) = variable("SLURM_CONF_SERVER").filter(|server| !server.is_empty()) {
            return Ok(Self::from_server(&server));
        }
        let path = match variable("SLURM_CONF").filter(|path| !path.is_empty()) {
            Some(path) if Path::new(&path).is_file() => PathBuf::from(path),
            Some(path) => return Err(SettingsError::Variable(path)),
            None => beside_command(called_as().as_deref(), variable("PATH").as_deref())
                .into_iter()
                .chain(DEFAULT_PATHS.iter().map(PathBuf::from))
                .find(|path| path.is_file())
                .ok_or(SettingsError::Nowhere)?,
        };
        Self::read(&path)
    }

    /// Reads a configuration file.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let mut keys = BTreeMap::new();
        read_keys(path, &mut keys, 0)?;
        let mut settings = Self::from_keys(&keys);
        settings.file = path.to_path_buf();
        Ok(settings)
    }

    /// Only `HOST[:PORT]` is known: the controller answers everything else.
    fn from_server(server: &str) -> Self {
        let (host, port) = match server
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        {
            Some((host, port)) => (host, port),
            None => (server, DEFAULT_PORT),
        };
        let mut settings = Self::from_keys(&BTreeMap::new());
        settings.controllers = vec![host.to_string()];
        settings.controller_hosts = vec![host.to_string()];
        settings.port = port;
        settings
    }

    fn from_keys(keys: &BTreeMap<String, Vec<String>>) -> Self {
        let last = |key: &str| {
            keys.get(key)
                .and_then(|values| values.last())
                .map(String::as_str)
        };
        let hosts = keys
            .get("slurmctldhost")
            .or_else(|| keys.get("controlmachine"))
            .cloned()
            .unwrap_or_default();
        let mut controllers = Vec::new();
        let mut controller_hosts = Vec::new();
        for entry in &hosts {
            let (host, address) = match entry.split_once('(') {
                Some((host, address)) => (host, address.trim_end_matches(')')),
                None => (entry.as_str(), entry.as_str()),
            };
            controller_hosts.push(host.to_string());
            controllers.push(address.to_string());
        }
        if let Some(address) = last("slurmctldaddr").or_else(|| last("controladdr")) {
            controllers = vec![address.to_string()];
        }
        // A range of ports: the first one is as good as any.
        let port = last("slurmctldport")
            .and_then(|text| text.split('-').next()?.parse().ok())
            .unwrap_or(DEFAULT_PORT);
        let has_parameter = |key: &str, word: &str| {
            last(key)
                .is_some_and(|list| list.split(',').any(|item| item.eq_ignore_ascii_case(word)))
        };
        Self {
            file: PathBuf::new(),
            cluster: last("clustername")
                .unwrap_or("cluster")
                .to_ascii_lowercase(),
            controllers,
            controller_hosts,
            port,
            pid_file: PathBuf::from(last("slurmctldpidfile").unwrap_or("/var/run/slurmctld.pid")),
            state_dir: PathBuf::from(last("statesavelocation").unwrap_or("/var/spool")),
            spool_dir: last("slurmdspooldir")
                .unwrap_or("/var/spool/slurmd")
                .to_string(),
            jwt_key: last("authaltparameters")
                .and_then(|list| {
                    list.split(',')
                        .find_map(|item| item.trim().strip_prefix("jwt_key="))
                })
                .map(PathBuf::from),
            wait_time_secs: last("waittime")
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            srun_prolog: last("srunprolog").map(String::from),
            srun_epilog: last("srunepilog").map(String::from),
            kill_on_bad_exit: last("killonbadexit")
                .is_some_and(|text| matches!(text, "1" | "yes" | "YES" | "Yes")),
            interactive_step: has_parameter("launchparameters", "use_interactive_step"),
        }
    }

    /// Where the controller's Unix socket may be.
    #[must_use]
    pub fn socket_candidates(&self) -> Vec<PathBuf> {
        if self.file.as_os_str().is_empty() {
            return Vec::new();
        }
        let beside_pid = self
            .pid_file
            .parent()
            .map(|folder| folder.join(format!("ctld.{}.sock", self.cluster)));
        beside_pid
            .into_iter()
            .chain([self.state_dir.join("ctld.sock")])
            .collect()
    }

    /// Where the cluster key may be, for those who may read it; the same places as the agents'.
    #[must_use]
    pub fn key_candidates(&self) -> Vec<PathBuf> {
        let Some(folder) = self.folder() else {
            return Vec::new();
        };
        let configured = self
            .jwt_key
            .clone()
            .unwrap_or_else(|| self.state_dir.join("jwt_hs256.key"));
        [configured]
            .into_iter()
            .chain(["slurm.key", "jwt_hs256.key"].map(|name| folder.join(name)))
            .collect()
    }

    /// Where the file with the fingerprint of the controller's key may be: beside the configuration, else where ctld wrote it.
    #[must_use]
    pub fn pin_candidates(&self, name: &str) -> Vec<PathBuf> {
        self.folder().map_or_else(Vec::new, |folder| {
            vec![folder.join(name), self.state_dir.join(name)]
        })
    }

    /// Folder of the configuration file, if there is one.
    fn folder(&self) -> Option<&Path> {
        self.file
            .parent()
            .filter(|_| !self.file.as_os_str().is_empty())
    }

    /// Where the agent of `node` on this machine hands out tokens.
    #[must_use]
    pub fn token_socket(&self, host: &str, node: &str) -> PathBuf {
        PathBuf::from(self.spool_dir.replace("%h", host).replace("%n", node)).join("auth.sock")
    }
}

/// The path or name under which this program was called.
fn called_as() -> Option<PathBuf> {
    std::env::args_os().next().map(PathBuf::from)
}

/// Where an installation below a prefix of its own has its configuration: `<prefix>/etc/slurm.conf` for a command called as
/// `<prefix>/bin/NAME`. Tools that take every `SLURM_*` variable away before they call `srun` (snakemake's job steps) find the
/// cluster by it. Links are not followed: the folder of the link is the installation.
fn beside_command(called_as: Option<&Path>, search_path: Option<&str>) -> Vec<PathBuf> {
    let Some(called_as) = called_as else {
        return Vec::new();
    };
    let folder = if called_as.components().count() > 1 {
        called_as.parent().map(Path::to_path_buf)
    } else {
        search_path
            .map(std::env::split_paths)
            .into_iter()
            .flatten()
            .find(|folder| folder.join(called_as).is_file())
    };
    let prefix = folder
        .filter(|folder| folder.is_absolute())
        .and_then(|folder| folder.parent().map(Path::to_path_buf));
    match prefix {
        // The system's own commands have their configuration in the usual places.
        Some(prefix) if prefix != Path::new("/") && prefix != Path::new("/usr") => vec![
            prefix.join("etc/slurm.conf"),
            prefix.join("etc/slurm/slurm.conf"),
        ],
        _ => Vec::new(),
    }
}

/// SlurmctldPort when none is configured.
const DEFAULT_PORT: u16 = 6817;

/// Adds the keys of a file: lower-case name → values in order. Lines of nodes and partitions are left out.
fn read_keys(
    path: &Path,
    keys: &mut BTreeMap<String, Vec<String>>,
    depth: usize,
) -> Result<(), SettingsError> {
    let unreadable = |reason: String| SettingsError::Unreadable {
        path: path.to_string_lossy().into_owned(),
        reason,
    };
    if depth > INCLUDE_DEPTH_MAX {
        return Err(unreadable("Include is nested too deeply".to_string()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    if text.trim_start().starts_with(['{', '/']) {
        return read_document(path, keys).map_err(unreadable);
    }
    for line in logical_lines(&text) {
        if let Some(file) = line.strip_prefix_ignore_case("include ") {
            let file = path.parent().unwrap_or(Path::new("/")).join(file.trim());
            read_keys(&file, keys, depth + 1)?;
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().to_ascii_lowercase();
        if matches!(
            key.as_str(),
            "nodename" | "partitionname" | "nodeset" | "downnodes"
        ) {
            continue;
        }
        keys.entry(key)
            .or_default()
            .push(value.trim().trim_matches('"').to_string());
    }
    Ok(())
}

/// A training-cluster document: its reader gives the settings as slurm.conf would have them.
fn read_document(path: &Path, keys: &mut BTreeMap<String, Vec<String>>) -> Result<(), String> {
    let loaded = sluice_config::ClusterConfig::load(path).map_err(|errors| errors.to_string())?;
    let config = loaded.config;
    let mut set = |key: &str, value: String| keys.entry(key.to_string()).or_default().push(value);
    set("clustername", config.cluster_name.clone());
    for controller in &config.controllers {
        set(
            "slurmctldhost",
            format!("{}({})", controller.host, controller.address()),
        );
    }
    set("slurmctldport", config.slurmctld_port.to_string());
    set("slurmctldpidfile", config.paths.slurmctld_pid_file.clone());
    set(
        "statesavelocation",
        config.paths.state_save_location.clone(),
    );
    set("slurmdspooldir", config.paths.slurmd_spool_dir.clone());
    set(
        "authaltparameters",
        format!("jwt_key={}", config.auth.jwt_key),
    );
    Ok(())
}

/// Lines without comments, with continued lines joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        match line.strip_suffix('\\') {
            Some(part) => {
                open.push_str(part);
                open.push(' ');
            }
            None => {
                open.push_str(line);
                lines.push(std::mem::take(&mut open).trim().to_string());
            }
        }
    }
    lines.push(open.trim().to_string());
    lines.retain(|line| !line.is_empty());
    lines
}

/// `strip_prefix` without regard to case.
trait StripPrefixIgnoreCase {
    fn strip_prefix_ignore_case(&self, prefix: &str) -> Option<&str>;
}

impl StripPrefixIgnoreCase for String {
    fn strip_prefix_ignore_case(&self, prefix: &str) -> Option<&str> {
        let head = self.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix)
            .then(|| &self[prefix.len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys without case, comments, continued lines, Include, and the address in parentheses.
    #[test]
    fn reads_what_it_needs() {
        let folder = tempfile::tempdir().expect("folder");
        let main = folder.path().join("slurm.conf");
        std::fs::write(
            &main,
            "# comment\nClusterName=Oracle # trailing\nslurmctldhost=vm(127.0.0.1)\nINCLUDE more.conf\n\
             StateSaveLocation=\\\n/srv/state\nNodeName=n1 Port=99\n",
        )
        .expect("write");
        std::fs::write(
            folder.path().join("more.conf"),
            "SlurmctldPort=16817-16818\nSlurmctldPidFile=/srv/pid/ctld.pid\nLaunchParameters=x,use_interactive_step\n",
        )
        .expect("write");
        let settings = Settings::read(&main).expect("readable");
        assert_eq!(
            (settings.cluster.as_str(), settings.port),
            ("oracle", 16_817)
        );
        assert_eq!(
            (
                settings.controllers[0].as_str(),
                settings.controller_hosts[0].as_str()
            ),
            ("127.0.0.1", "vm")
        );
        assert!(settings.interactive_step);
        assert_eq!(
            settings.socket_candidates(),
            [
                PathBuf::from("/srv/pid/ctld.oracle.sock"),
                PathBuf::from("/srv/state/ctld.sock")
            ]
        );
    }

    /// Without this, commands whose caller dropped every Slurm variable would not find a cluster of their own prefix.
    #[test]
    fn a_prefix_of_its_own_has_its_configuration() {
        let folder = tempfile::tempdir().expect("folder");
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("bin");
        std::fs::write(bin.join("srun"), "").expect("command");
        let first = folder.path().join("etc/slurm.conf");
        let search = format!("/nonexistent:{}", bin.display());
        assert_eq!(
            beside_command(Some(Path::new("srun")), Some(&search)).first(),
            Some(&first)
        );
        assert_eq!(
            beside_command(Some(&bin.join("srun")), None).first(),
            Some(&first)
        );
        for (called_as, search) in [
            ("squeue", Some(search.as_str())),
            ("srun", None),
            ("./srun", Some(search.as_str())),
            ("/usr/bin/srun", None),
        ] {
            assert!(beside_command(Some(Path::new(called_as)), search).is_empty());
        }
    }

    /// A wrong SLURM_CONF is an error, not a reason to look elsewhere.
    #[test]
    fn finds() {
        let variable =
            |name: &str| (name == "SLURM_CONF").then(|| "/nonexistent/slurm.conf".to_string());
        assert_eq!(
            Settings::find(variable),
            Err(SettingsError::Variable(
                "/nonexistent/slurm.conf".to_string()
            ))
        );
        let server = |name: &str| (name == "SLURM_CONF_SERVER").then(|| "head:7000".to_string());
        let settings = Settings::find(server).expect("an address is enough");
        assert_eq!(
            (settings.controllers, settings.port),
            (vec!["head".to_string()], 7000)
        );
    }
}
