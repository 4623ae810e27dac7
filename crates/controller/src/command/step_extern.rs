//! The extern step of a job, in which processes from outside live: of ssh logins, say. Source: slurm.conf(5) PrologFlags=Contain.

use std::sync::Arc;

use sluice_model::ids::StepId;
use sluice_model::launch::StepUsage;
use sluice_model::state::JobState;
use sluice_model::step::{StepDescription, StepLayout, StepNode};

use super::step::send_launches;
use crate::cluster::{Job, Step, StepNodeState};
use crate::event::Event;
use crate::transaction::Transaction;

/// What keeps an extern step alive: a process that does nothing until its job ends.
const EXTERN_PROGRAM: [&str; 2] = ["sleep", "100000000"];

/// Makes the step in which processes from outside live (PrologFlags=Contain): on every node, with everything the job has there, and
/// nothing that other steps could not use too.
pub(super) fn create_extern(transaction: &mut Transaction<'_>, job: &Job) {
    let Some(allocation) = &job.allocation else {
        return;
    };
    let parts = || allocation.nodes.iter().enumerate();
    let layout = StepLayout {
        nodes: parts()
            .map(|(rank, part)| StepNode {
                node: part.name.clone(),
                task_ids: vec![rank as u32],
                cpu_ids: part.cpu_ids.clone(),
                memory: part.memory,
                gres: part.gres.clone(),
            })
            .collect(),
    };
    let step = Step {
        id: StepId::Extern,
        request: Arc::new(StepDescription {
            job_id: job.id.0,
            name: "extern".to_owned(),
            argv: EXTERN_PROGRAM.map(str::to_owned).to_vec(),
            work_dir: "/".to_owned(),
            umask: 0o022,
            overlap: true,
            ..StepDescription::default()
        }),
        environment: None,
        num_cpus: layout
            .nodes
            .iter()
            .map(|node| node.cpu_ids.len() as u32)
            .sum(),
        num_tasks: layout.nodes.len() as u32,
        layout: Arc::new(layout),
        nodes: parts()
            .map(|(_, part)| StepNodeState {
                node: part.node,
                started: false,
                ended: None,
                launch_error: None,
                usage: StepUsage::default(),
            })
            .collect(),
        cpus_per_task: 1,
        overlap: true,
        start_time: transaction.now,
        end_time: None,
        state: JobState::Running,
        exit_status: Default::default(),
        kill_requester: None,
    };
    transaction.emit(Event::StepCreated {
        job_id: job.id,
        step: Box::new(step),
    });
    send_launches(transaction, job.id, StepId::Extern);
}
