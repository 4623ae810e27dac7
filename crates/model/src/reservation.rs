//! Reservations and licences: what is asked for, and what can be read about them.
//!
//! Times are seconds since the epoch, `Duration` is in minutes. Invariant: [`ReservationFlags`] keeps its bits for ever, because
//! they stand in journals. Source: scontrol(1), specifications for reservations; reservations page.

use serde::{Deserialize, Serialize};

use crate::default_fields::is_default;
use crate::time::{TimeLimit, UnixSeconds};

/// Seconds for which a reservation with PURGE_COMP may be idle when nothing else is said.
pub const PURGE_COMP_SECS: u32 = 300;

/// Set of reservation flags.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ReservationFlags(pub u64);

impl ReservationFlags {
    /// No flag.
    pub const EMPTY: Self = Self(0);
    /// Maintenance.
    pub const MAINT: Self = Self(1);
    /// Jobs may start early, end late and use other nodes.
    pub const FLEX: Self = Self(1 << 1);
    /// May overlap others.
    pub const OVERLAP: Self = Self(1 << 2);
    /// Running jobs were ignored when it was made.
    pub const IGNORE_JOBS: Self = Self(1 << 3);
    /// Every hour.
    pub const HOURLY: Self = Self(1 << 4);
    /// Every day.
    pub const DAILY: Self = Self(1 << 5);
    /// Monday to Friday.
    pub const WEEKDAY: Self = Self(1 << 6);
    /// Saturday and Sunday.
    pub const WEEKEND: Self = Self(1 << 7);
    /// Every week.
    pub const WEEKLY: Self = Self(1 << 8);
    /// Its nodes were named.
    pub const SPEC_NODES: Self = Self(1 << 9);
    /// All nodes of the cluster were asked for.
    pub const ALL_NODES: Self = Self(1 << 10);
    /// Licences or burst buffers only.
    pub const ANY_NODES: Self = Self(1 << 11);
    /// Its nodes never change.
    pub const STATIC_ALLOC: Self = Self(1 << 12);
    /// Follows the nodes of its partition.
    pub const PART_NODES: Self = Self(1 << 13);
    /// The lowest cores of each node.
    pub const FIRST_CORES: Self = Self(1 << 14);
    /// Its start moves with time.
    pub const TIME_FLOAT: Self = Self(1 << 15);
    /// Nodes in use or out of service are replaced.
    pub const REPLACE: Self = Self(1 << 16);
    /// Nodes out of service are replaced.
    pub const REPLACE_DOWN: Self = Self(1 << 17);
    /// Goes away when idle.
    pub const PURGE_COMP: Self = Self(1 << 18);
    /// Pending jobs are freed at its end.
    pub const NO_HOLD_JOBS: Self = Self(1 << 19);
    /// Draws in jobs that may use it.
    pub const MAGNETIC: Self = Self(1 << 20);
    /// Its users may delete it.
    pub const USER_DELETE: Self = Self(1 << 21);
    /// A recurring one may begin in the past.
    pub const FORCE_START: Self = Self(1 << 22);
    /// The next occurrence is left out (update only, never kept).
    pub const SKIP: Self = Self(1 << 23);

    /// Flags that make it come again.
    pub const RECURRING: Self =
        Self(Self::HOURLY.0 | Self::DAILY.0 | Self::WEEKDAY.0 | Self::WEEKEND.0 | Self::WEEKLY.0);

    /// The flag that commands take under this name, short and former names among them.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let other = match name.as_str() {
            "LICENSE_ONLY" => Some(Self::ANY_NODES),
            "STATIC_ALLOC" => Some(Self::STATIC_ALLOC),
            "IGN_JOBS" | "IGN_JOB" | "IGNORE_JOB" => Some(Self::IGNORE_JOBS),
            "NO_HOLD_JOBS_AFTER" | "NO_HOLD_JOBS" => Some(Self::NO_HOLD_JOBS),
            "ALLOC_ONLY" | "SPEC_NODES" | "ALL_NODES" => return None,
            _ => None,
        };
        other.or_else(|| {
            SHOWN
                .iter()
                .find(|(_, shown)| *shown == name)
                .map(|(flag, _)| *flag)
        })
    }

    /// True when every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when some flag of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that `other` has not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Names in the order in which they are shown.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        SHOWN
            .iter()
            .filter(|(flag, _)| self.contains(*flag))
            .map(|(_, name)| *name)
            .collect()
    }
}

