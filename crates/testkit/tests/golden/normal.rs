//! What may differ between the recording and a run is replaced in both: times, ids of new jobs, the host's name, users.
//!
//! Everything else, blanks at line ends included, must be equal.

use std::fmt::Write as _;

use sluice_testkit::Finished;

use super::cases::{Case, Tweak};
use super::recording::Recording;
use super::scene::{LEFT_OUT_JOBS, LEFT_OUT_NAMES, PLAYERS, Scene};

/// The recorded answer as one text.
pub fn wanted(case: &Case, recording: &Recording) -> String {
    let mut texts = [recording.stdout.clone(), recording.stderr.clone()];
    for text in &mut texts {
        // The recording's uids.
        for (from, to) in [("alice(1002)", "alice(uid)"), ("bob(1003)", "bob(uid)")] {
            *text = text.replace(from, to);
        }
        *text = text.replace("26.11.0-0rc1", "VERSION");
        for tweak in case.tweaks {
            if let Tweak::Recorded(from, to) = tweak {
                *text = text.replace(from, to);
            }
        }
    }
    joined(case, recording.code, texts)
}

/// A run's answer as one text.
pub fn given(case: &Case, scene: &Scene, answer: &Finished) -> String {
    let mut texts = [answer.stdout.clone(), answer.stderr.clone()];
    let layout = scene.cluster.layout();
    let gold = scene.cluster.path("work/gold");
    let wide = case
        .tweaks
        .iter()
        .any(|tweak| matches!(tweak, Tweak::Wide(_)));
    for text in &mut texts {
        if wide {
            // Another length would shift the columns behind; players have names of one length.
            for (name, player, _) in PLAYERS {
                *text = replace_words(text, player, name);
            }
            continue;
        }
        *text = text.replace(&*gold.to_string_lossy(), "/tmp/gold");
        *text = text.replace(&*layout.dir.to_string_lossy(), "/srv/slurm");
        for (name, player, uid) in PLAYERS {
            *text = replace_words(text, player, name);
            *text = text.replace(&format!("{name}({uid})"), &format!("{name}(uid)"));
        }
        *text = replace_words(text, &layout.host, "vm");
        for group in ["GroupId=alice(60)", "GroupId=bob(uid)"] {
            *text = text.replace(group, "GroupId=nogroup(65534)");
        }
        *text = text.replace(&layout.ctld_port.to_string(), "16817");
        // The number of the wire protocol goes with the release.
        *text = text.replace(" 11264 ", " 11776 ");
        *text = text.replace("25.11.0", "VERSION");
        *text = text
            .replace("=0.1.0", "=VERSION")
            .replace("|0.1.0|", "|VERSION|");
        // A line that says more than Slurm does stands behind Slurm's own.
        *text = text
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("hint: "))
            .collect();
    }
    for text in &mut texts {
        for tweak in case.tweaks {
            if let Tweak::Given(from, to) = tweak {
                *text = text.replace(from, to);
            }
        }
    }
    joined(case, answer.code, texts)
}

