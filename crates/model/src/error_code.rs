//! Error codes that users see: number, name and the exact message that Slurm's commands print.
//!
//! Invariant: numbers and messages are part of the interface; programs compare both. A code never changes its meaning. More
//! words about an occurrence travel beside the code, not in it. Source: the errors table of the commands' manual pages and
//! what the commands print.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $label:literal $message:literal,)+) => {
        /// A code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u16)]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $number,)+
        }

        impl ErrorCode {
            /// Every code in the order of the numbers.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)+];

            /// Name in capitals without prefix, `INVALID_JOB_ID`.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $label,)+
                }
            }

            /// Message as printed.
            #[must_use]
            pub fn message(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $message,)+
                }
            }
        }
    };
}

error_codes! {
    /// Anything without a code of its own.
    Unspecified = 1 "ERROR" "Unspecified error",
    /// The controller could not be reached.
    ContactController = 1800 "COMMUNICATIONS_CONNECTION_ERROR" "Unable to contact slurm controller (connect failure)",
    /// Unknown partition.
    InvalidPartitionName = 2000 "INVALID_PARTITION_NAME" "Invalid partition name specified",
    /// No partition named and none is the default.
    DefaultPartitionNotSet = 2001 "DEFAULT_PARTITION_NOT_SET" "No partition specified or system default partition",
    /// Not permitted.
    AccessDenied = 2002 "ACCESS_DENIED" "Access/permission denied",
    /// AllowGroups of the partition.
    PartitionGroupMissing = 2003 "JOB_MISSING_REQUIRED_PARTITION_GROUP" "User's group not permitted to use this partition",
    /// `-w` names nodes of another partition.
    RequestedNodesNotInPartition = 2004 "REQUESTED_NODES_NOT_IN_PARTITION" "Requested nodes not in this partition",
    /// More CPUs than allowed.
    TooManyRequestedCpus = 2005 "TOO_MANY_REQUESTED_CPUS" "More processors requested than permitted",
    /// Node count impossible.
    InvalidNodeCount = 2006 "INVALID_NODE_COUNT" "Node count specification invalid",
    /// MaxJobCount is reached; clients retry.
    MaxJobCount = 2007 "MAX_JOB_COUNT" "Unable to create job record, try again",
    /// Neither nodes nor tasks.
    MissingSize = 2008 "JOB_MISSING_SIZE_SPECIFICATION" "Job size specification needs to be provided",
    /// Batch job without script.
    ScriptMissing = 2009 "JOB_SCRIPT_MISSING" "Job script not specified",
    /// The caller is not the user (or operator) it would have to be.
    InvalidUserId = 2010 "USER_ID_MISSING" "Invalid user id",
    /// Id in use.
    DuplicateJobId = 2011 "DUPLICATE_JOB_ID" "Duplicate job id",
    /// A path or another text is too long.
    PathnameTooLong = 2012 "PATHNAME_TOO_LONG" "Pathname of a file, directory or other parameter too long",
    /// `--immediate` and others are before it.
    NotTopPriority = 2013 "NOT_TOP_PRIORITY" "Immediate execution impossible, insufficient priority",
    /// Never satisfiable.
    RequestedNodeConfigUnavailable = 2014 "REQUESTED_NODE_CONFIG_UNAVAILABLE" "Requested node configuration is not available",
    /// Partition limit; the job may be queued.
    RequestedPartConfigUnavailable = 2015 "REQUESTED_PART_CONFIG_UNAVAILABLE" "Requested partition configuration not available now",
    /// Busy now.
    NodesBusy = 2016 "NODES_BUSY" "Requested nodes are busy",
    /// Unknown job.
    InvalidJobId = 2017 "INVALID_JOB_ID" "Invalid job id specified",
    /// Unknown node.
    InvalidNodeName = 2018 "INVALID_NODE_NAME" "Invalid node name specified",
    /// Script or environment could not be stored.
    WritingToFile = 2019 "WRITING_TO_FILE" "I/O error writing script/environment to file",
    /// In between two states.
    TransitionStateNoUpdate = 2020 "TRANSITION_STATE_NO_UPDATE" "Job can not be altered now, try again later",
    /// Ended or ending.
    AlreadyDone = 2021 "ALREADY_DONE" "Job/step already completing or completed",
    /// Distribution impossible.
    BadDistribution = 2023 "BAD_DIST" "Task distribution specification invalid",
    /// Still pending.
    JobPending = 2024 "JOB_PENDING" "Job is pending execution",
    /// Task count impossible.
    BadTaskCount = 2025 "BAD_TASK_COUNT" "Task count specification invalid",
    /// Backup controller in standby.
    InStandbyMode = 2027 "IN_STANDBY_MODE" "Slurm backup controller in standby mode",
    /// Node state unknown or impossible.
    InvalidNodeState = 2028 "INVALID_NODE_STATE" "Invalid node state specified",
    /// Unknown feature.
    InvalidFeature = 2029 "INVALID_FEATURE" "Invalid feature specification",
    /// Not supported.
    NotSupported = 2036 "NOT_SUPPORTED" "Requested operation not supported on this system",
    /// Not possible now.
    Disabled = 2037 "DISABLED" "Requested operation is presently disabled",
    /// Bad dependency.
    Dependency = 2038 "DEPENDENCY" "Job dependency problem",
    /// Only for batch jobs.
    BatchOnly = 2039 "BATCH_ONLY" "Only batch jobs are accepted or processed",
    /// Held.
    JobHeld = 2042 "JOB_HELD" "Job is in held state",
    /// Memory specification cannot be met.
    InvalidTaskMemory = 2044 "INVALID_TASK_MEMORY" "Memory required by task is not available",
    /// No such account or association.
    InvalidAccount = 2045 "INVALID_ACCOUNT" "Invalid account or account/partition combination specified",
    /// Unknown licence or more than there are.
    InvalidLicenses = 2048 "INVALID_LICENSES" "Invalid license specification",
    /// A restart is needed.
    NeedRestart = 2049 "NEED_RESTART" "The node configuration changes that were made require restart of the slurmctld daemon to take effect",
    /// An accounting limit.
    AccountingPolicy = 2050 "ACCOUNTING_POLICY" "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    /// Time limit missing or too long.
    InvalidTimeLimit = 2051 "INVALID_TIME_LIMIT" "Requested time limit is invalid (missing or exceeds some limit)",
    /// Not allowed into the reservation.
    ReservationAccess = 2052 "RESERVATION_ACCESS" "Access denied to requested reservation",
    /// Unknown reservation.
    ReservationInvalid = 2053 "RESERVATION_INVALID" "Requested reservation is invalid",
    /// Time value impossible.
    InvalidTimeValue = 2054 "INVALID_TIME_VALUE" "Invalid time specified",
    /// Reservation in use.
    ReservationBusy = 2055 "RESERVATION_BUSY" "Requested reservation is in use",
    /// Reservation not usable now.
    ReservationNotUsable = 2056 "RESERVATION_NOT_USABLE" "Requested reservation not usable now",
    /// Unknown WCKey.
    InvalidWckey = 2057 "INVALID_WCKEY" "Invalid wckey specification",
    /// Reservations overlap.
    ReservationOverlap = 2058 "RESERVATION_OVERLAP" "Requested reservation overlaps with another reservation",
    /// Ports in use.
    PortsBusy = 2059 "PORTS_BUSY" "Requested ports are in use",
    /// More ports than there are.
    PortsInvalid = 2060 "PORTS_INVALID" "Requested more ports than can be reserved",
    /// Prolog runs.
    PrologRunning = 2061 "PROLOG_RUNNING" "SlurmctldProlog is still running",
    /// Unknown or not permitted QOS.
    InvalidQos = 2066 "INVALID_QOS" "Invalid qos specification",
    /// Node not available.
    NodeNotAvail = 2068 "NODE_NOT_AVAIL" "Required node not available (down, drained or reserved)",
    /// CPU count impossible.
    InvalidCpuCount = 2069 "INVALID_CPU_COUNT" "CPU count specification invalid",
    /// Partition DRAIN or INACTIVE.
    PartitionNotAvail = 2070 "PARTITION_NOT_AVAIL" "Required partition not available (inactive or drain)",
    /// A job would wait for itself.
    CircularDependency = 2071 "CIRCULAR_DEPENDENCY" "Circular job dependency",
    /// Bad GRES.
    InvalidGres = 2072 "INVALID_GRES" "Invalid generic resource (gres) specification",
    /// Not pending any more.
    JobNotPending = 2073 "JOB_NOT_PENDING" "Job is no longer pending execution",
    /// Usage threshold of the QOS.
    QosThreshold = 2074 "QOS_THRES" "Requested account has breached requested QOS usage threshold",
    /// Partition in use.
    PartitionInUse = 2075 "PARTITION_IN_USE" "Partition is in use",
    /// Too many steps.
    StepLimit = 2076 "STEP_LIMIT" "Step limit reached for this job",
    /// Suspended.
    JobSuspended = 2077 "JOB_SUSPENDED" "Job is current suspended, requested operation disabled",
    /// `--immediate` failed.
    CanNotStartImmediately = 2078 "CAN_NOT_START_IMMEDIATELY" "Job can not start immediately",
    /// Switch busy.
    InterconnectBusy = 2079 "INTERCONNECT_BUSY" "Switch resources currently not available",
    /// Reservation without anybody who may use it.
    ReservationEmpty = 2080 "RESERVATION_EMPTY" "Reservation request lacks users, groups or accounts",
    /// Bad array.
    InvalidArray = 2081 "INVALID_ARRAY" "Invalid job array specification",
    /// Name in use.
    ReservationNameDuplicate = 2082 "RESERVATION_NAME_DUP" "Duplicate reservation name",
    /// Started already.
    JobStarted = 2083 "JOB_STARTED" "Job has already started",
    /// Ended already.
    JobFinished = 2084 "JOB_FINISHED" "Job has already finished",
    /// Not running.
    JobNotRunning = 2085 "JOB_NOT_RUNNING" "Job is not running",
    /// Neither pending nor running.
    JobNotPendingNorRunning = 2086 "JOB_NOT_PENDING_NOR_RUNNING" "Job is not pending nor running",
    /// Not suspended.
    JobNotSuspended = 2087 "JOB_NOT_SUSPENDED" "Job is not suspended",
    /// Not finished.
    JobNotFinished = 2088 "JOB_NOT_FINISHED" "Job is not finished",
    /// Trigger exists.
    TriggerDuplicate = 2089 "TRIGGER_DUP" "Duplicate event trigger",
    /// A fault of the system itself.
    Internal = 2090 "INTERNAL" "Slurm internal error, contact system administrator",
    /// A crontab's job is changed by its owner's crontab.
    CronJobModify = 2096 "CANNOT_MODIFY_CRON_JOB" "Cannot modify scrontab jobs through scontrol",
    /// A crontab's job is cancelled on purpose only.
    CronJobCancel = 2098 "CANNOT_CANCEL_CRON_JOB" "Cannot cancel scrontab jobs without --cron flag.",
    /// Partition DOWN.
    PartitionDown = 2101 "PARTITION_DOWN" "Required partition not available (down)",
    /// Its start cannot move any more.
    ReservationStarted = 2104 "RSV_ALREADY_STARTED" "Reservation already started",
    /// Something that only the leader of a heterogeneous job takes.
    NotHetJobLeader = 2107 "NOT_HET_JOB_LEADER" "Job not heterogeneous job leader",
    /// Something that one component cannot do alone.
    NotWholeHetJob = 2108 "NOT_WHOLE_HET_JOB" "Operation not permitted on individual component of heterogeneous job",
    /// Cores of a reservation stay as they are.
    CoreReservationUpdate = 2109 "CORE_RESERVATION_UPDATE" "Core-based reservation can not be updated",
    /// Core counts do not fit the nodes.
    InvalidCoreCount = 2111 "INVALID_CORE_CNT" "Core count for reservation node list is not consistent!",
    /// Unknown group.
    InvalidGroupId = 2113 "GROUP_ID_MISSING" "Invalid group id",
    /// Bad TRES.
    InvalidTres = 2115 "INVALID_TRES" "Invalid Trackable RESource (TRES) specification",
    /// Bad weights.
    InvalidTresBillingWeights = 2116 "INVALID_TRES_BILLING_WEIGHTS" "Invalid TRESBillingWeights specification",
    /// Maintenance.
    ReservationMaint = 2118 "RESERVATION_MAINT" "Required node is in a maintenance reservation",
    /// Nice value outside the permitted range.
    InvalidNice = 2123 "INVALID_NICE" "Invalid --nice value",
    /// `--time-min` impossible.
    InvalidTimeMinLimit = 2124 "INVALID_TIME_MIN_LIMIT" "Invalid time-min specification (exceeds job's time or other limits)",
    /// `--immediate` under `defer`.
    Defer = 2125 "DEFER" "Immediate start is not possible while scheduling is deferred",
    /// A reservation that does not recur has no next time.
    ReservationNotSkippable = 2128 "RESERVATION_NOT_SKIPABLE" "Reservation given is not skipable, try deleting instead",
    /// Users or groups, not both.
    ReservationUserGroup = 2129 "RESERVATION_USER_GROUP" "Reservations can't have users and groups specified, only one or the other",
    /// `--prefer` names a feature that no node has.
    InvalidPrefer = 2133 "INVALID_PREFER" "Invalid preferred feature specification",
    /// Processes outlived SIGKILL.
    KillTaskFailed = 4001 "KILL_TASK_FAILED" "Kill task failed",
    /// Nothing left to kill.
    KillJobAlreadyComplete = 4002 "KILL_JOB_ALREADY_COMPLETE" "Job/step already completing or completed",
    /// Credential does not verify.
    InvalidJobCredential = 4004 "INVALID_JOB_CREDENTIAL" "Invalid job credential",
    /// Credential too old.
    CredentialExpired = 4007 "CREDENTIAL_EXPIRED" "Job credential expired",
    /// Credential withdrawn.
    CredentialRevoked = 4008 "CREDENTIAL_REVOKED" "Job credential revoked",
    /// Credential used twice.
    CredentialReplayed = 4009 "CREDENTIAL_REPLAYED" "Job credential replayed",
    /// Program could not be executed.
    ExecveFailed = 4020 "EXECVE_FAILED" "Exec of task failed",
    /// Streams could not be set up.
    IoError = 4021 "IO_ERROR" "Unable to set up task input or output",
    /// Prolog failed.
    PrologFailed = 4022 "PROLOG_FAILED" "Prolog failed",
    /// Epilog failed.
    EpilogFailed = 4023 "EPILOG_FAILED" "Epilog failed",
    /// Step is there already.
    StepExists = 4026 "STEP_EXISTS" "Job step already exists",
    /// Step does not run.
    StepNotRunning = 4027 "STEP_NOTRUNNING" "Job step not running",
    /// Step is suspended.
    StepSuspended = 4028 "STEP_SUSPENDED" "Job step is suspended",
    /// Step is not suspended.
    StepNotSuspended = 4029 "STEP_NOTSUSPENDED" "Job step is not suspended",
    /// Caller could not be identified.
    AuthCredInvalid = 6000 "AUTH_CRED_INVALID" "Invalid authentication credential",
    /// Token too old.
    AuthExpired = 6001 "AUTH_EXPIRED" "Authentication credential expired",
    /// Accounting database away.
    DbConnection = 7000 "DB_CONNECTION" "Unable to connect to database",
}

