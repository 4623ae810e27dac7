//! Identity, paths, logs, authentication, timeouts, jobs and licences from the global keys.

use super::items::Items;
use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::{parse_exit_codes, parse_port_range, split_list};

/// Slurm's limit on the length of a cluster name.
const CLUSTER_NAME_CHARS_MAX: usize = 40;

pub(crate) fn cluster_name(values: &Values, diags: &mut Diagnostics) -> String {
    let Some(name) = values.given("ClusterName") else {
        if values.missing("ClusterName") {
            diags.error(
                &values.origin,
                Detail::key("ClusterName").hint("add ClusterName=NAME"),
                "is required",
            );
        }
        return String::new();
    };
    let lower = name.to_ascii_lowercase();
    let detail = || Detail::pair("ClusterName", name);
    let origin = values.origin_of("ClusterName");
    if lower != name {
        diags.warn(origin, detail(), format!("is used in lower case: {lower}"));
    }
    let plain = lower
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !plain || lower.len() > CLUSTER_NAME_CHARS_MAX {
        let hint = format!("letters, digits, - _ and . only, at most {CLUSTER_NAME_CHARS_MAX}");
        diags.error(origin, detail().hint(hint), "is not a legal cluster name");
    }
    lower
}

/// SlurmctldHost lines, or the old keys for the same.
pub(crate) fn controllers(values: &Values, diags: &mut Diagnostics) -> Vec<ControllerHost> {
    let mut hosts = Vec::new();
    for (text, origin) in values.lines("SlurmctldHost") {
        let parsed = match text.split_once('(') {
            Some((host, rest)) => rest.strip_suffix(')').map(|addr| (host, Some(addr))),
            None => Some((text, None)),
        };
        let legal = |t: &str| {
            !t.is_empty() && !t.contains(['(', ')', ',', '=']) && !t.contains(char::is_whitespace)
        };
        match parsed {
            Some((host, addr)) if legal(host) && addr.is_none_or(legal) => {
                hosts.push(ControllerHost {
                    host: host.to_owned(),
                    addr: addr.map(str::to_owned),
                });
            }
            _ => diags.error(
                origin,
                Detail::pair("SlurmctldHost", text).hint("HOST or HOST(ADDRESS)"),
                "is not a host",
            ),
        }
    }
    let named = hosts.is_empty();
    for (host, addr) in [
        ("ControlMachine", "ControlAddr"),
        ("BackupController", "BackupAddr"),
    ] {
        if let (true, Some(host)) = (named, values.given(host)) {
            let addr = values.given(addr).filter(|a| *a != host).map(str::to_owned);
            hosts.push(ControllerHost {
                host: host.to_owned(),
                addr,
            });
        }
    }
    if hosts.is_empty() && values.missing("SlurmctldHost") {
        diags.error(
            &values.origin,
            Detail::key("SlurmctldHost").hint("add SlurmctldHost=HOST(ADDRESS)"),
            "is required",
        );
    }
    hosts
}

/// First port and number of ports of SlurmctldPort.
pub(crate) fn controller_ports(values: &Values) -> (u16, u16) {
    let (first, last) = values
        .text("SlurmctldPort")
        .and_then(parse_port_range)
        .unwrap_or((6817, 6817));
    (first, last - first + 1)
}

pub(crate) fn paths(values: &Values, diags: &mut Diagnostics) -> Paths {
    let paths = Paths {
        state_save_location: values
            .string("StateSaveLocation")
            .trim_end_matches('/')
            .to_owned(),
        slurmd_spool_dir: values
            .string("SlurmdSpoolDir")
            .trim_end_matches('/')
            .to_owned(),
        slurmctld_pid_file: values.string("SlurmctldPidFile"),
        slurmd_pid_file: values.string("SlurmdPidFile"),
        slurmctld_log_file: values.given("SlurmctldLogFile").map(str::to_owned),
        slurmd_log_file: values.given("SlurmdLogFile").map(str::to_owned),
        tmp_fs: values.string("TmpFS"),
        mail_prog: values.string("MailProg"),
    };
    if paths.state_save_location == paths.slurmd_spool_dir {
        let detail = Detail::pair("SlurmdSpoolDir", &paths.slurmd_spool_dir)
            .hint("give each daemon a folder of its own");
        diags.warn(
            values.origin_of("SlurmdSpoolDir"),
            detail,
            "is the same folder as StateSaveLocation",
        );
    }
    for key in [
        "StateSaveLocation",
        "SlurmdSpoolDir",
        "SlurmctldPidFile",
        "SlurmdPidFile",
        "SlurmctldLogFile",
        "SlurmdLogFile",
    ] {
        if let Some(path) = values
            .given(key)
            .filter(|p| !p.starts_with('/') && !p.starts_with("%h") && !p.starts_with("%n"))
        {
            diags.error(
                values.origin_of(key),
                Detail::pair(key, path).hint("write the whole path, beginning with /"),
                "is not an absolute path",
            );
        }
    }
    paths
}

