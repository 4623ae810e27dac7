//! Node states: base state, flags, and their long, compact and `scontrol` forms.
//!
//! Invariant: one suffix at most, in the precedence of sinfo(1) NODE STATE CODES. Transitions are not decided here.
//! Source of the names: sinfo(1), scontrol(1) show node.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Base state of a node. Numbers 0 to 6 as in Slurm.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[repr(u8)]
pub enum NodeState {
    /// Never heard of since the start of the controller.
    #[default]
    Unknown = 0,
    /// Unusable.
    Down = 1,
    /// No job.
    Idle = 2,
    /// All CPUs (or the node as a whole) in use.
    Allocated = 3,
    /// Some hardware fault; kept for its number.
    Error = 4,
    /// Some CPUs in use.
    Mixed = 5,
    /// Defined, not there yet.
    Future = 6,
}

impl NodeState {
    /// Long name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Down => "DOWN",
            Self::Idle => "IDLE",
            Self::Allocated => "ALLOCATED",
            Self::Error => "ERROR",
            Self::Mixed => "MIXED",
            Self::Future => "FUTURE",
        }
    }

    /// Slurm's number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// Set of node state flags.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeStateFlags(u32);

impl NodeStateFlags {
    /// No flag.
    pub const EMPTY: Self = Self(0);
    /// In a reservation.
    pub const RES: Self = Self(1 << 5);
    /// Drain is to be cleared.
    pub const UNDRAIN: Self = Self(1 << 6);
    /// Comes from a cloud.
    pub const CLOUD: Self = Self(1 << 7);
    /// To be returned to service.
    pub const RESUME: Self = Self(1 << 8);
    /// Takes no new jobs.
    pub const DRAIN: Self = Self(1 << 9);
    /// A job completes on it.
    pub const COMPLETING: Self = Self(1 << 10);
    /// Does not answer.
    pub const NO_RESPOND: Self = Self(1 << 11);
    /// Powered down.
    pub const POWERED_DOWN: Self = Self(1 << 12);
    /// Expected to fail soon.
    pub const FAIL: Self = Self(1 << 13);
    /// Being powered up.
    pub const POWERING_UP: Self = Self(1 << 14);
    /// In a maintenance reservation.
    pub const MAINT: Self = Self(1 << 15);
    /// Reboot asked for.
    pub const REBOOT_REQUESTED: Self = Self(1 << 16);
    /// Being powered down.
    pub const POWERING_DOWN: Self = Self(1 << 18);
    /// FUTURE node that registers under another name.
    pub const DYNAMIC_FUTURE: Self = Self(1 << 19);
    /// Reboot issued.
    pub const REBOOT_ISSUED: Self = Self(1 << 20);
    /// Planned by backfill for a higher-priority job.
    pub const PLANNED: Self = Self(1 << 21);
    /// Registered with less than configured.
    pub const INVALID_REG: Self = Self(1 << 22);
    /// Power-down wanted.
    pub const POWER_DOWN: Self = Self(1 << 23);
    /// Power-up wanted.
    pub const POWER_UP: Self = Self(1 << 24);
    /// Dynamic node.
    pub const DYNAMIC_NORM: Self = Self(1 << 26);
    /// Blocked by an exclusive topology job.
    pub const BLOCKED: Self = Self(1 << 27);
    /// Managed by another system.
    pub const EXTERNAL: Self = Self(1 << 28);

    /// The raw bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// A set from raw bits.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & !0xf)
    }

    /// True when every flag of `other` is set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when some flag of `other` is set.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True when no flag is set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Sets the flags of `other`.
    pub fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Clears the flags of `other`.
    pub fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Sets or clears the flags of `other`.
    pub fn set(&mut self, other: Self, on: bool) {
        if on {
            self.insert(other);
        } else {
            self.remove(other);
        }
    }

    /// This set with the flags of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the flags of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for NodeStateFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.with(rhs)
    }
}

impl BitOrAssign for NodeStateFlags {
    fn bitor_assign(&mut self, rhs: Self) {
        self.insert(rhs);
    }
}

