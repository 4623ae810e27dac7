//! Job and step identifiers, and the ways in which a user writes a job on a command line.
//!
//! Pure values: no I/O, no clock. Job ids are 32-bit counters chosen by the controller; a few step numbers at the top of the
//! 32-bit range are reserved names. Invariant: `from_number(number())` gives the same step back, and every selector that parses
//! prints text that parses to itself. Source: `scancel(1)`, `scontrol(1)`, `sacct(1)` (forms of a job id), `job_array`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number by which Slurm's own tools know the interactive step of `salloc`.
pub const STEP_NUMBER_INTERACTIVE: u32 = 4_294_967_290;
/// Number of the batch step.
pub const STEP_NUMBER_BATCH: u32 = 4_294_967_291;
/// Number of the extern step.
pub const STEP_NUMBER_EXTERN: u32 = 4_294_967_292;
/// Number that stands for "step not created yet"; never the number of a real step.
pub const STEP_NUMBER_PENDING: u32 = 4_294_967_293;
/// The first number that no ordinary step may have.
const STEP_NUMBER_RESERVED_FROM: u32 = STEP_NUMBER_INTERACTIVE;
/// The highest array task id that `MaxArraySize` (at most 4000001) allows.
const ARRAY_TASK_ID_MAX: u32 = 4_000_000;

/// The number of a job. Every task of a started array has one of its own.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<u32> for JobId {
    fn from(number: u32) -> Self {
        JobId(number)
    }
}

impl FromStr for JobId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_number(text).map(JobId).ok_or_else(|| IdError::Job {
            text: text.to_owned(),
        })
    }
}

/// A step of a job. The order is that of `sacct`: batch, extern, interactive, then the numbered ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub enum StepId {
    /// The batch script.
    Batch,
    /// The container of processes that came in from outside (ssh, prolog with `Contain`).
    Extern,
    /// The shell of `salloc` with `use_interactive_step`.
    Interactive,
    /// A step made by `srun`, counted from 0.
    Num(u32),
}

impl StepId {
    /// The step's number on the wire and in the accounting database.
    pub fn number(self) -> u32 {
        match self {
            StepId::Batch => STEP_NUMBER_BATCH,
            StepId::Extern => STEP_NUMBER_EXTERN,
            StepId::Interactive => STEP_NUMBER_INTERACTIVE,
            StepId::Num(n) => n,
        }
    }

    /// The step of a number; `None` for numbers that are reserved and name no step.
    pub fn from_number(number: u32) -> Option<StepId> {
        match number {
            STEP_NUMBER_BATCH => Some(StepId::Batch),
            STEP_NUMBER_EXTERN => Some(StepId::Extern),
            STEP_NUMBER_INTERACTIVE => Some(StepId::Interactive),
            n if n < STEP_NUMBER_RESERVED_FROM => Some(StepId::Num(n)),
            _ => None,
        }
    }
}

impl From<StepId> for u32 {
    fn from(step: StepId) -> u32 {
        step.number()
    }
}

impl TryFrom<u32> for StepId {
    type Error = IdError;
    fn try_from(number: u32) -> Result<Self, IdError> {
        StepId::from_number(number).ok_or_else(|| IdError::Step {
            text: number.to_string(),
        })
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepId::Batch => f.pad("batch"),
            StepId::Extern => f.pad("extern"),
            StepId::Interactive => f.pad("interactive"),
            StepId::Num(n) => fmt::Display::fmt(n, f),
        }
    }
}

impl FromStr for StepId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "batch" => Ok(StepId::Batch),
            "extern" => Ok(StepId::Extern),
            "interactive" => Ok(StepId::Interactive),
            _ => parse_number(text)
                .and_then(StepId::from_number)
                .ok_or_else(|| IdError::Step {
                    text: text.to_owned(),
                }),
        }
    }
}

