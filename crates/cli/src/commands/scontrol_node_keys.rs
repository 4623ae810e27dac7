//! Keys of `scontrol update NodeName=`. Source: scontrol(1), specifications for nodes.

use sluice_model::node::{NodeStateRequest, NodeUpdate};

use super::scontrol::{is_keyword, unsupported};

/// Modes of CpuBind.
const CPU_BIND: [&str; 6] = ["none", "socket", "ldom", "core", "thread", "off"];

/// Words that are states and that nobody can ask for.
const NOT_FOR_ASKING: [&str; 3] = ["allocated", "mixed", "unknown"];

/// The change that the pairs ask for.
pub(super) fn node_update(pairs: &[(String, String)]) -> Result<NodeUpdate, String> {
    let mut update = NodeUpdate::default();
    let mut changes = 0;
    for (key, value) in pairs {
        let text = || Some(value.trim_matches(['"', '\'']).to_string());
        let list = || {
            Some(
                value
                    .split(',')
                    .filter(|item| !item.is_empty())
                    .map(String::from)
                    .collect(),
            )
        };
        if is_keyword(key, "nodename", 5) {
            update.nodes.clone_from(value);
            continue;
        }
        changes += 1;
        match key.as_str() {
            key if is_keyword(key, "nodeaddr", 5) => update.address = text(),
            key if is_keyword(key, "nodehostname", 5) => update.hostname = text(),
            key if is_keyword(key, "state", 1) => update.state = Some(node_state(key, value)?),
            key if is_keyword(key, "reason", 3) => update.reason = text(),
            key if is_keyword(key, "resumeafter", 6) => {
                update.resume_after_secs = Some(resume_after(key, value)?);
            }
            key if is_keyword(key, "comment", 3) => update.comment = text(),
            key if is_keyword(key, "extra", 1) => update.extra = text(),
            key if is_keyword(key, "instanceid", 9) => update.instance_id = text(),
            key if is_keyword(key, "instancetype", 9) => update.instance_type = text(),
            key if is_keyword(key, "topology", 1) => update.topology = text(),
            key if is_keyword(key, "certtoken", 2) => update.cert_token = text(),
            key if is_keyword(key, "gres", 1) => update.gres = text(),
            key if is_keyword(key, "cpubind", 2) => {
                let mode = value.to_ascii_lowercase();
                if !CPU_BIND.contains(&mode.as_str()) {
                    return Err(format!(
                        "scontrol: error: Invalid input {key}={value}\nslurm_update error: No error"
                    ));
                }
                update.cpu_bind = Some(mode);
            }
            key if is_keyword(key, "weight", 1) => {
                update.weight = Some(value.parse().map_err(|_| {
                    format!("scontrol: error: Weight value ({value}) is not a valid number\nNo changes specified")
                })?);
            }
            key if is_keyword(key, "availablefeatures", 2) || is_keyword(key, "features", 1) => {
                update.available_features = list();
            }
            key if is_keyword(key, "activefeatures", 2) => update.active_features = list(),
            key => return Err(unsupported(key, value)),
        }
    }
    let needs_reason = matches!(
        update.state,
        Some(NodeStateRequest::Down | NodeStateRequest::Drain | NodeStateRequest::Fail)
    );
    if needs_reason && update.reason.as_deref().unwrap_or_default().is_empty() {
        return Err(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied".to_string(),
        );
    }
    if changes == 0 {
        return Err("No changes specified".to_string());
    }
    Ok(update)
}

/// Seconds, or never.
fn resume_after(key: &str, value: &str) -> Result<u32, String> {
    let never = ["infinite", "unlimited", "-1"];
    if never.contains(&value.to_ascii_lowercase().as_str()) {
        return Ok(u32::MAX);
    }
    value
        .parse()
        .map_err(|_| format!("Invalid input: {key}={value}\nRequest aborted"))
}

