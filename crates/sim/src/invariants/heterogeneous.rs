//! Components of a heterogeneous job start together: after no transaction does one run while another has yet to start.

use sluice_controller::Cluster;
use sluice_controller::cluster::Job;

use super::Violation;

/// Looks at every heterogeneous job.
///
/// # Errors
/// The first whose components are apart.
pub fn check(cluster: &Cluster) -> Result<(), Violation> {
    for leader in cluster.jobs.values() {
        let Some(het) = leader.het.filter(|het| het.offset == 0) else {
            continue;
        };
        let members: Vec<&Job> = het
            .members()
            .filter_map(|id| cluster.job(id))
            .map(|job| &**job)
            .collect();
        let waits = members
            .iter()
            .find(|job| job.state.is_pending() && !job.state.is_completing());
        let runs = members
            .iter()
            .find(|job| job.state.is_running() && !job.state.is_completing());
        if let (Some(waits), Some(runs)) = (waits, runs) {
            return Err(Violation::new(
                "components of a heterogeneous job start together",
                format!(
                    "component {} is {}, component {} is {}",
                    waits.id, waits.state, runs.id, runs.state
                ),
            ));
        }
    }
    Ok(())
}
