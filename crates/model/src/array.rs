//! Job arrays: the index expression of `--array` and compact sets of task indices.
//!
//! Invariant of [`IndexSet`]: its runs are sorted and do not interleave (`run[i].last < run[i+1].first`), so `0-999999` costs
//! one run. Limits such as MaxArraySize are the engine's business. Source: sbatch(1) --array, the job array page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Highest index that can be written; bounds what a hostile expression can allocate.
pub const ARRAY_INDEX_MAX: u32 = 4_000_000;

/// From this span on, a set with a regular step is written as `first-last:step`.
const STEP_FORM_SPAN_MIN: u32 = 10;

/// An index expression that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid job array expression \"{0}\": use indices such as 0-31, 1,3,5 or 1-7:2, with %N to limit running tasks"
)]
pub struct ArrayError(pub String);

/// Regular run of indices: first, first+step, … last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Run {
    first: u32,
    last: u32,
    step: u32,
}

impl Run {
    /// `step` of a single index is 1, so that equal runs are equal values.
    fn new(first: u32, last: u32, step: u32) -> Self {
        Self {
            first,
            last,
            step: if first == last { 1 } else { step },
        }
    }

    fn len(self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }

    fn contains(self, index: u32) -> bool {
        (self.first..=self.last).contains(&index) && (index - self.first).is_multiple_of(self.step)
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step as usize)
    }
}

/// Set of task indices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IndexSet {
    runs: Vec<Run>,
}

impl IndexSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set `first..=last`.
    #[must_use]
    pub fn range(first: u32, last: u32) -> Self {
        if first > last {
            Self::new()
        } else {
            Self {
                runs: vec![Run::new(first, last, 1)],
            }
        }
    }

    /// Number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum::<u64>() as usize
    }

    /// No index.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Lowest index.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.runs.first().map(|run| run.first)
    }

    /// Highest index.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.runs.last().map(|run| run.last)
    }

    /// True when `index` is in the set.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.find(index).is_some()
    }

    /// Indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Distance between neighbours when it is regular, else 1 (SLURM_ARRAY_TASK_STEP).
    #[must_use]
    pub fn step(&self) -> u32 {
        self.regular_step().unwrap_or(1)
    }

    /// Removes and returns the lowest index.
    pub fn pop_first(&mut self) -> Option<u32> {
        let index = self.first()?;
        self.remove(index);
        Some(index)
    }

    /// Removes `index`; false when it was not there.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(place) = self.find(index) else {
            return false;
        };
        let run = self.runs[place];
        let mut rest = Vec::with_capacity(2);
        if index > run.first {
            rest.push(Run::new(run.first, index - run.step, run.step));
        }
        if index < run.last {
            rest.push(Run::new(index + run.step, run.last, run.step));
        }
        self.runs.splice(place..=place, rest);
        true
    }

    /// Adds `index`; false when it was there.
    pub fn insert(&mut self, index: u32) -> bool {
        if self.contains(index) {
            return false;
        }
        let place = self.runs.partition_point(|run| run.last < index);
        match self.runs.get(place).copied() {
            // Between two members of a run with a step: split it.
            Some(run) if run.first < index => {
                let below = run.first + (index - run.first) / run.step * run.step;
                let split = [
                    Run::new(run.first, below, run.step),
                    Run::new(index, index, 1),
                    Run::new(below + run.step, run.last, run.step),
                ];
                self.runs.splice(place..=place, split);
            }
            _ => self.runs.insert(place, Run::new(index, index, 1)),
        }
        self.merge_neighbours(place.saturating_sub(1));
        true
    }

    /// The set of `terms` (first, last, step), in any order and overlapping at will.
    fn from_terms(mut terms: Vec<Run>) -> Self {
        terms.sort_by_key(|run| (run.first, run.last));
        let apart = terms.windows(2).all(|pair| pair[0].last < pair[1].first);
        if !apart {
            let mut indices: Vec<u32> = terms.iter().flat_map(|run| run.iter()).collect();
            indices.sort_unstable();
            indices.dedup();
            return indices.into_iter().collect();
        }
        let mut set = Self { runs: terms };
        set.merge_neighbours(0);
        set
    }

    /// Joins dense runs that touch, beginning at `place`.
    fn merge_neighbours(&mut self, place: usize) {
        let mut merged: Vec<Run> = Vec::with_capacity(self.runs.len() - place.min(self.runs.len()));
        for run in self.runs.drain(place..) {
            match merged.last_mut() {
                Some(previous)
                    if previous.step == 1 && run.step == 1 && previous.last + 1 == run.first =>
                {
                    previous.last = run.last;
                }
                _ => merged.push(run),
            }
        }
        self.runs.extend(merged);
    }

    fn find(&self, index: u32) -> Option<usize> {
        let place = self.runs.partition_point(|run| run.last < index);
        self.runs
            .get(place)
            .is_some_and(|run| run.contains(index))
            .then_some(place)
    }

    /// The step of a set whose neighbours are all equally far apart, and more than 1.
    fn regular_step(&self) -> Option<u32> {
        if let [run] = self.runs.as_slice() {
            return (run.step > 1).then_some(run.step);
        }
        let mut members = self.iter();
        let (first, second) = (members.next()?, members.next()?);
        let step = second - first;
        let mut previous = second;
        for index in members {
            if index - previous != step {
                return None;
            }
            previous = index;
        }
        (step > 1).then_some(step)
    }
}

