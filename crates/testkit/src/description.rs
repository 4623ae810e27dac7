//! `cluster.json`: what a started cluster writes into its folder, so that `sluice down` can end it later.
//!
//! Format 1, one JSON object:
//!
//! | key | value |
//! | --- | --- |
//! | `format` | 1 |
//! | `cluster` | ClusterName |
//! | `conf` | absolute path of the configuration file (the value for `SLURM_CONF`) |
//! | `bin` | absolute path of the folder with the commands (for `PATH`) |
//! | `daemons` | list of `{role, name, pid, start_ticks, port}`; role is `ctld` or `agentd`, name the host or node |
//!
//! `pid` together with `start_ticks` (clock ticks after boot, proc(5)) names one process for good. A reader refuses a
//! format that it does not know. Only the file is read and written here; no process is touched.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process::ProcessId;

const FORMAT: u64 = 1;
const FILE_NAME: &str = "cluster.json";

/// What a daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The head-node daemon.
    Ctld,
    /// A compute-node daemon.
    Agentd,
}

impl Role {
    /// Name of the program, and of the role in the file.
    pub fn program(self) -> &'static str {
        match self {
            Self::Ctld => "ctld",
            Self::Agentd => "agentd",
        }
    }
}

/// One started daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonRecord {
    /// What it is.
    pub role: Role,
    /// Host of a `ctld`, node name of an `agentd`.
    pub name: String,
    /// Its process.
    pub process: ProcessId,
    /// TCP port on which it listens.
    pub port: u16,
}

/// The content of `cluster.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// ClusterName.
    pub cluster: String,
    /// Configuration file: the value for `SLURM_CONF`.
    pub conf: PathBuf,
    /// Folder with the commands.
    pub bin: PathBuf,
    /// The daemons, `ctld` first.
    pub daemons: Vec<DaemonRecord>,
}

impl Description {
    /// Whether `dir` is the folder of a private cluster, running or not.
    pub fn exists_in(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }

    /// Reads the description in `dir`.
    ///
    /// # Errors
    /// When there is none, or it is of another format, or a key is missing.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "{} is not the folder of a private cluster: cannot read {FILE_NAME}",
                dir.display()
            )
        })?;
        Self::from_json(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes the description into `dir`; a reader sees the old or the new file, never half of one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let new = dir.join(format!("{FILE_NAME}.new"));
        std::fs::write(&new, self.to_json())
            .and_then(|()| std::fs::rename(&new, dir.join(FILE_NAME)))
            .with_context(|| format!("cannot write {FILE_NAME} in {}", dir.display()))
    }

    fn to_json(&self) -> String {
        let daemons: Vec<Value> = self
            .daemons
            .iter()
            .map(|daemon| {
                json!({
                    "role": daemon.role.program(),
                    "name": daemon.name,
                    "pid": daemon.process.pid,
                    "start_ticks": daemon.process.start_ticks,
                    "port": daemon.port,
                })
            })
            .collect();
        let whole = json!({
            "format": FORMAT,
            "cluster": self.cluster,
            "conf": self.conf,
            "bin": self.bin,
            "daemons": daemons,
        });
        format!("{whole:#}\n")
    }

    fn from_json(text: &str) -> Result<Self> {
        let whole: Value = serde_json::from_str(text)?;
        let format = number(&whole, "format")?;
        if format != FORMAT {
            bail!("its format is {format}, this program knows {FORMAT}");
        }
        let daemons = whole["daemons"]
            .as_array()
            .context("no list \"daemons\"")?
            .iter()
            .map(daemon)
            .collect::<Result<_>>()?;
        Ok(Self {
            cluster: string(&whole, "cluster")?,
            conf: string(&whole, "conf")?.into(),
            bin: string(&whole, "bin")?.into(),
            daemons,
        })
    }
}

fn daemon(value: &Value) -> Result<DaemonRecord> {
    let role = match string(value, "role")?.as_str() {
        "ctld" => Role::Ctld,
        "agentd" => Role::Agentd,
        other => bail!("unknown role \"{other}\" of a daemon"),
    };
    Ok(DaemonRecord {
        role,
        name: string(value, "name")?,
        process: ProcessId {
            pid: number(value, "pid")?.try_into()?,
            start_ticks: number(value, "start_ticks")?,
        },
        port: number(value, "port")?.try_into()?,
    })
}

fn string(value: &Value, key: &str) -> Result<String> {
    let text = value[key]
        .as_str()
        .with_context(|| format!("no text \"{key}\""))?;
    Ok(text.to_owned())
}

fn number(value: &Value, key: &str) -> Result<u64> {
    value[key]
        .as_u64()
        .with_context(|| format!("no number \"{key}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Description {
        Description {
            cluster: "quick".to_owned(),
            conf: "/q/etc/slurm.conf".into(),
            bin: "/q/bin".into(),
            daemons: vec![DaemonRecord {
                role: Role::Agentd,
                name: "n1".to_owned(),
                process: ProcessId {
                    pid: 41,
                    start_ticks: 99_000_000_000,
                },
                port: 17001,
            }],
        }
    }

    /// Without this, `sluice down` could not read what quickstart wrote.
    #[test]
    fn written_and_read_back_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Description::exists_in(dir.path()));
        sample().write(dir.path()).unwrap();
        assert!(Description::exists_in(dir.path()));
        assert_eq!(Description::read(dir.path()).unwrap(), sample());
    }

    /// Without this, a later format would be misread and the wrong processes killed.
    #[test]
    fn an_unknown_format_or_a_missing_key_is_refused() {
        let later = sample().to_json().replace("\"format\": 1", "\"format\": 2");
        let error = Description::from_json(&later).unwrap_err().to_string();
        assert_eq!(error, "its format is 2, this program knows 1");
        let cut = sample().to_json().replace("\"pid\"", "\"pids\"");
        let error = Description::from_json(&cut).unwrap_err().to_string();
        assert_eq!(error, "no number \"pid\"");
    }
}