/// Why a job or step id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a job number.
    #[error("invalid job id `{text}`: a number from 0 to 4294967295 is needed")]
    Job {
        /// What was given.
        text: String,
    },
    /// Not a step.
    #[error("invalid step id `{text}`: use a step number, batch, extern or interactive")]
    Step {
        /// What was given.
        text: String,
    },
    /// The part after `_` is no task list.
    #[error(
        "invalid array task list in `{text}`: use N_T or N_[T,T-T,T-T:STEP] with task ids up to 4000000"
    )]
    Tasks {
        /// The whole of what was given.
        text: String,
    },
    /// The part after `+` is no offset.
    #[error("invalid heterogeneous job component in `{text}`: use N+OFFSET")]
    Component {
        /// The whole of what was given.
        text: String,
    },
}

/// A run of array task ids: `first`, `first + step`, … up to `last` at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskRange {
    /// Lowest id.
    pub first: u32,
    /// Highest id that may be reached.
    pub last: u32,
    /// Distance between ids; at least 1.
    pub step: u32,
}

impl TaskRange {
    /// Whether the task id belongs to the run.
    pub fn contains(&self, task: u32) -> bool {
        task >= self.first && task <= self.last && (task - self.first).is_multiple_of(self.step)
    }

    /// All ids, rising.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..=self.last).step_by(self.step as usize)
    }
}

/// Which part of a job (array tasks or a heterogeneous component) is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobPart {
    /// The job as a whole; of an array, all its tasks.
    Whole,
    /// One task: `N_T`.
    Task(u32),
    /// Several tasks: `N_[…]`.
    Tasks(Vec<TaskRange>),
    /// Component of a heterogeneous job: `N+O`.
    Component(u32),
}

/// What a user types where a job or step is asked for: `N`, `N_T`, `N_[T,T-T]`, `N+O`, each with an optional `.step`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobSelector {
    /// The job, or the array's or heterogeneous job's first job.
    pub job: JobId,
    /// The part of it.
    pub part: JobPart,
    /// The step, if one was named.
    pub step: Option<StepId>,
}

impl JobSelector {
    /// Selects a job as a whole.
    pub fn job(job: JobId) -> Self {
        JobSelector {
            job,
            part: JobPart::Whole,
            step: None,
        }
    }

    /// Whether an array task with this id is meant. The whole job means all its tasks.
    pub fn selects_task(&self, task: u32) -> bool {
        match &self.part {
            JobPart::Whole => true,
            JobPart::Task(t) => *t == task,
            JobPart::Tasks(ranges) => ranges.iter().any(|r| r.contains(task)),
            JobPart::Component(_) => false,
        }
    }
}

impl fmt::Display for JobSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.job)?;
        match &self.part {
            JobPart::Whole => {}
            JobPart::Task(t) => write!(f, "_{t}")?,
            JobPart::Component(o) => write!(f, "+{o}")?,
            JobPart::Tasks(ranges) => {
                f.write_str("_[")?;
                for (i, r) in ranges.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    match (r.first == r.last, r.step) {
                        (true, _) => write!(f, "{}", r.first)?,
                        (false, 1) => write!(f, "{}-{}", r.first, r.last)?,
                        (false, step) => write!(f, "{}-{}:{step}", r.first, r.last)?,
                    }
                }
                f.write_str("]")?;
            }
        }
        if let Some(step) = self.step {
            write!(f, ".{step}")?;
        }
        Ok(())
    }
}

impl FromStr for JobSelector {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let trimmed = text.trim();
        let (head, step) = match trimmed.split_once('.') {
            Some((head, step)) => (head, Some(step.parse::<StepId>()?)),
            None => (trimmed, None),
        };
        let (job, part) = if let Some((job, tasks)) = head.split_once('_') {
            (
                job,
                parse_tasks(tasks).ok_or_else(|| IdError::Tasks {
                    text: text.to_owned(),
                })?,
            )
        } else if let Some((job, offset)) = head.split_once('+') {
            let offset = parse_number(offset).ok_or_else(|| IdError::Component {
                text: text.to_owned(),
            })?;
            (job, JobPart::Component(offset))
        } else {
            (head, JobPart::Whole)
        };
        Ok(JobSelector {
            job: job.parse()?,
            part,
            step,
        })
    }
}