/// Flags with the names under which they are shown.
const SHOWN: &[(ReservationFlags, &str)] = &[
    (ReservationFlags::MAINT, "MAINT"),
    (ReservationFlags::FLEX, "FLEX"),
    (ReservationFlags::OVERLAP, "OVERLAP"),
    (ReservationFlags::IGNORE_JOBS, "IGNORE_JOBS"),
    (ReservationFlags::HOURLY, "HOURLY"),
    (ReservationFlags::DAILY, "DAILY"),
    (ReservationFlags::WEEKDAY, "WEEKDAY"),
    (ReservationFlags::WEEKEND, "WEEKEND"),
    (ReservationFlags::WEEKLY, "WEEKLY"),
    (ReservationFlags::SPEC_NODES, "SPEC_NODES"),
    (ReservationFlags::ALL_NODES, "ALL_NODES"),
    (ReservationFlags::ANY_NODES, "ANY_NODES"),
    (ReservationFlags::STATIC_ALLOC, "STATIC"),
    (ReservationFlags::PART_NODES, "PART_NODES"),
    (ReservationFlags::FIRST_CORES, "FIRST_CORES"),
    (ReservationFlags::TIME_FLOAT, "TIME_FLOAT"),
    (ReservationFlags::REPLACE, "REPLACE"),
    (ReservationFlags::REPLACE_DOWN, "REPLACE_DOWN"),
    (ReservationFlags::PURGE_COMP, "PURGE_COMP"),
    (ReservationFlags::NO_HOLD_JOBS, "NO_HOLD_JOBS_AFTER_END"),
    (ReservationFlags::MAGNETIC, "MAGNETIC"),
    (ReservationFlags::USER_DELETE, "USER_DELETE"),
    (ReservationFlags::FORCE_START, "FORCE_START"),
];

/// What is asked for: of a new reservation, or to be changed on one that exists. `None` = as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRequest {
    /// Name; empty of a new one = made up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: String,
    /// Start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_time: Option<UnixSeconds>,
    /// End.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_time: Option<UnixSeconds>,
    /// Length.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duration: Option<TimeLimit>,
    /// Minutes more or less (`Duration+=`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub duration_change: i64,
    /// Nodes, or `ALL`; a leading `+` or `-` adds or takes away.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: Option<String>,
    /// Numbers of nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_counts: Vec<u32>,
    /// Numbers of cores: in all, or of each node named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub core_counts: Vec<u32>,
    /// Features every node must have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub features: Option<String>,
    /// Partition its nodes come from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partition: Option<String>,
    /// Users, each perhaps with `+` or `-`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub users: Option<String>,
    /// Groups, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub groups: Option<String>,
    /// Accounts, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accounts: Option<String>,
    /// QOS, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: Option<String>,
    /// Partitions whose jobs may use it, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_partitions: Option<String>,
    /// Licences, `name:count,…`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub licenses: Option<String>,
    /// Burst buffers, as typed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub burst_buffer: Option<String>,
    /// Seconds by which borrowers may delay its jobs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_start_delay: Option<u32>,
    /// Flags to set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flags_add: u64,
    /// Flags to take away.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flags_remove: u64,
    /// Seconds of PURGE_COMP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purge_comp_secs: Option<u32>,
    /// Comment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub comment: Option<String>,
    /// Seconds that local time is ahead of UTC; the controller fills it in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub utc_offset_secs: i64,
    /// Names of the users in the groups; the controller fills it in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_members: Vec<String>,
}

/// Cores of one node that belong to a reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedCores {
    /// Node.
    pub node: String,
    /// Cores, `0-3,8`.
    pub cores: String,
}

/// A reservation as the commands show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationInfo {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u32,
    /// Start of this occurrence.
    pub start_time: UnixSeconds,
    /// End of this occurrence.
    pub end_time: UnixSeconds,
    /// It has begun.
    pub active: bool,
    /// Flags, see [`ReservationFlags`].
    pub flags: u64,
    /// Seconds of PURGE_COMP; 300 when nothing was said.
    pub purge_comp_secs: u32,
    /// Nodes, a hostlist.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Number of cores.
    pub core_count: u32,
    /// Cores by node, when it has not the whole of its nodes.
    pub cores: Vec<ReservedCores>,
    /// Features.
    pub features: Option<String>,
    /// Partition.
    pub partition: Option<String>,
    /// TRES, `cpu=128`.
    pub tres: Option<String>,
    /// AllowedPartitions.
    pub allowed_partitions: Option<String>,
    /// QOS.
    pub qos: Option<String>,
    /// Users.
    pub users: Option<String>,
    /// Groups.
    pub groups: Option<String>,
    /// Accounts.
    pub accounts: Option<String>,
    /// Licences.
    pub licenses: Option<String>,
    /// Burst buffers.
    pub burst_buffer: Option<String>,
    /// Seconds of MaxStartDelay.
    pub max_start_delay: Option<u32>,
    /// Comment.
    pub comment: Option<String>,
}

/// A licence and its use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseInfo {
    /// Name.
    pub name: String,
    /// There are.
    pub total: u64,
    /// Held by jobs.
    pub used: u64,
    /// Kept for reservations that have begun.
    pub reserved: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a real `scontrol show reservation` prints them.
    #[test]
    fn names_come_in_slurm_s_order() {
        let flags = ReservationFlags::SPEC_NODES.with(ReservationFlags::MAINT);
        assert_eq!(flags.names(), ["MAINT", "SPEC_NODES"]);
        assert!(
            flags
                .without(ReservationFlags::MAINT)
                .contains(ReservationFlags::SPEC_NODES)
        );
        assert_eq!(
            ReservationFlags::named("license_only"),
            Some(ReservationFlags::ANY_NODES)
        );
        assert!(!flags.intersects(ReservationFlags::RECURRING));
        assert!(ReservationFlags::WEEKLY.intersects(ReservationFlags::RECURRING));
    }
}
