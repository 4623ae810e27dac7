//! sattach: which task of a running step runs where, and attaching to its streams.
//!
//! The step daemons connect to this command as they do to the srun that started the step, tell what was said last, and go on from there.
//! The command's end, and the end of its input, leave the step alone. The layout is the controller's. Source: sattach(1).

use std::time::Duration;

use sluice_model::filename::FilenameContext;
use sluice_model::ids::StepId;
use sluice_model::job::OpenMode;
use sluice_model::step::StepInfo;
use sluice_proto::v1;

use super::block_on;
use super::srun::bad_step;
use crate::client::address::{address_towards, random_text};
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::launch::listener::Listener;
use crate::launch::session::{Session, SessionOptions};
use crate::launch::streams::{Sink, SinkOptions, StreamMode};
use crate::launch::tasks::TaskTable;
use crate::output;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sattach.
pub fn run(parsed: &Parsed) -> i32 {
    let [target] = parsed.operands.as_slice() else {
        // Slurm's words, also when there is none.
        return misused("too many parameters");
    };
    let is_job = target.parse::<u32>().is_ok_and(|job| job > 0);
    if is_job {
        return misused("Failed to parse stepid from command line options");
    }
    let Some((job, step)) = step_of(target) else {
        output::error_line(format!("sattach: fatal: {}", bad_step(target)));
        return 1;
    };
    if matches!(step, StepId::Batch | StepId::Extern) {
        output::error_line("sattach: error: Cannot be used with extern or batch steps");
        return 1;
    }
    if parsed.has("pty")
        && ["input-filter", "output-filter", "error-filter"]
            .iter()
            .any(|name| parsed.has(name))
    {
        output::error_line("sattach: error: --pty does not go with the filters");
        return 1;
    }
    block_on(async {
        match find(job, step).await {
            Ok((_, Some(found))) if parsed.has("layout") => {
                output::text_out(&layout_text(&found));
                0
            }
            Ok((client, Some(found))) => attach(client, &found, parsed).await,
            Ok((_, None)) => {
                output::error_line(
                    "sattach: error: Could not get job step info: Invalid job id specified",
                );
                1
            }
            Err(error) => {
                output::error_line(format!(
                    "sattach: error: Could not get job step info: {error}"
                ));
                1
            }
        }
    })
}

fn misused(text: &str) -> i32 {
    output::error_line(format!("sattach: error: {text}"));
    output::error_line("Usage: sattach [options] <jobid.stepid>");
    1
}

/// Follows the step until it ends or the command is interrupted.
async fn attach(client: Client, step: &StepInfo, parsed: &Parsed) -> i32 {
    let listener = match Listener::bind(address_towards(&client.settings), random_text()).await {
        Ok(listener) => listener,
        Err(error) => {
            output::error_line(format!(
                "sattach: error: Unable to listen for the nodes: {error}"
            ));
            return 1;
        }
    };
    let request = v1::AttachStepRequest {
        job_id: step.job_id.0,
        step_id: step.step_id.number(),
        address: listener.address.to_string(),
        secret: listener.secret.clone(),
    };
    let events = listener.start();
    if let Err(status) = client.automation().attach_step(request).await {
        output::error_line(format!("sattach: error: {}", ClientError::from(status)));
        return 1;
    }
    let filter = |name: &str| StreamMode::parse(parsed.value(name));
    let pty = parsed.has("pty");
    let sink = Sink::open(
        &filter("output-filter"),
        &filter("error-filter"),
        SinkOptions {
            label: parsed.has("label"),
            unbuffered: pty,
            tasks: step.num_tasks,
            open_mode: OpenMode::Truncate,
        },
        std::path::Path::new("/"),
        &FilenameContext::default(),
    );
    let sink = match sink {
        Ok(sink) => sink,
        Err(error) => {
            output::error_line(format!("sattach: error: {error}"));
            return 1;
        }
    };
    let options = SessionOptions {
        command: "sattach",
        attached: true,
        job_id: step.job_id.0,
        step_id: step.step_id.number(),
        kill_on_bad_exit: false,
        wait: None,
        quit_on_interrupt: false,
        disable_status: false,
        verbose: parsed.count("verbose"),
        quiet: parsed.has("quiet"),
        pty,
        input: filter("input-filter"),
        ignored_signals: Vec::new(),
    };
    let session = Session::new(client, TaskTable::new(&step.layout), sink, options);
    let (tasks, lost) = session.run(events).await;
    tasks.exit_code().max(i32::from(lost))
}

fn step_of(text: &str) -> Option<(u32, StepId)> {
    let (job, step) = text.split_once('.')?;
    Some((job.parse().ok()?, step.parse().ok()?))
}

async fn find(job: u32, step: StepId) -> Result<(Client, Option<StepInfo>), ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let steps = client.steps(Some(job)).await?;
    let found = steps
        .into_iter()
        .find(|found| found.step_id == step && found.end_time.is_none());
    Ok((client, found))
}

/// The text of `--layout`.
fn layout_text(step: &StepInfo) -> String {
    let mut text = format!(
        "Job step layout:\n\t{} tasks, {} nodes ({})\n\n",
        step.num_tasks, step.num_nodes, step.nodes
    );
    for (index, node) in step.layout.nodes.iter().enumerate() {
        let ranks: Vec<String> = node.task_ids.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "\tNode {index} ({}), {} task(s): {}\n",
            node.node,
            node.task_ids.len(),
            ranks.join(" ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;
    use sluice_model::step::StepNode;

    /// Ranks by node.
    #[test]
    fn layout() {
        let mut step = samples::steps().remove(0);
        step.num_tasks = 3;
        step.num_nodes = 2;
        step.nodes = "n[1-2]".to_string();
        step.layout.nodes = [("n1", vec![0, 1]), ("n2", vec![2])]
            .into_iter()
            .map(|(node, task_ids)| StepNode {
                node: node.to_string(),
                task_ids,
                ..StepNode::default()
            })
            .collect();
        assert_eq!(
            layout_text(&step),
            "Job step layout:\n\t3 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 2 task(s): 0 1\n\tNode 1 (n2), 1 task(s): 2\n"
        );
        assert_eq!(step_of("9.0"), Some((9, StepId::Num(0))));
        assert_eq!(step_of("9"), None);
    }
}
