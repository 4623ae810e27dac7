//! scontrol's commands about nodes as machines: reboot, cancel_reboot, power. Source: scontrol(1).

use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_proto::v1;

use super::scontrol::{Context, is_keyword, too_few, too_many};
use super::scontrol_jobs::done;
use crate::client::ClientError;
use crate::output;

/// `reboot [ASAP] [FORCE] [nextstate=] [reason=] NODES`.
pub(super) async fn reboot(context: &Context, verb: &str, words: &[String]) -> i32 {
    let mut request = v1::RebootNodesRequest::default();
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "nextstate", 2) => {
                let state = value.to_ascii_uppercase();
                if !["DOWN", "RESUME"].contains(&state.as_str()) {
                    output::error_line(format!(
                        "Invalid state: {value}\nValid states: DOWN, RESUME"
                    ));
                    return 1;
                }
                request.next_state = state;
            }
            Some((key, value)) if is_keyword(key, "reason", 3) => {
                request.reason = value.trim_matches(['"', '\'']).to_string();
            }
            // What power management plugins would do with it is not known here.
            Some((key, _)) if is_keyword(key, "action", 3) => {}
            None if word.eq_ignore_ascii_case("asap") => request.asap = true,
            None if word.eq_ignore_ascii_case("force") => request.force = true,
            _ => break,
        }
        rest = tail;
    }
    match rest {
        [] => {
            output::error_line("Missing node list. Specify ALL|<NodeList>");
            return 1;
        }
        [nodes] => request.nodes.clone_from(nodes),
        _ => return too_many(verb),
    }
    let result = async {
        let client = context.connect().await?;
        client.admin().reboot_nodes(request).await?;
        Ok::<_, ClientError>(())
    };
    done("scontrol_reboot_nodes error: ", result.await)
}

async fn node_state(context: &Context, nodes: &str, state: NodeStateRequest) -> i32 {
    let update = NodeUpdate {
        nodes: nodes.to_string(),
        state: Some(state),
        ..NodeUpdate::default()
    };
    let result = async { context.connect().await?.update_nodes(update).await };
    done("slurm_update error: ", result.await)
}

pub(super) async fn cancel_reboot(context: &Context, verb: &str, nodes: Option<&String>) -> i32 {
    match nodes {
        Some(nodes) => node_state(context, nodes, NodeStateRequest::CancelReboot).await,
        None => {
            output::error_line(format!("missing argument for keyword:{verb}"));
            1
        }
    }
}

/// `power up|down [asap|force] NODES`.
pub(super) async fn power(context: &Context, verb: &str, words: &[String]) -> i32 {
    let Some((direction, rest)) = words.split_first() else {
        return too_few(verb);
    };
    let (how, rest) = match rest.split_first() {
        Some((word, tail))
            if word.eq_ignore_ascii_case("asap") || word.eq_ignore_ascii_case("force") =>
        {
            (Some(word.to_ascii_lowercase()), tail)
        }
        _ => (None, rest),
    };
    let state = match (direction.to_ascii_lowercase().as_str(), how.as_deref()) {
        ("up", None) => NodeStateRequest::PowerUp,
        ("down", None) => NodeStateRequest::PowerDown,
        ("down", Some("asap")) => NodeStateRequest::PowerDownAsap,
        ("down", Some(_)) => NodeStateRequest::PowerDownForce,
        _ => {
            output::error_line(format!("invalid power argument: {}", words.join(" ")));
            return 1;
        }
    };
    match rest {
        [nodes] => node_state(context, nodes, state).await,
        [] => too_few(verb),
        _ => too_many(verb),
    }
}
