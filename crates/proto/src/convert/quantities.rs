//! Scalars, states, limits and amounts: the types that records of every subject are built from.
//!
//! Ids and quantities travel as plain numbers in the model's units; states as Slurm's numbers (`squeue(1)`, `sinfo(1)`);
//! reasons by name. Unknown flag bits are kept: they harm nobody and a newer peer may know them.

use sluice_model::exit_status::WaitStatus;
use sluice_model::gres::GresRequest;
use sluice_model::ids::{JobId, StepId};
use sluice_model::memory::MemoryMib;
use sluice_model::reason::Reason;
use sluice_model::state::{
    JobState, JobStateFlags, JobStateFull, NodeState, NodeStateFlags, NodeStateFull,
};
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::{Tres, TresKind};

use super::{ConvertError, ListMessage, Problem, Wire, wire_message, wire_std};
use super::{field_from_wire, field_into_wire};
use crate::v1;

/// Types that travel as themselves.
macro_rules! wire_same {
    ($($kind:ty),+) => {
        $(impl Wire for $kind {
            type Message = $kind;

            fn into_wire(self) -> $kind {
                self
            }

            fn from_wire(message: $kind) -> Result<Self, ConvertError> {
                Ok(message)
            }
        })+
    };
}

// `u8` so that `Vec<u8>` is the Rust form of `bytes`.
wire_same!(String, bool, u8, u32, u64, i32, i64, f64);

/// Newtypes of a number.
macro_rules! wire_newtype {
    ($($kind:ident($number:ty)),+) => {
        $(impl Wire for $kind {
            type Message = $number;

            fn into_wire(self) -> $number {
                self.0
            }

            fn from_wire(message: $number) -> Result<Self, ConvertError> {
                Ok($kind(message))
            }
        })+
    };
}

wire_newtype!(
    JobId(u32),
    MemoryMib(u64),
    UnixSeconds(i64),
    WaitStatus(i32)
);

impl Wire for u16 {
    type Message = u32;

    fn into_wire(self) -> u32 {
        u32::from(self)
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        u16::try_from(message).map_err(|_| {
            ConvertError::new(Problem::OutOfRange {
                kind: "number from 0 to 65535",
                number: i64::from(message),
            })
        })
    }
}

impl Wire for StepId {
    type Message = u32;

    fn into_wire(self) -> u32 {
        self.number()
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        StepId::from_number(message).ok_or_else(|| {
            ConvertError::new(Problem::OutOfRange {
                kind: "step number",
                number: i64::from(message),
            })
        })
    }
}

impl Wire for Reason {
    type Message = String;

    fn into_wire(self) -> String {
        self.name().to_owned()
    }

    fn from_wire(message: String) -> Result<Self, ConvertError> {
        // The common case in a long list of pending or running jobs, without a walk through all names.
        match message.as_str() {
            "None" => Ok(Reason::None),
            "Priority" => Ok(Reason::Priority),
            "Resources" => Ok(Reason::Resources),
            text => text.parse().map_err(|_| {
                ConvertError::new(Problem::BadText {
                    kind: "job reason",
                    text: message,
                })
            }),
        }
    }
}

impl Wire for JobStateFull {
    type Message = v1::JobState;

    fn into_wire(self) -> v1::JobState {
        v1::JobState {
            base: u32::from(self.base.number()),
            flags: self.flags.bits(),
        }
    }

    fn from_wire(message: v1::JobState) -> Result<Self, ConvertError> {
        let base = u8::try_from(message.base)
            .ok()
            .and_then(JobState::from_number)
            .ok_or_else(|| {
                ConvertError::new(Problem::UnknownEnum {
                    kind: "job state",
                    number: i64::from(message.base),
                })
                .inside("base")
            })?;
        Ok(Self::with_flags(
            base,
            JobStateFlags::from_bits(message.flags),
        ))
    }
}

wire_std!(JobStateFull => JobState);

