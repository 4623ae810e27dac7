//! A reservation as the engine holds it: when, what, and for whom.
//!
//! Nodes are named, so that nothing moves with the configuration. CPU ids are abstract as in allocations. Times are seconds
//! since the epoch. Invariant: `start < end`; the record is about one occurrence, a recurring one moves on in
//! [`crate::event::Event::ReservationMoved`].

use serde::{Deserialize, Serialize};
use sluice_model::default_fields::is_default;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

/// What is reserved of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedNode {
    /// Node.
    pub name: String,
    /// CPU ids, ascending; empty = the whole node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpus: Vec<u32>,
}

impl ReservedNode {
    /// All of the node.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.cpus.is_empty()
    }
}

/// Who may, or may not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// Those listed are kept out, all others may.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deny: bool,
    /// Names; empty = nothing is said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub names: Vec<String>,
}

impl AccessList {
    /// Whether somebody for whom `matches` holds of a name may.
    #[must_use]
    pub fn allows(&self, matches: impl Fn(&str) -> bool) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| matches(name)) != self.deny
    }

    /// As it is shown: those kept out with `-`. `None` = empty.
    #[must_use]
    pub fn shown(&self) -> Option<String> {
        let sign = if self.deny { "-" } else { "" };
        let names: Vec<String> = self
            .names
            .iter()
            .map(|name| format!("{sign}{name}"))
            .collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

/// A reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Number; never given twice.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Start of this occurrence.
    pub start: UnixSeconds,
    /// End of this occurrence.
    pub end: UnixSeconds,
    /// TIME_FLOAT: it starts so many seconds from now, always.
    #[serde(default, skip_serializing_if = "is_default")]
    pub float_secs: i64,
    /// TIME_FLOAT with a duration: its end floats too, so many seconds behind the start. 0 = the end stands.
    #[serde(default, skip_serializing_if = "is_default")]
    pub float_length_secs: i64,
    /// Seconds that local time is ahead of UTC, for the days of WEEKDAY and WEEKEND.
    #[serde(default, skip_serializing_if = "is_default")]
    pub utc_offset_secs: i64,
    /// Flags.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flags: ReservationFlags,
    /// Seconds of PURGE_COMP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purge_comp_secs: Option<u32>,
    /// What is reserved, in the order of the cluster's nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: Vec<ReservedNode>,
    /// Number of cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub core_count: u32,
    /// CoreCnt was asked for: only cores are reserved.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_core: bool,
    /// Features of its nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub features: Option<String>,
    /// Partition of its nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partition: Option<String>,
    /// Partitions whose jobs may use it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_partitions: AccessList,
    /// Users.
    #[serde(default, skip_serializing_if = "is_default")]
    pub users: AccessList,
    /// Groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub groups: AccessList,
    /// Names of the users in these groups, as the groups were last looked up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_members: Vec<String>,
    /// Accounts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accounts: AccessList,
    /// QOS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: AccessList,
    /// Licences and how many.
    #[serde(default, skip_serializing_if = "is_default")]
    pub licenses: Vec<(String, u64)>,
    /// Burst buffers, as typed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub burst_buffer: Option<String>,
    /// Seconds of MaxStartDelay.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_start_delay: Option<u32>,
    /// Comment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub comment: Option<String>,
    /// This occurrence has begun: what had to be done at its start was done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun: bool,
    /// No job of it is there since then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_since: Option<UnixSeconds>,
}

impl Reservation {
    /// Has the flag.
    #[must_use]
    pub fn is(&self, flag: ReservationFlags) -> bool {
        self.flags.intersects(flag)
    }

    /// Comes again.
    #[must_use]
    pub fn recurs(&self) -> bool {
        self.is(ReservationFlags::RECURRING)
    }

    /// Takes what others have reserved: MAINT or OVERLAP.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.is(ReservationFlags::MAINT.with(ReservationFlags::OVERLAP))
    }

    /// When it starts, seen at `now`.
    #[must_use]
    pub fn start_at(&self, now: UnixSeconds) -> UnixSeconds {
        if self.is(ReservationFlags::TIME_FLOAT) {
            now.saturating_add(self.float_secs)
        } else {
            self.start
        }
    }

    /// When it ends, seen at `now`.
    #[must_use]
    pub fn end_at(&self, now: UnixSeconds) -> UnixSeconds {
        if self.is(ReservationFlags::TIME_FLOAT) && self.float_length_secs > 0 {
            self.start_at(now).saturating_add(self.float_length_secs)
        } else {
            self.end
        }
    }

    /// It has begun and is not over.
    #[must_use]
    pub fn is_active(&self, now: UnixSeconds) -> bool {
        self.start_at(now) <= now && now < self.end_at(now)
    }

    /// What of a node is reserved.
    #[must_use]
    pub fn on(&self, node: &str) -> Option<&ReservedNode> {
        self.nodes.iter().find(|reserved| reserved.name == node)
    }

    /// So many of a licence.
    #[must_use]
    pub fn license(&self, name: &str) -> u64 {
        self.licenses
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, count)| count)
            .sum()
    }
}