fn joined(case: &Case, code: i32, texts: [String; 2]) -> String {
    let [stdout, stderr] = texts.map(|text| tweaked(case, &text));
    format!("--- exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

fn tweaked(case: &Case, text: &str) -> String {
    let mut text = mask_times(text);
    for tweak in case.tweaks {
        match tweak {
            Tweak::WithoutLeftOut => text = without_left_out(&text),
            Tweak::WithoutLeftOutBy(separator, heading) => {
                text = without_left_out_by(
                    &text,
                    |line| line.split(*separator).map(str::to_owned).collect(),
                    heading,
                );
            }
            Tweak::Wide(names) => text = wide_rows(&text, names),
            Tweak::Keys(keys) => {
                for key in *keys {
                    text = mask_key(&text, key);
                }
            }
            Tweak::Columns(separator, names) => text = mask_columns(&text, *separator, names),
            Tweak::Sorted => text = sorted(&text),
            Tweak::JobNumbers => text = mask_job_numbers(&text),
            Tweak::Nodes => text = mask_nodes(&text),
            Tweak::Recorded(..) => {}
            Tweak::Without(words) => {
                text = text
                    .lines()
                    .filter(|line| !words.iter().any(|word| line.contains(word)))
                    .map(|line| format!("{line}\n"))
                    .collect();
            }
            Tweak::Given(..) => {}
            Tweak::RestOfLine(key) => text = mask_rest_of_line(&text, key),
            Tweak::Under(names) => text = mask_under(&text, names),
        }
    }
    text
}

/// Points in time, and short elapsed times in a column.
fn mask_times(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let is = |at: usize, shape: &str| {
        bytes.get(at..at + shape.len()).is_some_and(|part| {
            part.iter()
                .zip(shape.bytes())
                .all(|(byte, kind)| match kind {
                    b'd' => byte.is_ascii_digit(),
                    b'a' => byte.is_ascii_alphabetic(),
                    b'_' => byte.is_ascii_digit() || *byte == b' ',
                    other => *byte == other,
                })
        })
    };
    let mut at = 0;
    while at < bytes.len() {
        let shapes = [
            "dddd-dd-ddTdd:dd:dd.ddd",
            "dddd-dd-ddTdd:dd:dd",
            "aaa aaa _d dd:dd:dd dddd",
        ];
        if let Some(shape) = shapes.iter().find(|shape| is(at, shape)) {
            out.push_str(&"T".repeat(shape.len()));
            at += shape.len();
        } else if is(at, " 0:dd ") && !is(at, " 0:00 ") {
            out.push_str(" 0:SS ");
            at += 6;
        } else {
            let letter = text[at..].chars().next().unwrap();
            out.push(letter);
            at += letter.len_utf8();
        }
    }
    out
}

fn replace_words(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let before = rest[..at].chars().next_back().or(out.chars().next_back());
        let after = rest[at + from.len()..].chars().next();
        out.push_str(&rest[..at]);
        out.push_str(if before.is_some_and(word) || after.is_some_and(word) {
            from
        } else {
            to
        });
        rest = &rest[at + from.len()..];
    }
    out.push_str(rest);
    out
}

/// Cells that end where one of the headings ends. The first line has the headings.
fn mask_under(text: &str, names: &[&str]) -> String {
    let headings = text.lines().next().unwrap_or_default();
    let ends: Vec<usize> = names
        .iter()
        .filter_map(|name| headings.find(name).map(|at| at + name.len()))
        .collect();
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.lines().enumerate() {
        let mut line = line.to_owned();
        for end in ends.iter().copied().filter(|_| at > 0) {
            let Some(cell) = line.get(..end) else {
                continue;
            };
            let start = cell.rfind(' ').map_or(0, |blank| blank + 1);
            if start < end {
                // One star at the end, whatever the length of the cell.
                line.replace_range(start..end, &format!("{:>1$}", "*", end - start));
            }
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// The value after `Key=`, up to a blank or the line's end.
fn mask_key(text: &str, key: &str) -> String {
    let label = format!("{key}=");
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&label) {
        let starts = rest[..at]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        let (head, tail) = rest.split_at(at + label.len());
        out.push_str(head);
        let length = tail.find(char::is_whitespace).unwrap_or(tail.len());
        if starts {
            out.push('*');
            rest = &tail[length..];
        } else {
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}

/// What follows `Key=` up to the next `Key=` of a record, or the line's end.
fn mask_rest_of_line(text: &str, key: &str) -> String {
    let label = format!(" {key}=");
    text.split_inclusive('\n')
        .map(|line| match line.split_once(&label) {
            None => line.to_owned(),
            Some((head, tail)) => {
                let rest = tail
                    .split_once(" RealMemory=")
                    .map_or(String::new(), |(_, rest)| format!(" RealMemory={rest}"));
                let end = if rest.is_empty() { "\n" } else { "" };
                format!("{head}{label}*{rest}{end}")
            }
        })
        .collect()
}

/// Cells under the named headings; the separator is a character, or a blank for columns of fixed width.
fn mask_columns(text: &str, separator: char, names: &[&str]) -> String {
    let mut lines = text.lines();
    let Some(header) = lines.next() else {
        return text.to_owned();
    };
    let masked: Vec<usize> = header
        .split(separator)
        .enumerate()
        .filter(|(_, name)| names.contains(name))
        .map(|(nth, _)| nth)
        .collect();
    let mut out = format!("{header}\n");
    for line in lines {
        let cells: Vec<&str> = line
            .split(separator)
            .enumerate()
            .map(|(nth, cell)| if masked.contains(&nth) { "*" } else { cell })
            .collect();
        let _ = writeln!(out, "{}", cells.join(&separator.to_string()));
    }
    out
}

fn leading_job(line: &str) -> Option<u32> {
    let text = line.trim_start();
    let text = text
        .strip_prefix("JobId=")
        .or_else(|| text.strip_prefix("StepId="))
        .unwrap_or(text);
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

fn without_left_out(text: &str) -> String {
    let left_out = |line: &str| leading_job(line).is_some_and(|id| LEFT_OUT_JOBS.contains(&id));
    let mut skipping = false;
    let mut out = String::new();
    for line in text.lines() {
        // The indented lines below a record belong to it, and so does the empty line after it.
        if line.starts_with("   ") && leading_job(line).is_none() {
            if skipping {
                continue;
            }
        } else if line.is_empty() && skipping {
            continue;
        } else {
            skipping = left_out(line);
            if skipping {
                continue;
            }
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Rows of a table whose cell below `heading` is the id of no job that is left out.
fn without_left_out_by(text: &str, cells: impl Fn(&str) -> Vec<String>, heading: &str) -> String {
    let Some(header) = text.lines().next() else {
        return text.to_owned();
    };
    let Some(place) = cells(header).iter().position(|cell| cell.trim() == heading) else {
        return text.to_owned();
    };
    text.lines()
        .filter(|line| {
            let id = cells(line).get(place).and_then(|cell| leading_job(cell));
            id.is_none_or(|id| !LEFT_OUT_JOBS.contains(&id))
        })
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Width of the columns of `-O` without a size.
const WIDE: usize = 20;

fn wide_cells(line: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    letters
        .chunks(WIDE)
        .map(|chunk| chunk.iter().collect())
        .collect()
}

fn wide_rows(text: &str, masked: &[&str]) -> String {
    let Some(header) = text.lines().next() else {
        return text.to_owned();
    };
    let headings = wide_cells(header);
    let by_name = !headings.iter().any(|heading| heading.trim() == "JOBID");
    let text = without_left_out_by(text, wide_cells, "JOBID");
    text.lines()
        .filter(|line| {
            !(by_name
                && wide_cells(line)
                    .iter()
                    .any(|cell| LEFT_OUT_NAMES.contains(&cell.trim())))
        })
        .map(|line| {
            if line.len() < WIDE * 2 || line == header {
                return format!("{line}\n");
            }
            let cells: Vec<String> = wide_cells(line)
                .into_iter()
                .zip(&headings)
                .map(|(cell, heading)| {
                    if masked.contains(&heading.trim()) {
                        format!("{:<WIDE$}", "*")
                    } else {
                        cell
                    }
                })
                .collect();
            format!("{}\n", cells.concat())
        })
        .collect()
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Numbers after the words that name a job.
fn mask_job_numbers(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut line = line.to_owned();
        for word in [
            "job ",
            "Job ",
            "allocation ",
            "JobId=",
            "StepId=",
            "jobid ",
            "JOBID=",
        ] {
            let mut from = 0;
            while let Some(at) = line[from..].find(word) {
                let start = from + at + word.len();
                let end = line[start..]
                    .find(|letter: char| !letter.is_ascii_digit())
                    .map_or(line.len(), |length| start + length);
                if end > start {
                    line.replace_range(start..end, "#");
                }
                from = start;
            }
        }
        out.push_str(&line);
    }
    if out.trim_end().bytes().all(|byte| byte.is_ascii_digit()) && !out.is_empty() {
        return "#\n".to_owned();
    }
    out
}

/// A lone node's name; which of them a small job gets is the planner's choice.
fn mask_nodes(text: &str) -> String {
    let mut out = text.to_owned();
    for node in ["n1", "n2", "n3"] {
        out = replace_words(&out, node, "n?");
    }
    out
}

/// The lines in which two texts differ.
pub fn compare(wanted: &str, given: &str) -> String {
    let (wanted, given): (Vec<&str>, Vec<&str>) =
        (wanted.lines().collect(), given.lines().collect());
    // Longest common subsequence; the texts are small.
    let mut table = vec![vec![0_usize; given.len() + 1]; wanted.len() + 1];
    for (i, left) in wanted.iter().enumerate().rev() {
        for (j, right) in given.iter().enumerate().rev() {
            table[i][j] = if left == right {
                table[i + 1][j + 1] + 1
            } else {
                table[i + 1][j].max(table[i][j + 1])
            };
        }
    }
    let mut out = String::new();
    let (mut i, mut j) = (0, 0);
    while i < wanted.len() || j < given.len() {
        if i < wanted.len() && j < given.len() && wanted[i] == given[j] {
            i += 1;
            j += 1;
        } else if j == given.len() || (i < wanted.len() && table[i + 1][j] >= table[i][j + 1]) {
            let _ = writeln!(out, "  - {}", wanted[i]);
            i += 1;
        } else {
            let _ = writeln!(out, "  + {}", given[j]);
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a change of width or of a label would be hidden by a replacement that takes too much.
    #[test]
    fn only_the_changing_parts_are_replaced() {
        assert_eq!(
            mask_times("R       0:35      2 PD 0:00 1 2026-11-30T04:41:18x"),
            format!("R       0:SS      2 PD 0:00 1 {}x", "T".repeat(19))
        );
        assert_eq!(
            mask_key("   Priority=5 Nice=0\n", "Priority"),
            "   Priority=* Nice=0\n"
        );
        assert_eq!(mask_key("XPriority=5", "Priority"), "XPriority=5");
        assert_eq!(mask_columns("A|B\n1|2\n", '|', &["B"]), "A|B\n1|*\n");
        assert_eq!(
            replace_words("irc circa irc,", "irc", "bob"),
            "bob circa bob,"
        );
    }

    /// Rows and records of jobs that lean on a missing engine go, with all their lines.
    #[test]
    fn rows_of_left_out_jobs() {
        let table = "JOBID\n   20  a\n 9 b\n21_1 c\n";
        assert_eq!(without_left_out(table), "JOBID\n 9 b\n");
        let records = "JobId=20 A=1\n   B=1\n\nJobId=9 A=1\n   B=1\n\n";
        assert_eq!(without_left_out(records), "JobId=9 A=1\n   B=1\n\n");
    }
}
