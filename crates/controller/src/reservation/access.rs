//! Who may use a reservation, and what a job may name in `--reservation`.
//!
//! Kinds of lists that say something must all be met; root and SlurmUser may use every reservation. Source: reservations page.

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::job::JobDescription;
use sluice_model::reservation::ReservationFlags;

use super::{named, names_of};
use crate::cluster::{Cluster, Job, Reservation};
use crate::command::Rejection;

/// What of a job the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct Applicant<'a> {
    /// uid.
    pub uid: u32,
    /// Name of the user.
    pub user: &'a str,
    /// Names of the user's groups, as far as they are known.
    pub groups: &'a [String],
    /// Account.
    pub account: &'a str,
    /// QOS.
    pub qos: &'a str,
    /// Partitions.
    pub partitions: &'a [String],
}

impl Applicant<'_> {
    fn rules_everything(&self, cluster: &Cluster) -> bool {
        self.uid == 0 || self.user == cluster.config.slurm_user
    }
}

/// The applicant may use the reservation.
#[must_use]
pub fn may_use(cluster: &Cluster, reservation: &Reservation, job: Applicant<'_>) -> bool {
    if job.rules_everything(cluster) {
        return true;
    }
    reservation.users.allows(|name| name == job.user)
        && reservation.groups.allows(|name| {
            job.groups.iter().any(|group| group == name)
                || reservation
                    .group_members
                    .iter()
                    .any(|member| member == job.user)
        })
        && reservation.accounts.allows(|name| name == job.account)
        && reservation.qos.allows(|name| name == job.qos)
        && reservation
            .allowed_partitions
            .allows(|name| job.partitions.iter().any(|partition| partition == name))
}

/// The job may use the reservation. Of its groups only the primary one is known here.
#[must_use]
pub fn job_may_use(cluster: &Cluster, reservation: &Reservation, job: &Job) -> bool {
    may_use(cluster, reservation, applicant(job))
}

/// What of a job's record the rules look at.
#[must_use]
pub fn applicant(job: &Job) -> Applicant<'_> {
    Applicant {
        uid: job.request.uid,
        user: &job.user_name,
        groups: std::slice::from_ref(&job.group_name),
        account: &job.account,
        qos: &job.qos,
        partitions: &job.request.partitions,
    }
}

/// Tests the size of a job against the nodes of the reservations that it names: one of them must be able to hold it.
///
/// # Errors
/// More nodes than there are, or a named node outside.
pub fn check_size(cluster: &Cluster, request: &JobDescription) -> Result<(), Rejection> {
    let mut fault = None;
    for name in names_of(request.reservation.as_deref()) {
        let Some(own) = named(cluster, name) else {
            continue;
        };
        if own.is(ReservationFlags::FLEX.with(ReservationFlags::ANY_NODES)) {
            return Ok(());
        }
        let wanted = request.required_nodes.as_deref().unwrap_or_default();
        let outside = parse_hostlist(wanted)
            .unwrap_or_default()
            .iter()
            .any(|node| own.on(node).is_none());
        let too_many = request.min_nodes.unwrap_or(1) as usize > own.nodes.len();
        if !outside && !too_many {
            return Ok(());
        }
        let mut rejection = Rejection::new(ErrorCode::RequestedNodeConfigUnavailable);
        rejection.notice = outside.then(|| "Problem using reservation".to_owned());
        fault.get_or_insert(rejection);
    }
    fault.map_or(Ok(()), Err)
}

/// Tests the names of `--reservation`.
///
/// # Errors
/// Unknown, not for jobs, or not for this one.
pub fn check_names(
    cluster: &Cluster,
    text: Option<&str>,
    job: Applicant<'_>,
) -> Result<(), Rejection> {
    for name in names_of(text) {
        let reservation = named(cluster, name).ok_or(ErrorCode::ReservationInvalid)?;
        if reservation.is(ReservationFlags::TIME_FLOAT) {
            return Err(ErrorCode::ReservationInvalid.into());
        }
        if !may_use(cluster, reservation, job) {
            return Err(ErrorCode::ReservationAccess.into());
        }
    }
    Ok(())
}