/// Flag names in the order of Slurm's list of valid states, which is the order of `State=` in `scontrol show node`.
const NODE_FLAG_NAMES: [(NodeStateFlags, &str); 22] = [
    (NodeStateFlags::BLOCKED, "BLOCKED"),
    (NodeStateFlags::CLOUD, "CLOUD"),
    (NodeStateFlags::COMPLETING, "COMPLETING"),
    (NodeStateFlags::DRAIN, "DRAIN"),
    (NodeStateFlags::DYNAMIC_FUTURE, "DYNAMIC_FUTURE"),
    (NodeStateFlags::DYNAMIC_NORM, "DYNAMIC_NORM"),
    (NodeStateFlags::EXTERNAL, "EXTERNAL"),
    (NodeStateFlags::INVALID_REG, "INVALID_REG"),
    (NodeStateFlags::FAIL, "FAIL"),
    (NodeStateFlags::MAINT, "MAINTENANCE"),
    (NodeStateFlags::POWER_DOWN, "POWER_DOWN"),
    (NodeStateFlags::POWER_UP, "POWER_UP"),
    (NodeStateFlags::POWERED_DOWN, "POWERED_DOWN"),
    (NodeStateFlags::REBOOT_REQUESTED, "REBOOT_REQUESTED"),
    (NodeStateFlags::REBOOT_ISSUED, "REBOOT_ISSUED"),
    (NodeStateFlags::RES, "RESERVED"),
    (NodeStateFlags::RESUME, "RESUME"),
    (NodeStateFlags::NO_RESPOND, "NOT_RESPONDING"),
    (NodeStateFlags::PLANNED, "PLANNED"),
    (NodeStateFlags::POWERING_UP, "POWERING_UP"),
    (NodeStateFlags::POWERING_DOWN, "POWERING_DOWN"),
    (NodeStateFlags::UNDRAIN, "UNDRAIN"),
];

/// The names of an unknown-state message of sinfo, in Slurm's order.
pub const VALID_NODE_STATES: &str = "unknown,down,idle,allocated,mixed,future,drained,draining,blocked,cloud,completing,\
drain,dynamic_future,dynamic_norm,external,invalid_reg,fail,maintenance,power_down,power_up,powered_down,\
reboot_requested,reboot_issued,reserved,not_responding,planned,powering_up,powering_down";

/// Base state and flags of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct NodeStateFull {
    /// The base state.
    pub base: NodeState,
    /// The flags.
    pub flags: NodeStateFlags,
}

impl NodeStateFull {
    /// A state without flags.
    #[must_use]
    pub fn new(base: NodeState) -> Self {
        Self {
            base,
            flags: NodeStateFlags::EMPTY,
        }
    }

    /// A state with flags.
    #[must_use]
    pub fn with_flags(base: NodeState, flags: NodeStateFlags) -> Self {
        Self { base, flags }
    }