impl PartialEq for IndexSet {
    fn eq(&self, other: &Self) -> bool {
        // Equal sets may be cut into different runs.
        self.runs == other.runs || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl Eq for IndexSet {}

impl FromIterator<u32> for IndexSet {
    /// From ascending indices in any order; duplicates are dropped.
    fn from_iter<T: IntoIterator<Item = u32>>(indices: T) -> Self {
        let mut sorted: Vec<u32> = indices.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut set = Self {
            runs: sorted
                .into_iter()
                .map(|index| Run::new(index, index, 1))
                .collect(),
        };
        set.merge_neighbours(0);
        set
    }
}

impl fmt::Display for IndexSet {
    /// `1,3,5-7`, or `0-20:2` for a regular step over more than ten indices, as squeue writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(first), Some(last)) = (self.first(), self.last()) else {
            return Ok(());
        };
        if last - first > STEP_FORM_SPAN_MIN
            && let Some(step) = self.regular_step()
        {
            return write!(f, "{first}-{last}:{step}");
        }
        let mut separator = "";
        let mut write_dense = |f: &mut fmt::Formatter<'_>, from: u32, to: u32| {
            let result = if from == to {
                write!(f, "{separator}{from}")
            } else {
                write!(f, "{separator}{from}-{to}")
            };
            separator = ",";
            result
        };
        // Runs with a step are written index by index; dense neighbours are joined.
        let mut open: Option<(u32, u32)> = None;
        for run in &self.runs {
            let pieces: &mut dyn Iterator<Item = (u32, u32)> = if run.step == 1 {
                &mut std::iter::once((run.first, run.last))
            } else {
                &mut run.iter().map(|index| (index, index))
            };
            for (from, to) in pieces {
                open = match open {
                    Some((start, end)) if end + 1 == from => Some((start, to)),
                    Some((start, end)) => {
                        write_dense(f, start, end)?;
                        Some((from, to))
                    }
                    None => Some((from, to)),
                };
            }
        }
        open.map_or(Ok(()), |(start, end)| write_dense(f, start, end))
    }
}

impl FromStr for IndexSet {
    type Err = ArrayError;

    /// `0-31`, `1,3,5`, `1-7:2`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ArrayError(text.to_string());
        let number = |part: &str| -> Result<u32, ArrayError> {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(error());
            }
            part.parse()
                .ok()
                .filter(|n| *n <= ARRAY_INDEX_MAX)
                .ok_or_else(error)
        };
        let mut terms = Vec::new();
        for term in text.split(',') {
            let (range, step) = match term.split_once(':') {
                Some((range, step)) => (range, Some(number(step)?)),
                None => (term, None),
            };
            let run = match (range.split_once('-'), step) {
                (Some((first, last)), step) => {
                    let (first, last, step) = (number(first)?, number(last)?, step.unwrap_or(1));
                    if first > last || step == 0 {
                        return Err(error());
                    }
                    Run::new(first, first + (last - first) / step * step, step)
                }
                (None, None) => {
                    let index = number(range)?;
                    Run::new(index, index, 1)
                }
                (None, Some(_)) => return Err(error()),
            };
            terms.push(run);
        }
        Ok(Self::from_terms(terms))
    }
}

/// `--array` as a whole: which tasks, and how many may run at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArraySpec {
    /// The tasks.
    pub tasks: IndexSet,
    /// `%N`; 0 = no limit.
    pub throttle: u32,
}

impl FromStr for ArraySpec {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ArrayError(text.to_string());
        // Brackets are accepted because squeue shows them.
        let inner = match text.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(error)?,
            None => text,
        };
        let (indices, throttle) = match inner.split_once('%') {
            Some((indices, limit)) => (indices, limit.parse::<u32>().map_err(|_| error())?),
            None => (inner, 0),
        };
        let tasks: IndexSet = indices.parse().map_err(|_| error())?;
        Ok(Self { tasks, throttle })
    }
}

impl fmt::Display for ArraySpec {
    /// `4-9%2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tasks)?;
        if self.throttle > 0 {
            write!(f, "%{}", self.throttle)?;
        }
        Ok(())
    }
}