impl ErrorCode {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The code with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }

    /// What a command exits with when it passes the number on: its low eight bits (2002 → 210).
    #[must_use]
    pub fn exit_code(self) -> i32 {
        i32::from(self.number() & 0xff)
    }

    /// A client may send the same request again later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorCode::MaxJobCount
                | ErrorCode::ContactController
                | ErrorCode::InStandbyMode
                | ErrorCode::TransitionStateNoUpdate
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.message())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages seen from a real controller.
    #[test]
    fn messages_as_slurm_prints_them() {
        let seen = [
            (2000, "Invalid partition name specified"),
            (2002, "Access/permission denied"),
            (2006, "Node count specification invalid"),
            (2014, "Requested node configuration is not available"),
            (2016, "Requested nodes are busy"),
            (2017, "Invalid job id specified"),
            (2018, "Invalid node name specified"),
            (2029, "Invalid feature specification"),
            (2038, "Job dependency problem"),
            (
                2045,
                "Invalid account or account/partition combination specified",
            ),
            (2048, "Invalid license specification"),
            (
                2050,
                "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            ),
            (
                2051,
                "Requested time limit is invalid (missing or exceeds some limit)",
            ),
            (2052, "Access denied to requested reservation"),
            (2053, "Requested reservation is invalid"),
            (2066, "Invalid qos specification"),
            (
                2068,
                "Required node not available (down, drained or reserved)",
            ),
            (2072, "Invalid generic resource (gres) specification"),
            (2081, "Invalid job array specification"),
            (2082, "Duplicate reservation name"),
            (2123, "Invalid --nice value"),
        ];
        for (number, message) in seen {
            assert_eq!(
                ErrorCode::from_number(number).map(ErrorCode::message),
                Some(message),
                "{number}"
            );
        }
    }

    /// scancel of another user's job exits with 210.
    #[test]
    fn exit_codes() {
        assert_eq!(ErrorCode::AccessDenied.exit_code(), 210);
        assert_eq!(ErrorCode::from_number(1234), None);
    }

    /// Lookup by number needs unique, ascending numbers.
    #[test]
    fn numbers_ascend() {
        assert!(
            ErrorCode::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
    }
}