    /// Slurm's packed number: base in the low four bits, flags above.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.base.number()) | self.flags.bits()
    }

    fn has(self, flags: NodeStateFlags) -> bool {
        self.flags.intersects(flags)
    }

    fn is_busy(self) -> bool {
        self.has(NodeStateFlags::COMPLETING)
            || matches!(self.base, NodeState::Allocated | NodeState::Mixed)
    }

    /// True when the scheduler may place a new job on it (free resources not considered).
    #[must_use]
    pub fn is_schedulable(self) -> bool {
        matches!(
            self.base,
            NodeState::Idle | NodeState::Allocated | NodeState::Mixed
        ) && !self.has(
            NodeStateFlags::DRAIN
                | NodeStateFlags::FAIL
                | NodeStateFlags::NO_RESPOND
                | NodeStateFlags::INVALID_REG
                | NodeStateFlags::REBOOT_ISSUED
                | NodeStateFlags::POWERING_DOWN
                | NodeStateFlags::EXTERNAL,
        )
    }

    /// DOWN.
    #[must_use]
    pub fn is_down(self) -> bool {
        self.base == NodeState::Down
    }

    /// Drained or draining.
    #[must_use]
    pub fn is_draining(self) -> bool {
        self.has(NodeStateFlags::DRAIN)
    }

    /// Long name and compact name without the suffix.
    fn names(self) -> (&'static str, &'static str) {
        use NodeState as B;
        use NodeStateFlags as F;
        if self.has(F::INVALID_REG) {
            return ("INVAL", "inval");
        }
        if self.has(F::MAINT)
            && !self.has(F::DRAIN)
            && !matches!(self.base, B::Allocated | B::Down | B::Mixed)
        {
            return ("MAINT", "maint");
        }
        if self.has(F::REBOOT_REQUESTED | F::REBOOT_ISSUED) && !self.is_busy() {
            return ("REBOOT", "boot");
        }
        if self.has(F::DRAIN) {
            return if self.is_busy() {
                ("DRAINING", "drng")
            } else {
                ("DRAINED", "drain")
            };
        }
        if self.has(F::FAIL) {
            return if self.is_busy() {
                ("FAILING", "failg")
            } else {
                ("FAIL", "fail")
            };
        }
        match self.base {
            B::Down => ("DOWN", "down"),
            B::Allocated => ("ALLOCATED", "alloc"),
            _ if self.has(F::COMPLETING) && self.base != B::Mixed => ("COMPLETING", "comp"),
            B::Idle if self.power_suffix().is_some() || self.has(F::NO_RESPOND) => ("IDLE", "idle"),
            B::Idle if self.has(F::RES) => ("RESERVED", "resv"),
            B::Idle if self.has(F::BLOCKED) => ("BLOCKED", "block"),
            B::Idle if self.has(F::PLANNED) => ("PLANNED", "plnd"),
            B::Idle => ("IDLE", "idle"),
            B::Mixed => ("MIXED", "mix"),
            B::Future => ("FUTURE", "futr"),
            B::Error => ("ERROR", "error"),
            B::Unknown => ("UNKNOWN", "unk"),
        }
    }

    fn power_suffix(self) -> Option<char> {
        use NodeStateFlags as F;
        [
            (F::POWERING_UP | F::POWER_UP, '#'),
            (F::POWERING_DOWN, '%'),
            (F::POWERED_DOWN, '~'),
            (F::POWER_DOWN, '!'),
        ]
        .into_iter()
        .find(|(flags, _)| self.has(*flags))
        .map(|(_, suffix)| suffix)
    }

    /// The one suffix, if any.
    #[must_use]
    pub fn suffix(self) -> Option<char> {
        use NodeStateFlags as F;
        let (long, _) = self.names();
        if long == "INVAL" {
            return None;
        }
        if self.has(F::MAINT) && long != "MAINT" {
            return Some('$');
        }
        if self.has(F::REBOOT_ISSUED) {
            return Some('^');
        }
        if self.has(F::REBOOT_REQUESTED) && long != "REBOOT" {
            return Some('@');
        }
        if let Some(suffix) = self.power_suffix() {
            return Some(suffix);
        }
        if self.has(F::NO_RESPOND) {
            return Some('*');
        }
        if long == "ALLOCATED" && self.has(F::COMPLETING) {
            return Some('+');
        }
        if long == "MIXED" && self.has(F::PLANNED) {
            return Some('-');
        }
        None
    }

    /// Long form with suffix, `MIXED-`.
    #[must_use]
    pub fn long(self) -> String {
        self.joined(self.names().0)
    }

    /// Compact form with suffix, `mix-`.
    #[must_use]
    pub fn compact(self) -> String {
        self.joined(self.names().1)
    }

    fn joined(self, name: &str) -> String {
        match self.suffix() {
            Some(suffix) => format!("{name}{suffix}"),
            None => name.to_string(),
        }
    }

    /// Base and all flags joined by `+`, as `State=` of `scontrol show node`.
    #[must_use]
    pub fn complete(self) -> String {
        let mut text = self.base.name().to_string();
        for name in self.flag_names() {
            text.push('+');
            text.push_str(name);
        }
        text
    }

    /// Names of the set flags.
    #[must_use]
    pub fn flag_names(self) -> Vec<&'static str> {
        NODE_FLAG_NAMES
            .iter()
            .filter(|(flag, _)| self.has(*flag))
            .map(|(_, name)| *name)
            .collect()
    }

    /// Place in sinfo's sort by state: Slurm sorts by the packed base number, then by flags.
    #[must_use]
    pub fn sort_key(self) -> (u8, u32) {
        (self.base.number(), self.flags.bits())
    }
}

impl fmt::Display for NodeStateFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.long())
    }
}

/// A node state name that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid node state \"{0}\": valid states are {VALID_NODE_STATES}")]
pub struct NodeStateError(pub String);

/// What `sinfo -t` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeStateSelector {
    /// Nodes in this base state.
    Base(NodeState),
    /// Nodes with this flag.
    Flag(NodeStateFlags),
    /// Drained and idle.
    Drained,
    /// Drained and busy.
    Draining,
}

impl NodeStateSelector {
    /// True when a node in `state` is selected.
    #[must_use]
    pub fn matches(self, state: NodeStateFull) -> bool {
        match self {
            Self::Base(base) => state.base == base,
            Self::Flag(flag) => state.flags.contains(flag),
            Self::Drained => state.is_draining() && !state.is_busy(),
            Self::Draining => state.is_draining() && state.is_busy(),
        }
    }
}

impl std::str::FromStr for NodeStateSelector {
    type Err = NodeStateError;