impl Wire for NodeStateFull {
    type Message = v1::NodeState;

    fn into_wire(self) -> v1::NodeState {
        v1::NodeState {
            base: u32::from(self.base.number()),
            flags: self.flags.bits(),
        }
    }

    fn from_wire(message: v1::NodeState) -> Result<Self, ConvertError> {
        let base = NodeState::from_wire(message)?;
        Ok(Self::with_flags(
            base,
            NodeStateFlags::from_bits(message.flags),
        ))
    }
}

/// A base state alone; flags of the message are not looked at.
impl Wire for NodeState {
    type Message = v1::NodeState;

    fn into_wire(self) -> v1::NodeState {
        NodeStateFull::new(self).into_wire()
    }

    fn from_wire(message: v1::NodeState) -> Result<Self, ConvertError> {
        const ALL: [NodeState; 7] = [
            NodeState::Unknown,
            NodeState::Down,
            NodeState::Idle,
            NodeState::Allocated,
            NodeState::Error,
            NodeState::Mixed,
            NodeState::Future,
        ];
        ALL.into_iter()
            .find(|state| u32::from(state.number()) == message.base)
            .ok_or_else(|| {
                ConvertError::new(Problem::UnknownEnum {
                    kind: "node state",
                    number: i64::from(message.base),
                })
                .inside("base")
            })
    }
}

wire_std!(NodeStateFull => NodeState);

impl Wire for TimeLimit {
    type Message = v1::TimeLimit;

    fn into_wire(self) -> v1::TimeLimit {
        let limit = match self {
            TimeLimit::Minutes(minutes) => v1::time_limit::Limit::Minutes(minutes),
            TimeLimit::Unlimited => v1::time_limit::Limit::Unlimited(true),
        };
        v1::TimeLimit { limit: Some(limit) }
    }

    fn from_wire(message: v1::TimeLimit) -> Result<Self, ConvertError> {
        match message.limit {
            Some(v1::time_limit::Limit::Minutes(minutes)) => Ok(TimeLimit::Minutes(minutes)),
            Some(v1::time_limit::Limit::Unlimited(true)) => Ok(TimeLimit::Unlimited),
            // `unlimited: false` says nothing at all.
            Some(v1::time_limit::Limit::Unlimited(false)) | None => {
                Err(ConvertError::new(Problem::Missing).inside("limit"))
            }
        }
    }
}

wire_std!(TimeLimit => TimeLimit);

impl Wire for Tres {
    type Message = v1::Tres;

    fn into_wire(self) -> v1::Tres {
        v1::Tres {
            items: self
                .iter()
                .map(|(kind, count)| v1::TresCount {
                    name: kind.to_string(),
                    count,
                })
                .collect(),
        }
    }

    fn from_wire(message: v1::Tres) -> Result<Self, ConvertError> {
        let mut tres = Tres::new();
        for (index, item) in message.items.into_iter().enumerate() {
            let bad = |text: &str| {
                ConvertError::new(Problem::BadText {
                    kind: "TRES that was not named before",
                    text: text.to_owned(),
                })
                .inside("name")
                .inside(&format!("items[{index}]"))
            };
            let kind: TresKind = item.name.parse().map_err(|_| bad(&item.name))?;
            if tres.contains(&kind) {
                return Err(bad(&item.name));
            }
            tres.set(kind, item.count);
        }
        Ok(tres)
    }
}

wire_std!(Tres => Tres);

wire_message!(GresRequest => GresRequest {
    name,
    type_name,
    count,
});

/// Rows and columns.
impl Wire for (u16, u16) {
    type Message = v1::TerminalSize;

    fn into_wire(self) -> v1::TerminalSize {
        v1::TerminalSize {
            rows: u32::from(self.0),
            columns: u32::from(self.1),
        }
    }

    fn from_wire(message: v1::TerminalSize) -> Result<Self, ConvertError> {
        Ok((
            u16::from_wire(message.rows).map_err(|error| error.inside("rows"))?,
            u16::from_wire(message.columns).map_err(|error| error.inside("columns"))?,
        ))
    }
}

