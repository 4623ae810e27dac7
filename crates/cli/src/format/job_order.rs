//! The order of squeue's lines (`-S`).
//!
//! What a line is sorted by is taken from its record once, so that the record itself need not be kept: a listing of ten
//! thousand jobs holds their lines and keys only. Source: squeue(1), `--sort`.

use std::cmp::Ordering;

use sluice_model::time::{TimeLimit, UnixSeconds};

use super::job_fields::FIELDS;
use super::job_rows::JobRow;

/// One thing that lines are sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i64),
    /// Array or job, task, record.
    Id(u32, u32, u32),
    Text(String),
}

/// What one line is sorted by, in the order of the list; its id comes last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey(Vec<Key>);

/// A sort list such as `P,t,-p`.
#[derive(Debug, Clone)]
pub struct JobOrder {
    /// Letters; the flag says descending.
    letters: Vec<(char, bool)>,
}

impl JobOrder {
    /// Reads a list whose letters were checked before (`unknown_sort_letter`); rows that are equal in all of it keep the order of
    /// their ids.
    #[must_use]
    pub fn new(list: &str) -> Self {
        let mut letters = Vec::new();
        for item in list.split(',') {
            let item = item.trim();
            let (descending, names) = match item.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, item.trim_start_matches('+')),
            };
            letters.extend(
                names
                    .chars()
                    .filter(|letter| *letter != '#')
                    .map(|letter| (letter, descending)),
            );
        }
        letters.push(('i', false));
        Self { letters }
    }

    /// The key of a row.
    #[must_use]
    pub fn key(&self, row: &JobRow) -> SortKey {
        SortKey(
            self.letters
                .iter()
                .map(|(letter, _)| key(*letter, row))
                .collect(),
        )
    }

    /// Compares two keys of this order.
    #[must_use]
    pub fn compare(&self, first: &SortKey, second: &SortKey) -> Ordering {
        let pairs = first.0.iter().zip(&second.0);
        for ((_, descending), (first, second)) in self.letters.iter().zip(pairs) {
            let order = first.cmp(second);
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}

fn key(letter: char, row: &JobRow) -> Key {
    let job = &row.job;
    // No start or end known sorts behind every known one.
    let late = |time: Option<UnixSeconds>| Key::Number(time.map_or(i64::MAX, |time| time.0));
    let number = |value: u32| Key::Number(i64::from(value));
    match letter {
        'i' | 'F' => Key::Id(
            job.array_job_id.unwrap_or(job.job_id).0,
            row.task.or(job.array_task_id).unwrap_or(u32::MAX),
            job.job_id.0,
        ),
        'A' => number(job.job_id.0),
        'P' => Key::Text(row.partition().to_owned()),
        't' | 'T' => Key::Number(i64::from(job.state.number())),
        'p' | 'Q' => number(job.priority),
        'C' => number(job.num_cpus),
        'D' => number(job.num_nodes),
        'S' => late(job.start_time),
        'e' => late(job.end_time),
        'V' => Key::Number(job.submit_time.0),
        'l' => match job.time_limit {
            TimeLimit::Minutes(minutes) => number(minutes),
            TimeLimit::Unlimited => Key::Number(i64::MAX),
        },
        'L' => Key::Number(row.time_left().unwrap_or(i64::MAX)),
        'M' => Key::Number(row.run_time()),
        'U' => number(job.description.uid),
        'G' => number(job.description.gid),
        'y' => Key::Number(i64::from(job.description.nice)),
        'm' => {
            let size = job.description.mem_per_node.or(job.description.mem_per_cpu);
            Key::Number(size.map_or(-1, |size| size.0.try_into().unwrap_or(i64::MAX)))
        }
        letter => Key::Text(
            FIELDS
                .iter()
                .find(|field| field.letter == Some(letter))
                .map_or_else(String::new, |field| (field.value)(row)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::samples::{self, rows};

    fn order(list: &str) -> Vec<u32> {
        let jobs = [
            samples::running(),
            samples::pending_array(),
            samples::gpu_job(),
        ]
        .map(Arc::new);
        let order = JobOrder::new(list);
        let mut keyed: Vec<_> = rows(&jobs, &Arc::new(samples::view()), |_| false, false)
            .into_iter()
            .map(|row| (order.key(&row), row.job.job_id.0))
            .collect();
        keyed.sort_by(|first, second| order.compare(&first.0, &second.0));
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    /// The samples: 9 runs since 35 s, 10 runs since 34 s, 15 waits.
    #[test]
    fn letters_directions_and_equal_rows() {
        assert_eq!(order("P,t,-p"), [15, 9, 10]);
        assert_eq!(order("-i"), [15, 10, 9]);
        assert_eq!(order("M"), [15, 10, 9]);
        assert_eq!(order("-M"), [9, 10, 15]);
        assert_eq!(order("#P"), [9, 10, 15]);
        assert_eq!(order("-t,j"), [10, 9, 15], "gpujob stands before run1");
        assert_eq!(order("-tj"), [9, 10, 15], "the minus is for both letters");
    }
}
