//! scontrol's commands about the controller: ping, reconfigure, shutdown, token, setdebug, errnumstr. Nodes as machines are in
//! [`super::scontrol_power`], files in [`super::scontrol_write`].
//!
//! What is asked for and has no effect yet is kept, and said on standard error. Source: scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::scontrol::{Context, is_keyword};
use super::scontrol_jobs::{call_failed, done};
use super::{clusters, log_levels, structured};
use crate::client::{Client, ClientError};
use crate::output;

/// Highest FairShareDampeningFactor.
const DAMPENING_MAX: u32 = 65_533;

/// DebugFlags of slurm.conf(5).
const DEBUG_FLAGS: &[&str] = &[
    "Accrue",
    "Agent",
    "AuditRPCs",
    "AuditTLS",
    "Backfill",
    "BackfillMap",
    "BurstBuffer",
    "Cgroup",
    "ConMgr",
    "CPU_Bind",
    "CpuFrequency",
    "Data",
    "DBD_Agent",
    "Dependency",
    "Elasticsearch",
    "Energy",
    "Federation",
    "FrontEnd",
    "Gang",
    "GLOB_SILENCE",
    "Gres",
    "Hetjob",
    "JobAccountGather",
    "JobComp",
    "JobContainer",
    "License",
    "Metrics",
    "MPI",
    "Namespace",
    "Network",
    "NetworkRaw",
    "NodeFeatures",
    "NO_CONF_HASH",
    "Power",
    "Priority",
    "Profile",
    "Protocol",
    "Reservation",
    "Route",
    "Script",
    "SelectType",
    "Steps",
    "Switch",
    "TLS",
    "TraceJobs",
    "Triggers",
    "WorkQueue",
];

pub(super) async fn ping(context: &Context) -> i32 {
    if structured::wanted(&context.options) {
        return structured::ping(&context.options, &context.place).await;
    }
    let settings = crate::client::Settings::find(|name| context.place.variable(name));
    let host = settings
        .as_ref()
        .ok()
        .and_then(|settings| settings.controller_hosts.first().cloned())
        .unwrap_or_else(|| "localhost".to_string());
    let answer = async {
        Client::connect(std::time::Duration::ZERO)
            .await?
            .ping()
            .await
    };
    match answer.await {
        Ok(reply) => {
            let host = if reply.hostname.is_empty() {
                host
            } else {
                reply.hostname
            };
            output::line(format!("Slurmctld(primary) at {host} is UP"));
            if let Some(health) = reply.accounting.filter(|health| !health.connected) {
                output::line(format!(
                    "Accounting storage is DOWN: {} ({} records wait)",
                    health.text, health.backlog
                ));
            }
            0
        }
        Err(error) => {
            output::line(format!("Slurmctld(primary) at {host} is DOWN"));
            if !error.is_contact() {
                output::error_line(format!("scontrol: error: {error}"));
            }
            1
        }
    }
}

pub(super) async fn reconfigure(context: &Context) -> i32 {
    let result = async {
        let client = context.connect().await?;
        let request = v1::ReconfigureRequest {};
        Ok::<_, ClientError>(
            client
                .admin()
                .reconfigure(request)
                .await?
                .into_inner()
                .warnings,
        )
    };
    match result.await {
        Ok(warnings) => {
            if !context.quiet.get() {
                for warning in warnings {
                    output::error_line(format!("scontrol: {warning}"));
                }
            }
            0
        }
        Err(error) => call_failed("slurm_reconfigure error: ", &error),
    }
}

pub(super) async fn shutdown(context: &Context, words: &[String]) -> i32 {
    let controller_only = match words.first() {
        None => false,
        Some(word) if is_keyword(word, "slurmctld", 9) || is_keyword(word, "controller", 1) => true,
        Some(word) => {
            output::error_line(format!("invalid shutdown argument:{word}"));
            return 1;
        }
    };
    let result = async {
        let client = context.connect().await?;
        let request = v1::ShutdownRequest { controller_only };
        client.admin().shutdown(request).await?;
        Ok::<_, ClientError>(())
    };
    done("slurm_shutdown error: ", result.await)
}

/// Slurm lets its controller dump core; this one is a process like any other.
pub(super) fn abort() -> i32 {
    output::error_line(
        "scontrol: error: abort is not done from afar: send SIGABRT to ctld on its host, or use scontrol shutdown",
    );
    1
}

/// There is one controller, so nothing can take over.
pub(super) fn takeover(index: Option<&String>) -> i32 {
    match index.map(|text| text.parse::<i32>()) {
        Some(Ok(index)) if index > 0 => {
            output::error_line(format!(
                "takeover: invalid backup controller index ({index})"
            ));
        }
        Some(Ok(_)) => output::error_line("takeover: the primary controller is in charge already"),
        Some(Err(_)) => output::error_line("takeover: the index is not a number"),
        None => output::error_line(
            "slurm_takeover error: there is one controller and no backup (SlurmctldHost=), so nothing takes over",
        ),
    }
    1
}

/// `token [username=NAME] [lifespan=SECONDS]`.
pub(super) async fn token(context: &Context, words: &[String]) -> i32 {
    let mut request = v1::IssueTokenRequest::default();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "username", 1) => {
                request.user_name = Some(value.to_string()).filter(|name| !name.is_empty());
            }
            Some((key, value)) if is_keyword(key, "lifespan", 1) => {
                let infinite = ["infinite", "unlimited"];
                request.lifespan_secs = if infinite.contains(&value.to_ascii_lowercase().as_str()) {
                    Some(u32::MAX)
                } else {
                    match value.parse() {
                        Ok(seconds) if seconds > 0 => Some(seconds),
                        _ => {
                            output::error_line("Error fetching token");
                            output::error_line(format!(
                                "hint: lifespan={value} is not a number of seconds from 1"
                            ));
                            return 1;
                        }
                    }
                };
            }
            _ => {
                output::error_line(format!("Invalid option: `{word}`"));
                return 1;
            }
        }
    }
    let result = async {
        let client = context.connect().await?;
        Ok::<_, ClientError>(
            client
                .admin()
                .issue_token(request)
                .await?
                .into_inner()
                .token,
        )
    };
    match result.await {
        Ok(token) => {
            output::line(format!("SLURM_JWT={token}"));
            0
        }
        Err(error) => call_failed("scontrol: error: ", &error),
    }
}

