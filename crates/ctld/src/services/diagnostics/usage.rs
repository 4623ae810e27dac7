//! Questions to agents about what running steps use, and the way of the answers back to who asked.
//!
//! A question has a number; the answer of an agent carries it. Nothing of this reaches the engine: a figure that is lost with a
//! connection is asked for again by the user.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluice_controller::cluster::{Job, Step};
use sluice_model::ids::StepId;
use sluice_model::launch::{AgentOrder, AgentReport};
use sluice_proto::v1::{GetStepUsageReply, StepNodeUsage};
use tokio::sync::mpsc;

use crate::core::Sessions;

/// How long agents are waited for.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// An answer: node and report.
type Answer = (String, AgentReport);

/// Questions without an answer yet.
#[derive(Debug, Default)]
pub struct UsageQuestions {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::UnboundedSender<Answer>>>,
}

impl UsageQuestions {
    /// Keeps an answer to a question and gives every other report back.
    pub fn take(&self, node: &str, report: AgentReport) -> Option<AgentReport> {
        let AgentReport::Usage { request, .. } = &report else {
            return Some(report);
        };
        if let Some(asker) = self.waiting.lock().get(request) {
            let _ = asker.send((node.to_owned(), report));
        }
        None
    }

    /// Asks every node of the running steps and waits for the answers, for a while.
    pub(super) async fn ask(
        &self,
        sessions: &Sessions,
        job: &Job,
        wanted: Option<StepId>,
    ) -> GetStepUsageReply {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, mut answers) = mpsc::unbounded_channel();
        self.waiting.lock().insert(request, sender);
        let mut open: BTreeSet<(StepId, String)> = BTreeSet::new();
        for step in running_steps(job, wanted) {
            for part in &step.layout.nodes {
                open.insert((step.id, part.node.clone()));
                let order = AgentOrder::ReportUsage {
                    request,
                    job_id: job.id,
                    step_id: step.id,
                };
                sessions.send(&part.node, order);
            }
        }
        let mut reply = GetStepUsageReply::default();
        let deadline = tokio::time::Instant::now() + ANSWER_MAX;
        while !open.is_empty() {
            let Ok(Some((node, report))) = tokio::time::timeout_at(deadline, answers.recv()).await
            else {
                break;
            };
            let AgentReport::Usage {
                step_id,
                usage,
                pids,
                ..
            } = report
            else {
                continue;
            };
            if !open.remove(&(step_id, node.clone())) {
                continue;
            }
            match usage {
                Some(usage) => reply.parts.push(StepNodeUsage {
                    step_id: step_id.number(),
                    task_ids: tasks_on(job, step_id, &node),
                    node,
                    usage: Some(usage.into()),
                    pids,
                }),
                None => reply.silent.push(node),
            }
        }
        self.waiting.lock().remove(&request);
        reply.silent.extend(open.into_iter().map(|(_, node)| node));
        reply.silent.sort_unstable();
        reply.silent.dedup();
        reply.parts.sort_by_key(|part| {
            let first = part.task_ids.first().copied().unwrap_or(0);
            (part.step_id, first, part.node.clone())
        });
        reply
    }
}

fn running_steps(job: &Job, wanted: Option<StepId>) -> impl Iterator<Item = &Step> {
    job.steps
        .values()
        .map(AsRef::as_ref)
        .filter(move |step: &&Step| {
            step.end_time.is_none() && wanted.is_none_or(|wanted| wanted == step.id)
        })
}

fn tasks_on(job: &Job, step_id: StepId, node: &str) -> Vec<u32> {
    job.steps
        .get(&step_id)
        .and_then(|step| step.layout.nodes.iter().find(|part| part.node == node))
        .map(|part| part.task_ids.clone())
        .unwrap_or_default()
}
