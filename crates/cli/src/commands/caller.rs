//! Facts about the person and the place a command is called from.
//!
//! Reads the environment, the user database, and the clock; everything below gets them as arguments.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use sluice_model::time::UnixSeconds;

use crate::client::address::short_hostname;
use crate::format::time_style::TimeStyle;
use crate::submit::description::Caller;
use crate::submit::rlimits;

/// Default of SLURM_BITSTR_LEN.
const INDEX_TEXT_MAX: usize = 64;

/// Where and by whom a command was called.
#[derive(Debug, Clone)]
pub struct Place {
    /// Environment.
    pub environment: BTreeMap<String, String>,
    /// Current directory.
    pub directory: PathBuf,
    /// Short host name.
    pub host: String,
    /// Local time zone.
    pub zone: TimeZone,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Place {
    /// Looks around.
    #[must_use]
    pub fn here() -> Self {
        let environment = std::env::vars_os()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect();
        Self {
            environment,
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            host: short_hostname(),
            zone: local_zone(),
            uid: nix::unistd::getuid().as_raw(),
            gid: nix::unistd::getgid().as_raw(),
        }
    }

    /// Value of an environment variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    /// As a job request needs it.
    #[must_use]
    pub fn caller(&self, line: &[String]) -> Caller<'_> {
        let session = nix::unistd::getsid(None).map_or(0, |sid| sid.as_raw() as u32);
        Caller {
            now: now(),
            time_zone: &self.zone,
            directory: &self.directory,
            environment: &self.environment,
            uid: self.uid,
            gid: self.gid,
            host: &self.host,
            session,
            submit_line: line.join(" "),
            rlimits: rlimits::current(),
            umask: rlimits::umask(),
        }
    }

    /// The exit status of a command: SLURM_EXIT_ERROR in the place of 1.
    #[must_use]
    pub fn exit_code(&self, code: i32) -> i32 {
        let wanted = self.variable("SLURM_EXIT_ERROR");
        match wanted.and_then(|text| text.parse().ok()) {
            Some(other) if code == 1 => other,
            _ => code,
        }
    }

    /// How times are printed.
    #[must_use]
    pub fn times(&self, now: UnixSeconds) -> TimeStyle {
        TimeStyle {
            zone: self.zone.clone(),
            now,
            pattern: self.variable("SLURM_TIME_FORMAT"),
        }
    }

    /// Longest text of an index list.
    #[must_use]
    pub fn index_text_max(&self) -> usize {
        self.variable("SLURM_BITSTR_LEN")
            .and_then(|text| text.parse().ok())
            .unwrap_or(INDEX_TEXT_MAX)
    }
}

/// The present.
#[must_use]
pub fn now() -> UnixSeconds {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// Uid of a user given by name or number.
#[must_use]
pub fn uid_of(name: &str) -> Option<u32> {
    if let Ok(uid) = name.parse() {
        return Some(uid);
    }
    nix::unistd::User::from_name(name)
        .ok()
        .flatten()
        .map(|user| user.uid.as_raw())
}

/// Name of a user; the number when there is none.
#[must_use]
pub fn user_name(uid: u32) -> String {
    nix::unistd::User::from_uid(uid.into())
        .ok()
        .flatten()
        .map_or_else(|| uid.to_string(), |user| user.name)
}

/// The zone of the machine, or of TZ. `/etc/localtime` is read itself: finding its name in the database of zones means walking
/// through hundreds of files, in every command.
fn local_zone() -> TimeZone {
    if std::env::var_os("TZ").is_none()
        && let Ok(bytes) = std::fs::read("/etc/localtime")
        && let Ok(zone) = TimeZone::tzif("Local", &bytes)
    {
        return zone;
    }
    TimeZone::system()
}
