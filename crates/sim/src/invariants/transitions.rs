//! A job changes its state only along the allowed arrows, and its run number only grows.
//!
//! Source: job states and their changes in the scheduling reference, sections 5 to 9.

use sluice_controller::Cluster;
use sluice_controller::cluster::{Job, NodePhase};
use sluice_controller::event::Event;
use sluice_model::state::JobState;

use super::Violation;

const NAME: &str = "states change along the arrows";

/// Compares the states before and after a fact.
///
/// # Errors
/// The first job that changed in a way it must not.
pub fn check(before: &Cluster, after: &Cluster, event: &Event) -> Result<(), Violation> {
    for (id, job) in &after.jobs {
        let old = before.jobs.get(id);
        if old.is_some_and(|old| std::sync::Arc::ptr_eq(old, job)) {
            continue;
        }
        if let Some(text) = wrong(old.map(|job| &**job), job) {
            return Err(Violation::new(
                NAME,
                format!("job {id}: {text}; event {event:?}"),
            ));
        }
        indexed(after, job)
            .map_err(|text| Violation::new(NAME, format!("job {id}: {text}; event {event:?}")))?;
    }
    for (id, job) in &before.jobs {
        let gone = !after.jobs.contains_key(id);
        if gone && !job.state.is_completed() {
            return Err(Violation::new(
                NAME,
                format!("job {id} vanished as {:?}; event {event:?}", job.state),
            ));
        }
    }
    Ok(())
}

fn wrong(old: Option<&Job>, new: &Job) -> Option<String> {
    let from = old.map_or(JobState::Pending, |job| job.state.base);
    let to = new.state.base;
    let allowed = match (from, to) {
        (a, b) if a == b => true,
        (JobState::Pending, JobState::Running | JobState::Cancelled | JobState::Deadline) => true,
        (JobState::Running, JobState::Suspended) | (JobState::Suspended, JobState::Running) => true,
        // The end of a run, or back to the queue.
        (JobState::Running | JobState::Suspended, end) => {
            end == JobState::Pending || end.is_finished()
        }
        // Requeued by hand after its end.
        (end, JobState::Pending) => end.is_finished(),
        _ => false,
    };
    if !allowed {
        return Some(format!("{from} became {to}"));
    }
    if new.state.is_completing() && !(to.is_finished() || to == JobState::Pending) {
        return Some(format!("COMPLETING while {to}"));
    }
    let open = new.allocation.as_ref().is_some_and(|allocation| {
        allocation
            .nodes
            .iter()
            .any(|part| part.phase != NodePhase::Released)
    });
    if (to.is_finished() || to == JobState::Pending) && open != new.state.is_completing() {
        return Some(format!(
            "{to}, holds nodes: {open}, but flags {:?}",
            new.state
        ));
    }
    let old = old?;
    if new.restarts < old.restarts || new.run_attempt < old.run_attempt {
        return Some("the run number fell".to_owned());
    }
    if from.is_finished() && to == JobState::Pending && new.restarts != old.restarts + 1 {
        return Some("requeued without a new run number".to_owned());
    }
    None
}

/// The indexes name the job where they should.
fn indexed(cluster: &Cluster, job: &Job) -> Result<(), String> {
    let holds = job.allocation.as_ref().is_some_and(|allocation| {
        allocation
            .nodes
            .iter()
            .any(|part| part.phase != NodePhase::Released)
    });
    let finished = job
        .end_time
        .is_some_and(|end| cluster.finished.contains(&(end, job.id)));
    let checks = [
        (
            "pending",
            cluster.pending.contains(&job.id),
            job.state.is_pending(),
        ),
        ("holding", cluster.holding.contains(&job.id), holds),
        ("finished", finished, job.state.is_finished()),
    ];
    for (what, is, should) in checks {
        if is != should {
            return Err(format!(
                "in the index of {what} jobs: {is}, should be: {should}"
            ));
        }
    }
    Ok(())
}