/// Messages that only wrap a list.
macro_rules! list_message {
    ($($message:ident of $item:ty),+) => {
        $(impl ListMessage for v1::$message {
            type Item = $item;

            fn from_items(items: Vec<$item>) -> Self {
                Self { items }
            }

            fn into_items(self) -> Vec<$item> {
                self.items
            }
        })+
    };
}

list_message!(StringList of String, GresRequestList of v1::GresRequest);

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from the tables of squeue(1): 0 is PENDING, COMPLETING is bit 15.
    #[test]
    fn job_states_travel_as_slurm_numbers() {
        let state = JobStateFull::with_flags(JobState::Completed, JobStateFlags::COMPLETING);
        let message = v1::JobState::from(state);
        assert_eq!(
            message,
            v1::JobState {
                base: 3,
                flags: 0x8000
            }
        );
        assert_eq!(JobStateFull::try_from(message), Ok(state));
    }

    /// A base state from the future is refused by name, not turned into another.
    #[test]
    fn unknown_states_are_refused() {
        let error = JobStateFull::try_from(v1::JobState { base: 12, flags: 0 })
            .expect_err("twelve is no state");
        assert_eq!(error.path(), "JobStateFull.base");
        assert_eq!(
            error.problem(),
            &Problem::UnknownEnum {
                kind: "job state",
                number: 12
            }
        );
        assert!(NodeStateFull::try_from(v1::NodeState { base: 7, flags: 0 }).is_err());
        assert!(
            JobStateFull::try_from(v1::JobState {
                base: 256,
                flags: 0
            })
            .is_err(),
            "must not wrap to 0"
        );
    }

    /// No limit, zero minutes and nothing at all are three different things.
    #[test]
    fn time_limits() {
        for limit in [
            TimeLimit::Unlimited,
            TimeLimit::Minutes(0),
            TimeLimit::Minutes(u32::MAX),
        ] {
            assert_eq!(TimeLimit::try_from(v1::TimeLimit::from(limit)), Ok(limit));
        }
        assert!(TimeLimit::try_from(v1::TimeLimit { limit: None }).is_err());
        assert!(
            TimeLimit::try_from(v1::TimeLimit {
                limit: Some(v1::time_limit::Limit::Unlimited(false))
            })
            .is_err()
        );
    }

    /// Order and counts of TRES survive; a kind given twice is a fault.
    #[test]
    fn tres_keep_order() {
        let tres: Tres = "cpu=4,mem=8G,node=2,billing=4,gres/gpu=2,gres/gpu:h100=2"
            .parse()
            .expect("valid");
        let message = v1::Tres::from(tres.clone());
        let names: Vec<&str> = message
            .items
            .iter()
            .map(|item| item.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:h100"]
        );
        assert_eq!(message.items[1].count, 8192);
        assert_eq!(Tres::try_from(message), Ok(tres));

        let twice = v1::TresCount {
            name: "cpu".to_owned(),
            count: 1,
        };
        let error = Tres::try_from(v1::Tres {
            items: vec![twice.clone(), twice],
        })
        .expect_err("given twice");
        assert_eq!(error.path(), "Tres.items[1].name");
    }

    /// Every reason, also those that are matched without a walk.
    #[test]
    fn reasons() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_wire(reason.into_wire()), Ok(*reason));
        }
        assert!(
            Reason::from_wire("priority".to_owned()).is_err(),
            "names have case"
        );
    }

    /// 4294967293 is reserved and names no step (see `STEP_NUMBER_PENDING`).
    #[test]
    fn step_numbers() {
        assert_eq!(StepId::Batch.into_wire(), 4_294_967_291);
        assert_eq!(StepId::from_wire(7), Ok(StepId::Num(7)));
        assert!(StepId::from_wire(u32::MAX).is_err());
    }
}
