//! Why a job waits, or why it ended: every reason name that Slurm shows.
//!
//! Invariant: the shown name is the variant's name, letter by letter; tools match on it. Spellings are irregular on purpose
//! (`AssocGrpCpuLimit` but `AssocGrpCPUMinutesLimit`). Which reason applies is decided by the engine, not here.
//! Source: the job reason codes page of the manual.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A job's reason.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)+];

            /// The name as shown.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// Not evaluated yet, or nothing to say.
    #[default]
    None,
    /// A job of higher priority waits for the same partition or reservation.
    Priority,
    /// Top of its queue; resources are busy.
    Resources,
    /// A dependency is open.
    Dependency,
    /// A dependency can never be satisfied.
    DependencyNeverSatisfied,
    /// Its begin time lies ahead (also right after a requeue).
    BeginTime,
    /// Licences are in use.
    Licenses,
    /// A required node is down, drained, silent or in maintenance.
    ReqNodeNotAvail,
    /// Its reservation has not begun.
    Reservation,
    /// Its reservation was removed.
    ReservationDeleted,
    /// Its reservation cannot be used.
    ReservationInvalid,
    /// Partition is DOWN.
    PartitionDown,
    /// Partition is INACTIVE.
    PartitionInactive,
    /// Node count outside the partition's bounds.
    PartitionNodeLimit,
    /// Time limit above the partition's.
    PartitionTimeLimit,
    /// Another setting of the partition forbids it.
    PartitionConfig,
    /// More memory than MaxMemPerNode or MaxMemPerCPU.
    MaxMemPerLimit,
    /// Account not allowed in the partition.
    AccountNotAllowed,
    /// QOS not allowed in the partition.
    QOSNotAllowed,
    /// No nodes could ever satisfy it; held.
    BadConstraints,
    /// Not satisfiable now, maybe later.
    Constraints,
    /// The array's limit of running tasks is reached.
    JobArrayTaskLimit,
    /// Held by its owner.
    JobHeldUser,
    /// Held by an operator.
    JobHeldAdmin,
    /// Requeued too often; held.
    JobHoldMaxRequeue,
    /// Could not be launched.
    JobLaunchFailure,
    /// The previous run is not cleaned up yet.
    Cleaning,
    /// A prolog runs.
    Prolog,
    /// Immediate start impossible while scheduling is deferred.
    SchedDefer,
    /// Association missing or removed.
    InvalidAccount,
    /// QOS missing or removed.
    InvalidQOS,
    /// Below the usage threshold of its QOS.
    QOSUsageThreshold,
    /// A limit without a name of its own.
    AccountingPolicy,
    /// Association job limit (older, generic).
    AssociationJobLimit,
    /// Association resource limit (older, generic).
    AssociationResourceLimit,
    /// Association time limit (older, generic).
    AssociationTimeLimit,
    /// QOS job limit (older, generic).
    QOSJobLimit,
    /// QOS resource limit (older, generic).
    QOSResourceLimit,
    /// QOS time limit (older, generic).
    QOSTimeLimit,
    /// Burst buffer operation failed; held.
    BurstBufferOperation,
    /// Burst buffer space is short.
    BurstBufferResources,
    /// Burst buffer is being filled.
    BurstBufferStageIn,
    /// Could not end before its deadline.
    DeadLine,
    /// Waits for a lock of the federation.
    FedJobLock,
    /// Inactive for too long.
    InactiveLimit,
    /// MaxPoweredUpNodes is reached.
    MaxPoweredUpNodes,
    /// Reserved MPI ports are in use.
    MpiPortsBusy,
    /// Nvidia IMEX channels are in use.
    NvidiaImexChannels,
    /// A node failed.
    NodeDown,
    /// The system failed.
    SystemFailure,
    /// Ended with an exit code other than 0.
    NonZeroExitCode,
    /// Ended by a signal.
    RaisedSignal,
    /// Reached its time limit.
    TimeLimit,
    /// Killed for its memory.
    OutOfMemory,

    /// Limit: running jobs of an association subtree.
    AssocGrpJobsLimit,
    /// Limit: submitted jobs of an association subtree.
    AssocGrpSubmitJobsLimit,
    /// Limit: wall time of an association subtree.
    AssocGrpWallLimit,
    /// Limit: running jobs of an association.
    AssocMaxJobsLimit,
    /// Limit: submitted jobs of an association.
    AssocMaxSubmitJobLimit,
    /// Limit: wall time of a job.
    AssocMaxWallDurationPerJobLimit,
    /// Limit: CPUs in use by an association subtree.
    AssocGrpCpuLimit,
    /// Limit: memory in use by an association subtree.
    AssocGrpMemLimit,
    /// Limit: nodes in use by an association subtree.
    AssocGrpNodeLimit,
    /// Limit: GRES in use by an association subtree.
    AssocGrpGRES,
    /// Limit: licences in use by an association subtree.
    AssocGrpLicense,
    /// Limit: billing in use by an association subtree.
    AssocGrpBilling,
    /// Limit: energy in use by an association subtree.
    AssocGrpEnergy,
    /// Limit: burst buffers in use by an association subtree.
    AssocGrpBB,
    /// Limit: another TRES in use by an association subtree.
    AssocGrpUnknown,
    /// Limit: CPU minutes of an association subtree.
    AssocGrpCPUMinutesLimit,
    /// Limit: memory minutes of an association subtree.
    AssocGrpMemMinutes,
    /// Limit: node minutes of an association subtree.
    AssocGrpNodeMinutes,
    /// Limit: GRES minutes of an association subtree.
    AssocGrpGRESMinutes,
    /// Limit: licence minutes of an association subtree.
    AssocGrpLicenseMinutes,
    /// Limit: billing minutes of an association subtree.
    AssocGrpBillingMinutes,
    /// Limit: energy minutes of an association subtree.
    AssocGrpEnergyMinutes,
    /// Limit: burst buffer minutes of an association subtree.
    AssocGrpBBMinutes,
    /// Limit: minutes of another TRES of an association subtree.
    AssocGrpUnknownMinutes,
    /// Limit: CPU minutes of running jobs of an association subtree.
    AssocGrpCPURunMinutesLimit,
    /// Limit: memory minutes of running jobs of an association subtree.
    AssocGrpMemRunMinutes,
    /// Limit: node minutes of running jobs of an association subtree.
    AssocGrpNodeRunMinutes,
    /// Limit: GRES minutes of running jobs of an association subtree.
    AssocGrpGRESRunMinutes,
    /// Limit: licence minutes of running jobs of an association subtree.
    AssocGrpLicenseRunMinutes,
    /// Limit: billing minutes of running jobs of an association subtree.
    AssocGrpBillingRunMinutes,
    /// Limit: energy minutes of running jobs of an association subtree.
    AssocGrpEnergyRunMinutes,
    /// Limit: burst buffer minutes of running jobs of an association subtree.
    AssocGrpBBRunMinutes,
    /// Limit: minutes of another TRES of running jobs of an association subtree.
    AssocGrpUnknownRunMinutes,
    /// Limit: CPUs of a job of an association.
    AssocMaxCpuPerJobLimit,
    /// Limit: memory of a job of an association.
    AssocMaxMemPerJob,
    /// Limit: nodes of a job of an association.
    AssocMaxNodePerJobLimit,
    /// Limit: GRES of a job of an association.
    AssocMaxGRESPerJob,
    /// Limit: licences of a job of an association.
    AssocMaxLicensePerJob,
    /// Limit: billing of a job of an association.
    AssocMaxBillingPerJob,
    /// Limit: energy of a job of an association.
    AssocMaxEnergyPerJob,
    /// Limit: burst buffers of a job of an association.
    AssocMaxBBPerJob,
    /// Limit: another TRES of a job of an association.
    AssocMaxUnknownPerJob,
    /// Limit: CPU minutes of a job of an association.
    AssocMaxCpuMinutesPerJobLimit,
    /// Limit: memory minutes of a job of an association.
    AssocMaxMemMinutesPerJob,
    /// Limit: node minutes of a job of an association.
    AssocMaxNodeMinutesPerJob,
    /// Limit: GRES minutes of a job of an association.
    AssocMaxGRESMinutesPerJob,
    /// Limit: licence minutes of a job of an association.
    AssocMaxLicenseMinutesPerJob,
    /// Limit: billing minutes of a job of an association.
    AssocMaxBillingMinutesPerJob,
    /// Limit: energy minutes of a job of an association.
    AssocMaxEnergyMinutesPerJob,
    /// Limit: burst buffer minutes of a job of an association.
    AssocMaxBBMinutesPerJob,
    /// Limit: minutes of another TRES of a job of an association.
    AssocMaxUnknownMinutesPerJob,
    /// Limit: CPUs on each node of a job of an association.
    AssocMaxCpuPerNode,
    /// Limit: memory on each node of a job of an association.
    AssocMaxMemPerNode,
    /// Limit: GRES on each node of a job of an association.
    AssocMaxGRESPerNode,
    /// Limit: billing on each node of a job of an association.
    AssocMaxBillingPerNode,
    /// Limit: energy on each node of a job of an association.
    AssocMaxEnergyPerNode,
    /// Limit: burst buffers on each node of a job of an association.
    AssocMaxBBPerNode,
    /// Limit: another TRES on each node of a job of an association.
    AssocMaxUnknownPerNode,

    /// Limit: running jobs of a QOS.
    QOSGrpJobsLimit,
    /// Limit: submitted jobs of a QOS.
    QOSGrpSubmitJobsLimit,
    /// Limit: wall time of a QOS.
    QOSGrpWallLimit,
    /// Limit: running jobs of a user in a QOS.
    QOSMaxJobsPerUserLimit,
    /// Limit: submitted jobs of a user in a QOS.
    QOSMaxSubmitJobPerUserLimit,
    /// Limit: wall time of a job in a QOS.
    QOSMaxWallDurationPerJobLimit,
    /// Limit: running jobs of an account in a QOS.
    MaxJobsPerAccount,
    /// Limit: submitted jobs of an account in a QOS.
    MaxSubmitJobsPerAccount,
    /// Limit: CPUs in use in a QOS.
    QOSGrpCpuLimit,
    /// Limit: memory in use in a QOS.
    QOSGrpMemLimit,
    /// Limit: nodes in use in a QOS.
    QOSGrpNodeLimit,
    /// Limit: GRES in use in a QOS.
    QOSGrpGRES,
    /// Limit: licences in use in a QOS.
    QOSGrpLicense,
    /// Limit: billing in use in a QOS.
    QOSGrpBilling,
    /// Limit: energy in use in a QOS.
    QOSGrpEnergy,
    /// Limit: burst buffers in use in a QOS.
    QOSGrpBB,
    /// Limit: another TRES in use in a QOS.
    QOSGrpUnknown,
    /// Limit: CPU minutes of a QOS.
    QOSGrpCPUMinutesLimit,
    /// Limit: memory minutes of a QOS.
    QOSGrpMemoryMinutes,
    /// Limit: node minutes of a QOS.
    QOSGrpNodeMinutes,
    /// Limit: GRES minutes of a QOS.
    QOSGrpGRESMinutes,
    /// Limit: licence minutes of a QOS.
    QOSGrpLicenseMinutes,
    /// Limit: billing minutes of a QOS.
    QOSGrpBillingMinutes,
    /// Limit: energy minutes of a QOS.
    QOSGrpEnergyMinutes,
    /// Limit: burst buffer minutes of a QOS.
    QOSGrpBBMinutes,
    /// Limit: minutes of another TRES of a QOS.
    QOSGrpUnknownMinutes,
    /// Limit: CPU minutes of running jobs of a QOS.
    QOSGrpCPURunMinutesLimit,
    /// Limit: memory minutes of running jobs of a QOS.
    QOSGrpMemoryRunMinutes,
    /// Limit: node minutes of running jobs of a QOS.
    QOSGrpNodeRunMinutes,
    /// Limit: GRES minutes of running jobs of a QOS.
    QOSGrpGRESRunMinutes,
    /// Limit: licence minutes of running jobs of a QOS.
    QOSGrpLicenseRunMinutes,
    /// Limit: billing minutes of running jobs of a QOS.
    QOSGrpBillingRunMinutes,
    /// Limit: energy minutes of running jobs of a QOS.
    QOSGrpEnergyRunMinutes,
    /// Limit: burst buffer minutes of running jobs of a QOS.
    QOSGrpBBRunMinutes,
    /// Limit: minutes of another TRES of running jobs of a QOS.
    QOSGrpUnknownRunMinutes,
    /// Limit: CPUs of a job in a QOS.
    QOSMaxCpuPerJobLimit,
    /// Limit: memory of a job in a QOS.
    QOSMaxMemoryPerJob,
    /// Limit: nodes of a job in a QOS.
    QOSMaxNodePerJobLimit,
    /// Limit: GRES of a job in a QOS.
    QOSMaxGRESPerJob,
    /// Limit: licences of a job in a QOS.
    QOSMaxLicensePerJob,
    /// Limit: billing of a job in a QOS.
    QOSMaxBillingPerJob,
    /// Limit: energy of a job in a QOS.
    QOSMaxEnergyPerJob,
    /// Limit: burst buffers of a job in a QOS.
    QOSMaxBBPerJob,
    /// Limit: another TRES of a job in a QOS.
    QOSMaxUnknownPerJob,
    /// Limit: CPU minutes of a job in a QOS.
    QOSMaxCpuMinutesPerJobLimit,
    /// Limit: memory minutes of a job in a QOS.
    QOSMaxMemoryMinutesPerJob,
    /// Limit: node minutes of a job in a QOS.
    QOSMaxNodeMinutesPerJob,
    /// Limit: GRES minutes of a job in a QOS.
    QOSMaxGRESMinutesPerJob,
    /// Limit: licence minutes of a job in a QOS.
    QOSMaxLicenseMinutesPerJob,
    /// Limit: billing minutes of a job in a QOS.
    QOSMaxBillingMinutesPerJob,
    /// Limit: energy minutes of a job in a QOS.
    QOSMaxEnergyMinutesPerJob,
    /// Limit: burst buffer minutes of a job in a QOS.
    QOSMaxBBMinutesPerJob,
    /// Limit: minutes of another TRES of a job in a QOS.
    QOSMaxUnknownMinutesPerJob,
    /// Limit: CPUs on each node of a job in a QOS.
    QOSMaxCpuPerNode,
    /// Limit: memory on each node of a job in a QOS.
    QOSMaxMemoryPerNode,
    /// Limit: GRES on each node of a job in a QOS.
    QOSMaxGRESPerNode,
    /// Limit: billing on each node of a job in a QOS.
    QOSMaxBillingPerNode,
    /// Limit: energy on each node of a job in a QOS.
    QOSMaxEnergyPerNode,
    /// Limit: burst buffers on each node of a job in a QOS.
    QOSMaxBBPerNode,
    /// Limit: another TRES on each node of a job in a QOS.
    QOSMaxUnknownPerNode,
    /// Limit: CPUs of a user in a QOS.
    QOSMaxCpuPerUserLimit,
    /// Limit: memory of a user in a QOS.
    QOSMaxMemoryPerUser,
    /// Limit: nodes of a user in a QOS.
    QOSMaxNodePerUserLimit,
    /// Limit: GRES of a user in a QOS.
    QOSMaxGRESPerUser,
    /// Limit: licences of a user in a QOS.
    QOSMaxLicensePerUser,
    /// Limit: billing of a user in a QOS.
    QOSMaxBillingPerUser,
    /// Limit: energy of a user in a QOS.
    QOSMaxEnergyPerUser,
    /// Limit: burst buffers of a user in a QOS.
    QOSMaxBBPerUser,
    /// Limit: another TRES of a user in a QOS.
    QOSMaxUnknownPerUser,
    /// Limit: CPUs of an account in a QOS.
    MaxCpuPerAccount,
    /// Limit: memory of an account in a QOS.
    MaxMemoryPerAccount,
    /// Limit: nodes of an account in a QOS.
    MaxNodePerAccount,
    /// Limit: GRES of an account in a QOS.
    MaxGRESPerAccount,
    /// Limit: licences of an account in a QOS.
    MaxLicensePerAccount,
    /// Limit: billing of an account in a QOS.
    MaxBillingPerAccount,
    /// Limit: energy of an account in a QOS.
    MaxEnergyPerAccount,
    /// Limit: burst buffers of an account in a QOS.
    MaxBBPerAccount,
    /// Limit: another TRES of an account in a QOS.
    MaxUnknownPerAccount,
    /// Limit: CPU minutes of running jobs of a user in a QOS.
    MaxCpuRunMinsPerUser,
    /// Limit: memory minutes of running jobs of a user in a QOS.
    MaxMemoryRunMinsPerUser,
    /// Limit: node minutes of running jobs of a user in a QOS.
    MaxNodeRunMinsPerUser,
    /// Limit: GRES minutes of running jobs of a user in a QOS.
    MaxGRESRunMinsPerUser,
    /// Limit: licence minutes of running jobs of a user in a QOS.
    MaxLicenseRunMinsPerUser,
    /// Limit: billing minutes of running jobs of a user in a QOS.
    MaxBillingRunMinsPerUser,
    /// Limit: energy minutes of running jobs of a user in a QOS.
    MaxEnergyRunMinsPerUser,
    /// Limit: burst buffer minutes of running jobs of a user in a QOS.
    MaxBBRunMinsPerUser,
    /// Limit: minutes of another TRES of running jobs of a user in a QOS.
    MaxUnknownRunMinsPerUser,
    /// Limit: CPU minutes of running jobs of an account in a QOS.
    MaxCpuRunMinsPerAccount,
    /// Limit: memory minutes of running jobs of an account in a QOS.
    MaxMemoryRunMinsPerAccount,
    /// Limit: node minutes of running jobs of an account in a QOS.
    MaxNodeRunMinsPerAccount,
    /// Limit: GRES minutes of running jobs of an account in a QOS.
    MaxGRESRunMinsPerAccount,
    /// Limit: licence minutes of running jobs of an account in a QOS.
    MaxLicenseRunMinsPerAccount,
    /// Limit: billing minutes of running jobs of an account in a QOS.
    MaxBillingRunMinsPerAccount,
    /// Limit: energy minutes of running jobs of an account in a QOS.
    MaxEnergyRunMinsPerAccount,
    /// Limit: burst buffer minutes of running jobs of an account in a QOS.
    MaxBBRunMinsPerAccount,
    /// Limit: minutes of another TRES of running jobs of an account in a QOS.
    MaxUnknownRunMinsPerAccount,
    /// Minimum of a QOS: CPUs.
    QOSMinCpuNotSatisfied,
    /// Minimum of a QOS: memory.
    QOSMinMemory,
    /// Minimum of a QOS: nodes.
    QOSMinNode,
    /// Minimum of a QOS: GRES.
    QOSMinGRES,
    /// Minimum of a QOS: licences.
    QOSMinLicense,
    /// Minimum of a QOS: billing.
    QOSMinBilling,
    /// Minimum of a QOS: energy.
    QOSMinEnergy,
    /// Minimum of a QOS: burst buffers.
    QOSMinBB,
    /// Minimum of a QOS: another TRES.
    QOSMinUnknown,
}