fn node_state(key: &str, value: &str) -> Result<NodeStateRequest, String> {
    Ok(match value.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "noresp", 3) => NodeStateRequest::NoResponse,
        word if is_keyword(word, "cancel_reboot", 3) => NodeStateRequest::CancelReboot,
        word if is_keyword(word, "drain", 3) => NodeStateRequest::Drain,
        word if is_keyword(word, "down", 3) => NodeStateRequest::Down,
        word if is_keyword(word, "fail", 3) => NodeStateRequest::Fail,
        word if is_keyword(word, "future", 3) => NodeStateRequest::Future,
        word if is_keyword(word, "resume", 3) => NodeStateRequest::Resume,
        word if is_keyword(word, "undrain", 3) => NodeStateRequest::Undrain,
        word if is_keyword(word, "idle", 2) => NodeStateRequest::Idle,
        word if is_keyword(word, "power_down_asap", 12) => NodeStateRequest::PowerDownAsap,
        word if is_keyword(word, "power_down_force", 12) => NodeStateRequest::PowerDownForce,
        word if is_keyword(word, "power_down", 7) => NodeStateRequest::PowerDown,
        word if is_keyword(word, "power_up", 7) => NodeStateRequest::PowerUp,
        word if NOT_FOR_ASKING
            .iter()
            .any(|state| is_keyword(word, state, 3)) =>
        {
            return Err("slurm_update error: Invalid node state specified".to_string());
        }
        _ => {
            return Err(format!(
                "Invalid input: {key}={value}\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME \
                 POWER_DOWN POWER_UP UNDRAIN\nNot all states are valid given a node's prior state"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(words: &[(&str, &str)]) -> Vec<(String, String)> {
        words
            .iter()
            .map(|(key, value)| ((*key).to_string(), (*value).to_string()))
            .collect()
    }

    /// Refusals as a real scontrol prints them.
    #[test]
    fn node_refusals() {
        let refuse =
            |words: &[(&str, &str)]| node_update(&pairs(words)).expect_err("must be refused");
        assert_eq!(
            refuse(&[("nodename", "n1"), ("state", "nosuch")]),
            "Invalid input: state=nosuch\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN \
             POWER_UP UNDRAIN\nNot all states are valid given a node's prior state"
        );
        assert_eq!(
            refuse(&[("nodename", "n1"), ("state", "drain")]),
            "You must specify a reason when DOWNING or DRAINING a node. Request denied"
        );
        assert_eq!(refuse(&[("nodename", "n1")]), "No changes specified");
        assert_eq!(
            refuse(&[("nodename", "n1"), ("cpubind", "foo")]),
            "scontrol: error: Invalid input cpubind=foo\nslurm_update error: No error"
        );
        assert_eq!(
            refuse(&[("nodename", "n1"), ("weight", "x")]),
            "scontrol: error: Weight value (x) is not a valid number\nNo changes specified"
        );
        assert_eq!(
            refuse(&[("nodename", "n1"), ("state", "mixed")]),
            "slurm_update error: Invalid node state specified"
        );
    }

    /// Usual changes.
    #[test]
    fn node_change() {
        let update = node_update(&pairs(&[
            ("nodename", "n[1-2]"),
            ("state", "DRAIN"),
            ("reason", "bad fan"),
            ("resumeafter", "60"),
            ("extra", "x"),
        ]))
        .expect("ok");
        assert_eq!(update.state, Some(NodeStateRequest::Drain));
        assert_eq!(
            (update.nodes.as_str(), update.reason.as_deref()),
            ("n[1-2]", Some("bad fan"))
        );
        assert_eq!(
            (update.resume_after_secs, update.extra.as_deref()),
            (Some(60), Some("x"))
        );
        let state = |word: &str| node_state("state", word);
        assert_eq!(
            state("POWER_DOWN_ASAP"),
            Ok(NodeStateRequest::PowerDownAsap)
        );
        assert_eq!(state("power_down"), Ok(NodeStateRequest::PowerDown));
        assert_eq!(state("resume"), Ok(NodeStateRequest::Resume));
    }
}