fn log_level(text: &str) -> LogLevel {
    use LogLevel::*;
    match text.to_ascii_lowercase().as_str() {
        "quiet" | "0" => Quiet,
        "fatal" | "1" => Fatal,
        "error" | "2" => Error,
        "verbose" | "4" => Verbose,
        "debug" | "5" => Debug,
        "debug2" | "6" => Debug2,
        "debug3" | "7" => Debug3,
        "debug4" | "8" => Debug4,
        "debug5" | "9" => Debug5,
        // `info`, `3`; nothing else passes the table.
        _ => Info,
    }
}

pub(crate) fn log(values: &Values) -> LogSettings {
    LogSettings {
        slurmctld_debug: log_level(&values.string("SlurmctldDebug")),
        slurmd_debug: log_level(&values.string("SlurmdDebug")),
        debug_flags: values.list("DebugFlags"),
        log_time_format: values.list("LogTimeFormat"),
    }
}

pub(crate) fn auth(
    values: &Values,
    state_save_location: &str,
    diags: &mut Diagnostics,
) -> AuthSettings {
    let info = Items::of(values, "AuthInfo");
    let alt = Items::of(values, "AuthAltParameters");
    let jwt_key = alt.value("jwt_key").map_or_else(
        || format!("{state_save_location}/jwt_hs256.key"),
        str::to_owned,
    );
    AuthSettings {
        auth_type: values.string("AuthType"),
        auth_info: values.list("AuthInfo"),
        alt_types: values.list("AuthAltTypes"),
        alt_parameters: values.list("AuthAltParameters"),
        jwt_key,
        disable_token_creation: alt.flag("disable_token_creation"),
        max_token_lifespan_secs: alt.number_if_set(
            "max_token_lifespan",
            (1, u64::from(u32::MAX)),
            diags,
        ),
        cred_expire_secs: info.number("cred_expire", 120, (5, u64::from(u32::MAX)), diags) as u32,
        private_data: values
            .list("PrivateData")
            .iter()
            .map(|i| i.to_ascii_lowercase())
            .filter(|i| i != "none")
            .collect(),
        disable_root_jobs: values.boolean("DisableRootJobs"),
    }
}

pub(crate) fn timeouts(values: &Values) -> Timeouts {
    let message_secs = values.number("MessageTimeout");
    Timeouts {
        slurmctld_secs: values.number("SlurmctldTimeout"),
        slurmd_secs: values.number("SlurmdTimeout"),
        message_secs,
        tcp_secs: values.number("TCPTimeout"),
        batch_start_secs: values.number("BatchStartTimeout"),
        inactive_limit_secs: values.number("InactiveLimit"),
        kill_wait_secs: values.number("KillWait"),
        wait_time_secs: values.number("WaitTime"),
        unkillable_step_secs: values
            .number_if_set("UnkillableStepTimeout")
            .unwrap_or_else(|| message_secs.saturating_mul(5).max(60)),
        complete_wait_secs: values.number("CompleteWait"),
    }
}

