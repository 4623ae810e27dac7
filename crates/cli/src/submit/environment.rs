//! Which environment variables a job or step gets: `--export`, `--export-file`, and the variables the command adds itself.
//!
//! Pure: the environment is an argument. `SLURM_*` variables are always passed on unless `NIL` is asked for.
//! Source: sbatch(1) --export and OUTPUT ENVIRONMENT VARIABLES.

use std::collections::BTreeMap;

/// `--export`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Pass everything on.
    pub all: bool,
    /// Pass nothing on, not even `SLURM_*`.
    pub nil: bool,
    /// Names to pass on, or to set (`Some`).
    pub names: Vec<(String, Option<String>)>,
}

impl Export {
    /// Reads `ALL`, `NONE`, `NIL`, `ALL,A=1,B`, `A,B='x,y'`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut export = Self {
            all: false,
            nil: false,
            names: Vec::new(),
        };
        if text.eq_ignore_ascii_case("NONE") {
            return export;
        }
        if text.eq_ignore_ascii_case("NIL") {
            export.nil = true;
            return export;
        }
        for item in split_list(text) {
            if item.eq_ignore_ascii_case("ALL") {
                export.all = true;
            } else if let Some((name, value)) = item.split_once('=') {
                export
                    .names
                    .push((name.to_string(), Some(value.to_string())));
            } else if !item.is_empty() {
                export.names.push((item, None));
            }
        }
        export
    }

    /// The variables that are passed on from `environment`.
    #[must_use]
    pub fn apply(&self, environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        if self.nil {
            return BTreeMap::new();
        }
        let mut passed: BTreeMap<String, String> = environment
            .iter()
            .filter(|(name, _)| {
                self.all || name.starts_with("SLURM_") || name.starts_with("SPANK_")
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in &self.names {
            match value {
                Some(value) => {
                    passed.insert(name.clone(), value.clone());
                }
                None => {
                    if let Some(value) = environment.get(name) {
                        passed.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        passed
    }
}

/// Splits at commas outside quotes; quotes around (parts of) values are taken off.
fn split_list(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ',') => items.push(String::new()),
            _ => {
                if let Some(item) = items.last_mut() {
                    item.push(letter);
                }
            }
        }
    }
    items
}

/// Reads `--export-file`: `NAME=value` texts ended by NUL bytes.
#[must_use]
pub fn parse_export_file(content: &[u8]) -> BTreeMap<String, String> {
    content
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            let entry = String::from_utf8_lossy(entry);
            entry
                .trim_start_matches('\n')
                .split_once('=')
                .map(|(name, value)| (name.to_string(), value.to_string()))
        })
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// `NAME=value` strings in order of the names, as records carry them.
#[must_use]
pub fn to_strings(environment: &BTreeMap<String, String>) -> Vec<String> {
    environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Variables of an allocation that must not leak into another job, even with `--export=ALL`: sbatch inside a job.
#[must_use]
pub fn belongs_to_allocation(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["SLURM_JOB_", "SLURM_STEP_", "SLURM_ARRAY_", "SLURM_TASK"];
    const NAMES: [&str; 30] = [
        "SLURM_JOBID",
        "SLURM_STEPID",
        "SLURM_NODELIST",
        "SLURM_NNODES",
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_NODEID",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_GTIDS",
        "SLURM_CPUS_ON_NODE",
        "SLURM_CPUS_PER_TASK",
        "SLURM_GPUS_ON_NODE",
        "SLURM_MEM_PER_NODE",
        "SLURM_MEM_PER_CPU",
        "SLURM_MEM_PER_GPU",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_DISTRIBUTION",
        "SLURM_LAUNCH_NODE_IPADDR",
        "SLURM_SRUN_COMM_HOST",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_RESTART_COUNT",
        "SLURM_GPUS",
        "SLURM_GPUS_PER_NODE",
        "SLURM_GPUS_PER_TASK",
        "SLURM_EXPORT_ENV",
        "SLURM_GET_USER_ENV",
        "SLURM_OOM_KILL_STEP",
        "SLURM_TOPOLOGY_ADDR",
        "SLURM_TOPOLOGY_ADDR_PATTERN",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || name.starts_with("SLURM_CPU_BIND")
        || name.starts_with("SLURM_MEM_BIND")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> BTreeMap<String, String> {
        [
            ("HOME", "/home/alice"),
            ("PATH", "/bin"),
            ("SLURM_CONF", "/etc/slurm.conf"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
    }

    fn passed(text: &str) -> String {
        to_strings(&Export::parse(text).apply(&environment())).join(" ")
    }

    /// Every form of sbatch(1) --export.
    #[test]
    fn export_forms() {
        assert_eq!(
            passed("ALL"),
            "HOME=/home/alice PATH=/bin SLURM_CONF=/etc/slurm.conf"
        );
        assert_eq!(passed("NONE"), "SLURM_CONF=/etc/slurm.conf");
        assert_eq!(passed("NIL"), "");
        assert_eq!(
            passed("PATH,X=1"),
            "PATH=/bin SLURM_CONF=/etc/slurm.conf X=1"
        );
        assert_eq!(
            passed("ALL,HOME=/x"),
            "HOME=/x PATH=/bin SLURM_CONF=/etc/slurm.conf"
        );
        assert_eq!(passed("NOSUCH"), "SLURM_CONF=/etc/slurm.conf");
        assert_eq!(
            passed("A='x,y',B=2"),
            "A=x,y B=2 SLURM_CONF=/etc/slurm.conf"
        );
    }

    /// Values may hold newlines and equal signs.
    #[test]
    fn export_file() {
        let read = parse_export_file(b"A=1\0B=x\ny=z\0\0");
        assert_eq!(to_strings(&read), ["A=1", "B=x\ny=z"]);
    }

    /// A job submitted from inside a job must not believe that it is that job.
    #[test]
    fn allocation_variables() {
        assert!(belongs_to_allocation("SLURM_JOB_ID") && belongs_to_allocation("SLURM_NTASKS"));
        assert!(
            !belongs_to_allocation("SLURM_CONF") && !belongs_to_allocation("SLURM_TIME_FORMAT")
        );
    }
}
