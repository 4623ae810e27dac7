//! Resource limits and the umask that travel with a job (`--propagate`).
//!
//! Reads this process's limits; sets none. Names are those of the record: without `RLIMIT_`. Source: sbatch(1) --propagate.

use std::collections::BTreeMap;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Limits that are passed on, in the order in which Slurm exports them.
pub const LIMITS: [(&str, Resource); 10] = [
    ("CPU", Resource::RLIMIT_CPU),
    ("FSIZE", Resource::RLIMIT_FSIZE),
    ("DATA", Resource::RLIMIT_DATA),
    ("STACK", Resource::RLIMIT_STACK),
    ("CORE", Resource::RLIMIT_CORE),
    ("RSS", Resource::RLIMIT_RSS),
    ("NPROC", Resource::RLIMIT_NPROC),
    ("NOFILE", Resource::RLIMIT_NOFILE),
    ("MEMLOCK", Resource::RLIMIT_MEMLOCK),
    ("AS", Resource::RLIMIT_AS),
];

/// Soft limits of this process by name; `u64::MAX` = unlimited.
#[must_use]
pub fn current() -> BTreeMap<String, u64> {
    LIMITS
        .iter()
        .filter_map(|(name, resource)| {
            let (soft, _) = getrlimit(*resource).ok()?;
            Some((
                (*name).to_string(),
                if soft == RLIM_INFINITY {
                    u64::MAX
                } else {
                    soft
                },
            ))
        })
        .collect()
}

/// Names that `--propagate[=list]` selects; `None` for a name that is no limit.
#[must_use]
pub fn selected(list: &str) -> Option<Vec<&'static str>> {
    if list.is_empty() || list.eq_ignore_ascii_case("ALL") {
        return Some(LIMITS.iter().map(|(name, _)| *name).collect());
    }
    if list.eq_ignore_ascii_case("NONE") {
        return Some(Vec::new());
    }
    list.split(',')
        .map(|item| {
            let item = item.trim().to_ascii_uppercase();
            let item = item.strip_prefix("RLIMIT_").unwrap_or(&item).to_string();
            LIMITS
                .iter()
                .map(|(name, _)| *name)
                .find(|name| **name == item)
        })
        .collect()
}

/// This process's file mode creation mask, which can only be read by setting it.
#[must_use]
pub fn umask() -> u32 {
    // /proc tells it without a moment in which another thread would create files with a wrong mode.
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Umask:"))?;
            u32::from_str_radix(line.trim(), 8).ok()
        })
        .unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of sbatch(1) --propagate.
    #[test]
    fn selection() {
        assert_eq!(selected("NONE"), Some(vec![]));
        assert_eq!(selected("nofile,RLIMIT_CORE"), Some(vec!["NOFILE", "CORE"]));
        assert_eq!(selected("").map(|names| names.len()), Some(10));
        assert_eq!(selected("NOSUCH"), None);
    }

    /// Every process has these limits.
    #[test]
    fn reads_limits() {
        assert_eq!(current().len(), LIMITS.len());
        assert!(umask() <= 0o777);
    }
}
