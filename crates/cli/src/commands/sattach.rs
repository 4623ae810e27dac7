//! sattach: which task of a running step runs where, and attaching to its streams.
//!
//! A step daemon sends its streams to one srun only; a second reader is refused here rather than shown nothing. The layout is
//! the controller's. Source: sattach(1).

use std::time::Duration;

use sluice_model::ids::StepId;
use sluice_model::step::StepInfo;

use super::block_on;
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::output;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sattach.
pub fn run(parsed: &Parsed) -> i32 {
    let [target] = parsed.operands.as_slice() else {
        output::error_line("sattach: error: the step is missing: sattach job.step");
        return 1;
    };
    let Some((job, step)) = step_of(target) else {
        output::error_line(format!(
            "sattach: error: \"{target}\" is no step: it must be written as job.step"
        ));
        return 1;
    };
    if step == StepId::Batch {
        output::error_line(
            "sattach: error: a batch script cannot be attached to: read its output file",
        );
        return 1;
    }
    block_on(async {
        match find(job, step).await {
            Ok(Some(found)) if parsed.has("layout") => {
                output::text_out(&layout_text(&found));
                0
            }
            Ok(Some(_)) => {
                output::error_line(format!(
                    "sattach: error: the output of {target} goes to the srun that started it, and a second reader is not \
                     supported yet\n\nhint: sattach --layout {target} shows where its tasks run; srun --overlap --jobid={job} \
                     starts a shell beside them"
                ));
                1
            }
            Ok(None) => {
                output::error_line("sattach: error: Invalid job id specified");
                1
            }
            Err(error) => {
                output::error_line(format!("sattach: error: {error}"));
                1
            }
        }
    })
}

fn step_of(text: &str) -> Option<(u32, StepId)> {
    let (job, step) = text.split_once('.')?;
    Some((job.parse().ok()?, step.parse().ok()?))
}

async fn find(job: u32, step: StepId) -> Result<Option<StepInfo>, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let steps = client.steps(Some(job)).await?;
    Ok(steps
        .into_iter()
        .find(|found| found.step_id == step && found.end_time.is_none()))
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
    text.push('\n');
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
            "Job step layout:\n\t3 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 2 task(s): 0 1\n\tNode 1 (n2), 1 task(s): 2\n\n"
        );
        assert_eq!(step_of("9.0"), Some((9, StepId::Num(0))));
        assert_eq!(step_of("9"), None);
    }
}