/// The unstarted rest of an array as squeue shows it between `<job id>_[` and `]`: `4-9%2`.
#[must_use]
pub fn pending_display(tasks: &IndexSet, throttle: u32) -> String {
    if throttle > 0 {
        format!("{tasks}%{throttle}")
    } else {
        tasks.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> IndexSet {
        text.parse().expect("valid expression")
    }

    /// Texts as `squeue` and `scontrol` of a real cluster write them.
    #[test]
    fn displays_as_squeue() {
        let rows = [
            ("1-10:2,20", "1,3,5,7,9,20"),
            ("0-31", "0-31"),
            ("1,3,5", "1,3,5"),
            ("1-7:2", "1,3,5,7"),
            ("0-20:2", "0-20:2"),
            ("0-21:2", "0-20:2"),
            ("5,4,3,9", "3-5,9"),
            ("1-3,2-6", "1-6"),
            ("0-10:5,1", "0-1,5,10"),
            ("7", "7"),
        ];
        for (text, shown) in rows {
            assert_eq!(set(text).to_string(), shown, "{text}");
        }
        assert_eq!(pending_display(&set("4-9"), 2), "4-9%2");
        assert_eq!(pending_display(&set("4-9"), 0), "4-9");
    }

    /// Expressions sbatch refuses.
    #[test]
    fn refuses_bad_expressions() {
        for text in [
            "abc",
            "",
            "1-",
            "-1",
            "3-1",
            "1-5:0",
            "1,,2",
            "1:2",
            "99999999999",
            "1 2",
            "0-5000000",
        ] {
            assert!(text.parse::<IndexSet>().is_err(), "{text:?}");
        }
        for text in ["1-4%", "1-4%x", "%2", "1-4%-1"] {
            assert!(text.parse::<ArraySpec>().is_err(), "{text:?}");
        }
    }

    /// A million tasks are one run, and taking from the front keeps it so.
    #[test]
    fn large_arrays_are_cheap() {
        let mut tasks = set("0-999999");
        assert_eq!((tasks.len(), tasks.runs.len()), (1_000_000, 1));
        assert_eq!(tasks.pop_first(), Some(0));
        assert_eq!(tasks.pop_first(), Some(1));
        assert_eq!(
            (tasks.len(), tasks.runs.len(), tasks.first()),
            (999_998, 1, Some(2))
        );
        assert!(tasks.remove(500_000) && !tasks.remove(500_000) && !tasks.contains(500_000));
        assert_eq!(tasks.to_string(), "2-499999,500001-999999");
    }

    /// Set operations against a plain ordered set, on a fixed pseudo-random walk.
    #[test]
    fn agrees_with_a_plain_set() {
        let mut tasks = set("0-60:3,100-110");
        let mut plain: std::collections::BTreeSet<u32> = tasks.iter().collect();
        let mut state = 12345_u32;
        for _ in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let index = (state >> 16) % 120;
            if state & 0x8000 == 0 {
                assert_eq!(tasks.insert(index), plain.insert(index), "insert {index}");
            } else {
                assert_eq!(tasks.remove(index), plain.remove(&index), "remove {index}");
            }
            assert_eq!(tasks.len(), plain.len());
            assert_eq!(tasks.first(), plain.first().copied());
        }
        assert!(tasks.iter().eq(plain.iter().copied()));
        assert_eq!(set(&tasks.to_string()), tasks);
    }

    /// Throttle and step reach the environment variables of the tasks.
    #[test]
    fn array_spec() {
        let spec: ArraySpec = "1-10:2,20%2".parse().expect("valid");
        assert_eq!(
            (spec.tasks.len(), spec.throttle, spec.to_string().as_str()),
            (6, 2, "1,3,5,7,9,20%2")
        );
        assert_eq!(set("1-7:2").step(), 2);
        assert_eq!(set("1-4").step(), 1);
        assert_eq!(
            "[4-9%2]".parse::<ArraySpec>().map(|s| s.throttle),
            "4-9%2".parse::<ArraySpec>().map(|s| s.throttle)
        );
    }

    proptest::proptest! {
        /// What is shown parses to the same set, whatever the set.
        #[test]
        fn display_round_trips(indices in proptest::collection::btree_set(0_u32..200, 1..40), throttle in 0_u32..5) {
            let tasks: IndexSet = indices.iter().copied().collect();
            proptest::prop_assert!(tasks.iter().eq(indices.iter().copied()));
            let spec = ArraySpec { tasks, throttle };
            proptest::prop_assert_eq!(spec.to_string().parse::<ArraySpec>(), Ok(spec));
        }

        /// Any text is a set or an error.
        #[test]
        fn any_text_is_an_answer(text in "[0-9,:%\\[\\]x-]{0,20}") {
            if let Ok(spec) = text.parse::<ArraySpec>() {
                proptest::prop_assert!(!spec.tasks.is_empty());
            }
        }
    }
}
