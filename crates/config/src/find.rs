//! Where the configuration is: `-f`, `SLURM_CONF`, the usual places.
//!
//! The environment is an argument; only the existence of files is looked up here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Places that are tried, in this order, when neither `-f` nor `SLURM_CONF` is given. The last ones are where an agent keeps a
/// configuration that it got from the controller.
pub const DEFAULT_PATHS: [&str; 5] = [
    "/etc/slurm/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/run/slurm/conf/cluster.jsonc",
];

/// No configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// `-f` names a file that is not there.
    #[error("-f {path}: no such file", path = .0.display())]
    Flag(PathBuf),
    /// SLURM_CONF names a file that is not there.
    #[error("SLURM_CONF={path}: no such file", path = .0.display())]
    Variable(PathBuf),
    /// None of the usual places has one.
    #[error("no configuration found: give -f FILE, set SLURM_CONF, or create {first}", first = DEFAULT_PATHS[0])]
    Nowhere,
}

/// Finds the configuration file. An empty SLURM_CONF counts as unset.
///
/// # Errors
/// The file named is not there, or none is anywhere.
pub fn find_conf(flag: Option<&Path>, slurm_conf: Option<&OsStr>) -> Result<PathBuf, FindError> {
    if let Some(path) = flag {
        return if path.is_file() {
            Ok(path.to_owned())
        } else {
            Err(FindError::Flag(path.to_owned()))
        };
    }
    if let Some(path) = slurm_conf.filter(|p| !p.is_empty()).map(PathBuf::from) {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(FindError::Variable(path))
        };
    }
    DEFAULT_PATHS
        .iter()
        .map(PathBuf::from)
        .find(|p| p.is_file())
        .ok_or(FindError::Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flag rules over the variable, and a wrong path is not silently passed over.
    #[test]
    fn order() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (a, b) = (dir.path().join("a.conf"), dir.path().join("b.conf"));
        std::fs::write(&a, "").expect("writes");
        std::fs::write(&b, "").expect("writes");
        assert_eq!(find_conf(Some(&a), Some(b.as_os_str())), Ok(a));
        assert_eq!(find_conf(None, Some(b.as_os_str())), Ok(b));
        let missing = dir.path().join("missing");
        assert_eq!(
            find_conf(Some(&missing), None),
            Err(FindError::Flag(missing.clone()))
        );
        assert_eq!(
            find_conf(None, Some(missing.as_os_str())),
            Err(FindError::Variable(missing))
        );
    }
}