impl Reason {
    /// The job is held (priority 0) and keeps this reason until it is released.
    #[must_use]
    pub fn is_hold(self) -> bool {
        matches!(
            self,
            Reason::JobHeldUser
                | Reason::JobHeldAdmin
                | Reason::BadConstraints
                | Reason::BurstBufferOperation
                | Reason::JobHoldMaxRequeue
                | Reason::ReservationDeleted
                | Reason::ReservationInvalid
        )
    }

    /// A limit of an association or a QOS.
    #[must_use]
    pub fn is_limit(self) -> bool {
        self >= Reason::AssocGrpJobsLimit
            || matches!(
                self,
                Reason::QOSUsageThreshold
                    | Reason::AccountingPolicy
                    | Reason::AssociationJobLimit
                    | Reason::AssociationResourceLimit
                    | Reason::AssociationTimeLimit
                    | Reason::QOSJobLimit
                    | Reason::QOSResourceLimit
                    | Reason::QOSTimeLimit
            )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A reason name that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown job reason \"{0}\"")]
pub struct ReasonError(pub String);

impl FromStr for Reason {
    type Err = ReasonError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.name() == text)
            .ok_or_else(|| ReasonError(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names survive both ways, and no two are equal.
    #[test]
    fn names_round_trip() {
        for (i, reason) in Reason::ALL.iter().enumerate() {
            let parsed: Reason = reason.name().parse().expect("known");
            assert_eq!(parsed, *reason);
            assert!(
                Reason::ALL[i + 1..]
                    .iter()
                    .all(|other| other.name() != reason.name())
            );
        }
        assert!("resources".parse::<Reason>().is_err());
        assert_eq!(Reason::default(), Reason::None);
    }

    /// Limits and holds are told apart by the engine through these.
    #[test]
    fn classes() {
        assert!(Reason::QOSMaxJobsPerUserLimit.is_limit());
        assert!(Reason::QOSMinUnknown.is_limit());
        assert!(!Reason::Priority.is_limit() && !Reason::OutOfMemory.is_limit());
        assert!(Reason::JobHeldUser.is_hold() && !Reason::Dependency.is_hold());
    }
}