/// Reads what follows the underscore.
fn parse_tasks(text: &str) -> Option<JobPart> {
    let Some(inner) = text.strip_prefix('[') else {
        return parse_task_id(text).map(JobPart::Task);
    };
    let inner = inner.strip_suffix(']')?;
    // `%n`, the number of tasks that may run at once, is part of what squeue prints; it selects nothing.
    let inner = inner.split_once('%').map_or(inner, |(list, _)| list);
    let ranges = inner
        .split(',')
        .map(parse_task_range)
        .collect::<Option<Vec<_>>>()?;
    Some(JobPart::Tasks(ranges))
}

fn parse_task_range(text: &str) -> Option<TaskRange> {
    let (span, step) = match text.split_once(':') {
        Some((span, step)) => (span, parse_number(step).filter(|s| *s > 0)?),
        None => (text, 1),
    };
    match span.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (parse_task_id(first)?, parse_task_id(last)?);
            (first <= last).then_some(TaskRange { first, last, step })
        }
        None if step == 1 => parse_task_id(span).map(|t| TaskRange {
            first: t,
            last: t,
            step: 1,
        }),
        None => None,
    }
}

fn parse_task_id(text: &str) -> Option<u32> {
    parse_number(text).filter(|t| *t <= ARRAY_TASK_ID_MAX)
}

/// A plain decimal number: no sign, no blanks (which `u32::from_str` would in part accept).
fn parse_number(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reserved numbers are part of the wire format of Slurm's database and commands.
    #[test]
    fn step_numbers_are_slurms() {
        assert_eq!(StepId::Batch.number(), 4294967291);
        assert_eq!(StepId::Extern.number(), 4294967292);
        assert_eq!(StepId::Interactive.number(), 4294967290);
        for step in [
            StepId::Batch,
            StepId::Extern,
            StepId::Interactive,
            StepId::Num(0),
            StepId::Num(4294967289),
        ] {
            assert_eq!(StepId::from_number(step.number()), Some(step));
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        assert_eq!(StepId::from_number(STEP_NUMBER_PENDING), None);
        assert_eq!(StepId::from_number(u32::MAX), None);
    }

    /// Listings sort steps by this order.
    #[test]
    fn step_order() {
        let mut steps = [
            StepId::Num(0),
            StepId::Interactive,
            StepId::Num(2),
            StepId::Batch,
            StepId::Extern,
        ];
        steps.sort();
        assert_eq!(
            steps,
            [
                StepId::Batch,
                StepId::Extern,
                StepId::Interactive,
                StepId::Num(0),
                StepId::Num(2)
            ]
        );
    }

    /// All forms that commands accept, and that they print back as typed.
    #[test]
    fn selectors_round_trip() {
        for text in [
            "7",
            "7_3",
            "7_[1,3-5]",
            "7_[0-10:2]",
            "7+1",
            "7.batch",
            "7_3.0",
            "7+1.extern",
            "7.interactive",
        ] {
            let selector: JobSelector = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(selector.to_string(), text);
        }
        let s: JobSelector = "7_[1,3-9:3]".parse().expect("parses");
        assert_eq!(s.job, JobId(7));
        assert_eq!(
            (0..12).filter(|t| s.selects_task(*t)).collect::<Vec<_>>(),
            [1, 3, 6, 9]
        );
        let s: JobSelector = "7_[1-3%2]".parse().expect("squeue's own form");
        assert!(s.selects_task(3) && !s.selects_task(4));
    }

    /// Words and half-written ids are refused, not read as some other job.
    #[test]
    fn bad_selectors_are_refused() {
        for text in [
            "",
            "abc",
            "-1",
            "+1",
            "7_",
            "7_x",
            "7_[",
            "7_[]",
            "7_[3-1]",
            "7_[1-3:0]",
            "7+",
            "7.x",
            "7.",
            "1 2",
            "99999999999",
            "7_4000001",
        ] {
            assert!(text.parse::<JobSelector>().is_err(), "{text} was accepted");
        }
    }
}