async fn set(context: &Context, call: &str, request: v1::SetDebugRequest) -> i32 {
    let result = async {
        let client = context.connect().await?;
        client.admin().set_debug(request).await?;
        Ok::<_, ClientError>(())
    };
    done(&format!("{call} error: "), result.await)
}

/// `setdebug LEVEL`, a name or a number.
pub(super) async fn set_debug(context: &Context, word: &str) -> i32 {
    let Some(level) = log_levels::number(word) else {
        output::error_line(format!("invalid debug level: {word}"));
        return 1;
    };
    let request = v1::SetDebugRequest {
        level: Some(log_levels::NAMES[level].to_string()),
        ..Default::default()
    };
    set(context, "slurm_set_debug_level", request).await
}

/// `setdebugflags +FLAG` or `-FLAG`, several with commas.
pub(super) async fn set_debug_flags(context: &Context, word: &str) -> i32 {
    let (sign, list) = word.split_at(word.len().min(1));
    if sign != "+" && sign != "-" {
        output::error_line(format!(
            "invalid debug flag: {word}\nUsage: setdebugflags [+|-]NAME"
        ));
        return 1;
    }
    let mut flags = Vec::new();
    for name in list.split(',') {
        match DEBUG_FLAGS
            .iter()
            .find(|flag| flag.eq_ignore_ascii_case(name))
        {
            Some(flag) => flags.push((*flag).to_string()),
            None => {
                output::error_line(format!("scontrol: error: Invalid DebugFlag: {name}"));
                output::error_line(format!("invalid debug flag: {word}"));
                return 1;
            }
        }
    }
    let mut request = v1::SetDebugRequest::default();
    if sign == "+" {
        request.add_flags = flags;
    } else {
        request.remove_flags = flags;
    }
    let code = set(context, "slurm_set_debug_flags", request).await;
    no_effect_yet(
        context,
        code,
        "DebugFlags are shown; the log does not change with them",
    );
    code
}

fn no_effect_yet(context: &Context, code: i32, text: &str) {
    if code == 0 && !context.quiet.get() {
        output::error_line(format!("scontrol: no effect yet: {text}"));
    }
}

/// `schedloglevel 0|1|disable|enable`.
pub(super) async fn sched_log_level(context: &Context, word: &str) -> i32 {
    let level = match word.to_ascii_lowercase().as_str() {
        "0" => 0,
        "1" => 1,
        word if is_keyword(word, "disable", 1) => 0,
        word if is_keyword(word, "enable", 1) => 1,
        _ => {
            output::error_line(format!("invalid schedlog level: {word}"));
            return 1;
        }
    };
    let request = v1::SetDebugRequest {
        sched_log_level: Some(level),
        ..Default::default()
    };
    let code = set(context, "slurm_set_schedlog_level", request).await;
    no_effect_yet(context, code, "there is no scheduler log of its own");
    code
}

/// `fsdampeningfactor N`.
pub(super) async fn dampening(context: &Context, word: &str) -> i32 {
    let Ok(factor) = word.parse::<u32>() else {
        // Told, and no failure, as in Slurm.
        output::error_line(format!("invalid dampening factor: {word}"));
        return 0;
    };
    let factor = factor.clamp(1, DAMPENING_MAX);
    let request = v1::SetDebugRequest {
        fair_share_dampening: Some(factor),
        ..Default::default()
    };
    let code = set(context, "slurm_set_fs_dampeningfactor", request).await;
    no_effect_yet(context, code, "fair share is not computed");
    code
}

/// Explains an error number: Slurm's, else the system's.
pub(super) fn errnumstr(word: Option<&String>) -> i32 {
    let Some(word) = word else {
        output::error_line("one arguments required for keyword:errnumstr");
        return 1;
    };
    let Ok(number) = word.parse::<i32>() else {
        output::error_line("numeric arguments required for keyword:errnumstr");
        return 1;
    };
    output::line(error_text(number));
    0
}

fn error_text(number: i32) -> String {
    let known = u16::try_from(number).ok().and_then(ErrorCode::from_number);
    match (known, number) {
        (Some(code), _) => code.message().to_string(),
        (None, 0) => "No error".to_string(),
        (None, -1) => "Unspecified error".to_string(),
        (None, _) => output::os_text(&std::io::Error::from_raw_os_error(number)),
    }
}

/// `cluster NAME`: the own one, or none.
pub(super) async fn cluster(context: &Context, name: Option<&String>) -> i32 {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return 0;
    };
    match context.connect().await {
        Ok(client) if client.settings.cluster == *name => 0,
        Ok(_) => {
            let text = clusters::unreachable(name, "--cluster");
            output::error_line(format!("scontrol: error: {text}"));
            1
        }
        Err(error) => call_failed("scontrol: error: ", &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of Slurm, of the system, and of nobody, as a real scontrol explains them.
    #[test]
    fn error_numbers() {
        assert_eq!(error_text(2017), "Invalid job id specified");
        assert_eq!(error_text(2), "No such file or directory");
        assert_eq!(error_text(99999), "Unknown error 99999");
    }
}
