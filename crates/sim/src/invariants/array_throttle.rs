//! `--array=…%N`: a task starts only while fewer than N of its array run (sbatch(1) --array).

use sluice_controller::Cluster;
use sluice_controller::event::Event;
use sluice_controller::queue::eligibility;

use super::Violation;

/// Checks after a task's start.
///
/// # Errors
/// When more tasks run than allowed.
pub fn check(after: &Cluster, event: &Event) -> Result<(), Violation> {
    let Event::JobStarted {
        job_id, split_id, ..
    } = event
    else {
        return Ok(());
    };
    let Some(job) = after.job(split_id.unwrap_or(*job_id)) else {
        return Ok(());
    };
    let throttle = job.array.as_ref().map_or(0, |array| array.pending.throttle);
    let running = eligibility::running_tasks(after, job);
    if throttle > 0 && running > throttle {
        let text = format!(
            "{running} tasks of array {} run, {throttle} may",
            job.array_job_id()
        );
        return Err(Violation::new("the throttle of an array is kept", text));
    }
    Ok(())
}