    /// Long and compact names in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim().to_ascii_lowercase();
        let base = [
            ("unknown", "unk", NodeState::Unknown),
            ("down", "down", NodeState::Down),
            ("idle", "idle", NodeState::Idle),
            ("allocated", "alloc", NodeState::Allocated),
            ("error", "err", NodeState::Error),
            ("mixed", "mix", NodeState::Mixed),
            ("future", "futr", NodeState::Future),
        ];
        if let Some((_, _, state)) = base
            .into_iter()
            .find(|(long, short, _)| word == *long || word == *short)
        {
            return Ok(Self::Base(state));
        }
        let flag = match word.as_str() {
            "drained" => return Ok(Self::Drained),
            "draining" | "drng" => return Ok(Self::Draining),
            "comp" => Some(NodeStateFlags::COMPLETING),
            "no_respond" | "noresp" => Some(NodeStateFlags::NO_RESPOND),
            "maint" => Some(NodeStateFlags::MAINT),
            "plnd" => Some(NodeStateFlags::PLANNED),
            "resv" => Some(NodeStateFlags::RES),
            "inval" => Some(NodeStateFlags::INVALID_REG),
            "boot" | "reboot" => Some(NodeStateFlags::REBOOT_ISSUED),
            "pow_dn" => Some(NodeStateFlags::POWERED_DOWN),
            "pow_up" => Some(NodeStateFlags::POWERING_UP),
            other => NODE_FLAG_NAMES
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(other))
                .map(|(flag, _)| *flag),
        };
        flag.map(Self::Flag)
            .ok_or_else(|| NodeStateError(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeState as B;
    use NodeStateFlags as F;

    /// Shown forms as sinfo prints them, one row per rule of sinfo(1).
    #[test]
    fn shown_forms() {
        let rows = [
            (B::Idle, F::EMPTY, "IDLE", "idle", "IDLE"),
            (B::Idle, F::DRAIN, "DRAINED", "drain", "IDLE+DRAIN"),
            (B::Mixed, F::DRAIN, "DRAINING", "drng", "MIXED+DRAIN"),
            (
                B::Mixed,
                F::RES | F::PLANNED,
                "MIXED-",
                "mix-",
                "MIXED+RESERVED+PLANNED",
            ),
            (B::Idle, F::PLANNED, "PLANNED", "plnd", "IDLE+PLANNED"),
            (
                B::Idle,
                F::NO_RESPOND,
                "IDLE*",
                "idle*",
                "IDLE+NOT_RESPONDING",
            ),
            (
                B::Down,
                F::NO_RESPOND,
                "DOWN*",
                "down*",
                "DOWN+NOT_RESPONDING",
            ),
            (
                B::Idle,
                F::COMPLETING,
                "COMPLETING",
                "comp",
                "IDLE+COMPLETING",
            ),
            (
                B::Allocated,
                F::COMPLETING,
                "ALLOCATED+",
                "alloc+",
                "ALLOCATED+COMPLETING",
            ),
            (
                B::Idle,
                F::MAINT | F::RES,
                "MAINT",
                "maint",
                "IDLE+MAINTENANCE+RESERVED",
            ),
            (
                B::Mixed,
                F::MAINT | F::RES,
                "MIXED$",
                "mix$",
                "MIXED+MAINTENANCE+RESERVED",
            ),
            (
                B::Idle,
                F::CLOUD | F::POWERED_DOWN,
                "IDLE~",
                "idle~",
                "IDLE+CLOUD+POWERED_DOWN",
            ),
            (
                B::Unknown,
                F::NO_RESPOND,
                "UNKNOWN*",
                "unk*",
                "UNKNOWN+NOT_RESPONDING",
            ),
            (
                B::Idle,
                F::INVALID_REG | F::DRAIN,
                "INVAL",
                "inval",
                "IDLE+DRAIN+INVALID_REG",
            ),
            (
                B::Idle,
                F::REBOOT_ISSUED,
                "REBOOT^",
                "boot^",
                "IDLE+REBOOT_ISSUED",
            ),
        ];
        for (base, flags, long, compact, complete) in rows {
            let state = NodeStateFull::with_flags(base, flags);
            assert_eq!(
                (state.long().as_str(), state.compact().as_str()),
                (long, compact),
                "{complete}"
            );
            assert_eq!(state.complete(), complete);
        }
    }

    /// A node that drains, is down or silent takes no job.
    #[test]
    fn schedulable_states() {
        assert!(NodeStateFull::new(B::Idle).is_schedulable());
        assert!(NodeStateFull::with_flags(B::Mixed, F::PLANNED | F::COMPLETING).is_schedulable());
        for state in [
            NodeStateFull::new(B::Down),
            NodeStateFull::new(B::Unknown),
            NodeStateFull::with_flags(B::Idle, F::DRAIN),
            NodeStateFull::with_flags(B::Idle, F::NO_RESPOND),
        ] {
            assert!(!state.is_schedulable(), "{}", state.complete());
        }
    }

    /// Every name of the error message is accepted.
    #[test]
    fn selector_parses_every_valid_name() {
        for name in VALID_NODE_STATES.split(',') {
            assert!(name.parse::<NodeStateSelector>().is_ok(), "{name}");
        }
        assert!("nosuch".parse::<NodeStateSelector>().is_err());
        let drained = NodeStateFull::with_flags(B::Idle, F::DRAIN);
        assert!(
            NodeStateSelector::Drained.matches(drained)
                && !NodeStateSelector::Draining.matches(drained)
        );
    }
}
