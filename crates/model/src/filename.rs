//! Filename patterns of `--output`, `--error` and `--input`.
//!
//! Invariant: expansion is pure; it does not look whether the result exists. A width digit pads numbers with zeros up to 10.
//! Source: sbatch(1) FILENAME PATTERN.

/// Value of `%a` outside an array, Slurm's "no value".
pub const NO_ARRAY_TASK: u32 = u32::MAX - 1;

/// Widest zero padding.
const PAD_WIDTH_MAX: usize = 10;

/// What the patterns stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilenameContext {
    /// `%j`.
    pub job_id: u32,
    /// `%A`; the job's own id outside an array.
    pub array_job_id: Option<u32>,
    /// `%a`.
    pub array_task_id: Option<u32>,
    /// `%s`: `0`, `batch`, …
    pub step_id: String,
    /// `%N`: short host name.
    pub node_name: String,
    /// `%n`: index of the node in the job.
    pub node_index: u32,
    /// `%t`: rank.
    pub task_rank: u32,
    /// `%u`.
    pub user: String,
    /// `%x`.
    pub job_name: String,
    /// `%r`.
    pub restart_count: u32,
    /// `%S`.
    pub sluid: String,
}

/// How many files a pattern means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilenameScope {
    /// One file for the step.
    Step,
    /// One file a node (`%N`, `%n`).
    Node,
    /// One file a task (`%t`).
    Task,
}

/// What a pattern needs.
#[must_use]
pub fn pattern_scope(pattern: &str) -> FilenameScope {
    if pattern.contains('\\') {
        return FilenameScope::Step;
    }
    pieces(pattern)
        .map(|piece| match piece {
            Piece::Symbol { letter: 't', .. } => FilenameScope::Task,
            Piece::Symbol {
                letter: 'N' | 'n', ..
            } => FilenameScope::Node,
            _ => FilenameScope::Step,
        })
        .max()
        .unwrap_or(FilenameScope::Step)
}

/// True when every task writes its own file.
#[must_use]
pub fn needs_per_task(pattern: &str) -> bool {
    pattern_scope(pattern) == FilenameScope::Task
}

/// True when every node writes its own file.
#[must_use]
pub fn needs_per_node(pattern: &str) -> bool {
    pattern_scope(pattern) == FilenameScope::Node
}

/// The file name that `pattern` means. Unknown patterns stay as they are.
#[must_use]
pub fn expand_pattern(pattern: &str, context: &FilenameContext) -> String {
    if pattern.contains('\\') {
        return pattern.replace('\\', "");
    }
    let mut name = String::with_capacity(pattern.len() + 16);
    for piece in pieces(pattern) {
        match piece {
            Piece::Text(text) => name.push_str(text),
            Piece::Symbol {
                source,
                width,
                letter,
            } => match symbol(letter, width, context) {
                Some(value) => name.push_str(&value),
                None => name.push_str(source),
            },
        }
    }
    name
}

fn symbol(letter: char, width: usize, context: &FilenameContext) -> Option<String> {
    let number = |value: u32| format!("{value:0width$}");
    Some(match letter {
        '%' => "%".to_string(),
        'A' => number(context.array_job_id.unwrap_or(context.job_id)),
        'a' => number(context.array_task_id.unwrap_or(NO_ARRAY_TASK)),
        'b' => number(context.array_task_id.unwrap_or(NO_ARRAY_TASK) % 10),
        // A batch script's own files have the job id alone: so slurmpy and dask-jobqueue name their logs.
        'J' if context.step_id == "batch" => number(context.job_id),
        'J' => format!("{}.{}", number(context.job_id), context.step_id),
        'j' => number(context.job_id),
        'N' => context
            .node_name
            .split('.')
            .next()
            .unwrap_or_default()
            .to_string(),
        'n' => number(context.node_index),
        'r' => number(context.restart_count),
        's' => match context.step_id.parse() {
            Ok(step) => number(step),
            Err(_) => context.step_id.clone(),
        },
        'S' => context.sluid.clone(),
        't' => number(context.task_rank),
        'u' => context.user.clone(),
        'x' => context.job_name.clone(),
        _ => return None,
    })
}

enum Piece<'a> {
    Text(&'a str),
    Symbol {
        source: &'a str,
        width: usize,
        letter: char,
    },
}

fn pieces(pattern: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after_percent) = rest.strip_prefix('%') else {
            let end = rest.find('%').unwrap_or(rest.len());
            let (text, tail) = rest.split_at(end);
            rest = tail;
            return Some(Piece::Text(text));
        };
        let digits = after_percent.len()
            - after_percent
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let Some(letter) = after_percent[digits..].chars().next() else {
            let text = rest;
            rest = "";
            return Some(Piece::Text(text));
        };
        let end = 1 + digits + letter.len_utf8();
        let source = &rest[..end];
        rest = &rest[end..];
        let width = after_percent[..digits]
            .parse()
            .unwrap_or(0)
            .min(PAD_WIDTH_MAX);
        Some(Piece::Symbol {
            source,
            width,
            letter,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> FilenameContext {
        FilenameContext {
            job_id: 128,
            array_job_id: Some(126),
            array_task_id: Some(17),
            step_id: "0".to_string(),
            node_name: "n3.example.org".to_string(),
            node_index: 2,
            task_rank: 5,
            user: "alice".to_string(),
            job_name: "md".to_string(),
            restart_count: 1,
            sluid: "sBMNM8NC3QVH00".to_string(),
        }
    }

    /// One row per pattern of the manual, with its examples (`job%4j.out` of job 128 is `job0128.out`).
    #[test]
    fn every_pattern() {
        let rows = [
            ("slurm-%j.out", "slurm-128.out"),
            ("slurm-%A_%a.out", "slurm-126_17.out"),
            ("job%4j.out", "job0128.out"),
            ("job%J.out", "job128.0.out"),
            ("job%j-%2t.out", "job128-05.out"),
            ("%b", "7"),
            ("%N.%n", "n3.2"),
            ("%s-%S", "0-sBMNM8NC3QVH00"),
            ("%u/%x.r%r", "alice/md.r1"),
            ("100%%", "100%"),
            ("%q%", "%q%"),
            ("%99j", "0000000128"),
            ("\\%j", "%j"),
        ];
        for (pattern, name) in rows {
            assert_eq!(expand_pattern(pattern, &context()), name, "{pattern}");
        }
    }

    /// Without this, `-o %J.out` of a batch script would get a name that nobody looks for.
    #[test]
    fn a_batch_script_has_no_step_in_its_name() {
        let batch = FilenameContext {
            step_id: "batch".to_string(),
            ..context()
        };
        assert_eq!(expand_pattern("%J.%s.out", &batch), "128.batch.out");
        assert_eq!(expand_pattern("%5J", &batch), "00128");
    }

    /// Outside an array `%A` is the job id and `%a` is Slurm's "no value".
    #[test]
    fn outside_an_array() {
        let plain = FilenameContext {
            array_job_id: None,
            array_task_id: None,
            step_id: "batch".to_string(),
            ..context()
        };
        assert_eq!(expand_pattern("%A_%a.%s", &plain), "128_4294967294.batch");
    }

    /// srun opens one file per task or node when the pattern says so.
    #[test]
    fn scope() {
        assert!(needs_per_task("out.%t") && needs_per_task("%N-%3t"));
        assert!(needs_per_node("out.%N") && needs_per_node("%n"));
        assert_eq!(pattern_scope("out.%j.%%t"), FilenameScope::Step);
        assert_eq!(pattern_scope("\\%t"), FilenameScope::Step);
    }
}