pub(crate) fn jobs(values: &Values, diags: &mut Diagnostics) -> JobSettings {
    let codes = |key: &str| {
        values
            .text(key)
            .and_then(parse_exit_codes)
            .unwrap_or_default()
    };
    let jobs = JobSettings {
        first_job_id: values.number("FirstJobId"),
        max_job_id: values.number("MaxJobId"),
        max_job_count: values.number("MaxJobCount"),
        min_job_age_secs: values.number("MinJobAge"),
        max_array_size: values.number("MaxArraySize"),
        max_step_count: values.number("MaxStepCount"),
        max_tasks_per_node: values.number("MaxTasksPerNode"),
        job_requeue: values.boolean("JobRequeue"),
        max_batch_requeue: values.number("MaxBatchRequeue"),
        requeue_exit: codes("RequeueExit"),
        requeue_exit_hold: codes("RequeueExitHold"),
        job_file_append: values.boolean("JobFileAppend"),
        kill_on_bad_exit: values.boolean("KillOnBadExit"),
        mail_domain: values.given("MailDomain").map(str::to_owned),
        interactive_step_options: values.string("InteractiveStepOptions"),
        launch_parameters: values.list("LaunchParameters"),
        srun_port_range: values.given("SrunPortRange").and_then(parse_port_range),
        mpi_default: values
            .given("MpiDefault")
            .map(|m| m.trim_start_matches("mpi/"))
            .filter(|m| !m.eq_ignore_ascii_case("none"))
            .map(str::to_owned),
        propagate_resource_limits: propagate_limits(values, diags),
        propagate_prio_process: values.number("PropagatePrioProcess"),
        job_submit_plugins: values.list("JobSubmitPlugins"),
        scron_parameters: values.list("ScronParameters"),
    };
    if jobs.first_job_id == 0 || jobs.first_job_id > jobs.max_job_id {
        let text = jobs.first_job_id.to_string();
        diags.error(
            values.origin_of("FirstJobId"),
            Detail::pair("FirstJobId", &text).hint("1 or more, at most MaxJobId"),
            "is not a usable first job id",
        );
    }
    // Ids above this are used up by array and heterogeneous offsets and reserved numbers.
    const MAX_JOB_ID: u32 = 0x03FF_FFFF;
    if jobs.max_job_id > MAX_JOB_ID {
        let text = jobs.max_job_id.to_string();
        diags.error(
            values.origin_of("MaxJobId"),
            Detail::pair("MaxJobId", &text).hint(format!("at most {MAX_JOB_ID}")),
            "is too large",
        );
    }
    jobs
}

fn propagate_limits(values: &Values, diags: &mut Diagnostics) -> PropagateLimits {
    let upper = |key: &str| {
        values
            .list(key)
            .iter()
            .map(|i| i.to_ascii_uppercase())
            .collect::<Vec<_>>()
    };
    let only_given = values.given("PropagateResourceLimits").is_some();
    let except = upper("PropagateResourceLimitsExcept");
    if only_given && !except.is_empty() {
        let detail = Detail::key("PropagateResourceLimitsExcept").hint("keep one of the two keys");
        diags.error(
            values.origin_of("PropagateResourceLimitsExcept"),
            detail,
            "excludes PropagateResourceLimits",
        );
    }
    let all = |list: &[String]| list.iter().any(|i| i == "ALL");
    let none = |list: &[String]| list.iter().any(|i| i == "NONE");
    let only = upper("PropagateResourceLimits");
    match (except.is_empty(), all(&except) || none(&only), all(&only)) {
        (false, false, _) if none(&except) => PropagateLimits::All,
        (false, false, _) => PropagateLimits::Except(except),
        (_, true, _) => PropagateLimits::None,
        (true, false, true) => PropagateLimits::All,
        (true, false, false) => PropagateLimits::Only(only),
    }
}

pub(crate) fn licenses(values: &Values, diags: &mut Diagnostics) -> Vec<LicenseConfig> {
    let mut licenses: Vec<LicenseConfig> = Vec::new();
    for item in split_list(values.text("Licenses").unwrap_or("")) {
        let (name, count) = item
            .split_once([':', '='])
            .map_or((item, 1), |(n, c)| (n, c.parse().unwrap_or(0)));
        if licenses.iter().any(|l| l.name == name) {
            diags.error(
                values.origin_of("Licenses"),
                Detail::pair("Licenses", item),
                "is listed twice",
            );
        } else {
            licenses.push(LicenseConfig {
                name: name.to_owned(),
                count,
            });
        }
    }
    licenses
}
