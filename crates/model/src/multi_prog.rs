//! The file of `srun --multi-prog`: which ranks run which program.
//!
//! Each line names ranks (`0`, `1-3`, `4,6-7` or `*`), a program and its arguments; `#` begins a comment, a backslash at the end of
//! a line joins the next one, quotes keep blanks together. `%t` is the rank, `%o` the rank's place within its line. A rank is
//! named once, or by `*`. Pure. Source: srun(1) MULTIPLE PROGRAM CONFIGURATION.

use thiserror::Error;

use crate::array::IndexSet;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: usize,
    ranks: Option<IndexSet>,
    words: Vec<String>,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MultiProg {
    lines: Vec<Line>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MultiProgError {
    /// A line that cannot be used.
    #[error("line {line} is invalid: {cause}")]
    Line {
        /// Number, from 1.
        line: usize,
        /// What is wrong with it, as a line; may be empty.
        cause: String,
    },
    /// A rank that no line names.
    #[error("no record for task id {0}")]
    Missing(u32),
}

impl MultiProg {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// See [`MultiProgError`].
    pub fn parse(text: &str) -> Result<Self, MultiProgError> {
        let mut lines = Vec::new();
        let mut joined = String::new();
        let mut first = 0;
        for (index, raw) in text.lines().enumerate() {
            if joined.is_empty() {
                first = index + 1;
            }
            if let Some(begun) = raw.strip_suffix('\\') {
                joined.push_str(begun);
                joined.push(' ');
                continue;
            }
            joined.push_str(raw);
            let whole = std::mem::take(&mut joined);
            lines.extend(read_line(first, &whole)?);
        }
        if !joined.is_empty() {
            lines.extend(read_line(first, &joined)?);
        }
        Ok(Self { lines })
    }

    /// Checks that every one of `tasks` ranks has one program, `*` aside, and that no other rank is named.
    ///
    /// # Errors
    /// The first line that names a rank too many, or the first rank without a program.
    pub fn check(&self, tasks: u32) -> Result<(), MultiProgError> {
        let mut named = vec![false; tasks as usize];
        for line in &self.lines {
            let wrong = |cause| MultiProgError::Line {
                line: line.number,
                cause,
            };
            let highest = line.ranks.as_ref().and_then(|ranks| ranks.iter().last());
            if let Some(rank) = highest.filter(|rank| *rank >= tasks) {
                return Err(wrong(format!("Invalid task id, {rank} >= ntasks")));
            }
            for rank in line.ranks.iter().flat_map(IndexSet::iter) {
                match named.get_mut(rank as usize) {
                    None => {}
                    Some(true) => return Err(wrong(format!("Duplicate record for task {rank}"))),
                    Some(known) => *known = true,
                }
            }
        }
        match (0..tasks).find(|rank| self.arguments(*rank).is_none()) {
            Some(rank) => Err(MultiProgError::Missing(rank)),
            None => Ok(()),
        }
    }

    /// Program and arguments of a rank, with `%t` and `%o` replaced.
    #[must_use]
    pub fn arguments(&self, rank: u32) -> Option<Vec<String>> {
        let line = self
            .lines
            .iter()
            .find(|line| line.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank)))?;
        let offset = match &line.ranks {
            Some(ranks) => ranks.iter().take_while(|other| *other < rank).count(),
            None => rank as usize,
        };
        let replace = |word: &String| {
            word.replace("%t", &rank.to_string())
                .replace("%o", &offset.to_string())
        };
        Some(line.words.iter().map(replace).collect())
    }
}

fn read_line(number: usize, text: &str) -> Result<Option<Line>, MultiProgError> {
    let mut words = split_words(text);
    if words.is_empty() {
        return Ok(None);
    }
    let bad = |cause| MultiProgError::Line {
        line: number,
        cause,
    };
    if words.len() < 2 {
        return Err(bad(String::new()));
    }
    let ranks = words.remove(0);
    let ranks = match ranks.as_str() {
        "*" => None,
        _ => Some(read_ranks(&ranks).map_err(bad)?),
    };
    Ok(Some(Line {
        number,
        ranks,
        words,
    }))
}

/// Ranks, or what is wrong with them in Slurm's words.
fn read_ranks(text: &str) -> Result<IndexSet, String> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if text.contains(':') {
            return Err(format!("Invalid task range specification ({text})"));
        }
        let (Ok(low), Ok(high)) = (low.trim().parse::<u32>(), high.trim().parse::<u32>()) else {
            return Err("Invalid task range specification".to_owned());
        };
        // A rank is below the number of tasks of any step; the limit keeps a typing error from filling the memory.
        if high < low || high - low > 1 << 20 {
            return Err(format!("Invalid task range, {low}-{high}"));
        }
        ranks.extend(low..=high);
    }
    Ok(ranks.into_iter().collect())
}

/// Words separated by blanks; quotes keep blanks, a backslash keeps the next letter, `#` at the beginning of a word ends the line.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\t') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of srun(1), with its placeholders.
    #[test]
    fn manual_example() {
        let file = MultiProg::parse(
            "# srun multiple program configuration file\n\
             4-6       hostname\n\
             1,7       echo  task:%t\n\
             0,2-3     echo  offset:%o\n",
        )
        .expect("valid");
        let line = |rank| file.arguments(rank).expect("named").join(" ");
        assert_eq!(line(5), "hostname");
        assert_eq!(line(7), "echo task:7");
        assert_eq!(
            [line(0), line(2), line(3)],
            ["echo offset:0", "echo offset:1", "echo offset:2"]
        );
        assert_eq!(file.check(8), Ok(()));
        assert_eq!(file.check(9), Err(MultiProgError::Missing(8)));
    }

    /// Quotes, a joined line, the rest of the ranks, and what is no line.
    #[test]
    fn forms() {
        let file = MultiProg::parse("0 sh -c 'echo \"a  b\" #x' \\\n  tail\n* true %o # all\n")
            .expect("valid");
        assert_eq!(
            file.arguments(0).expect("named"),
            ["sh", "-c", "echo \"a  b\" #x", "tail"]
        );
        assert_eq!(file.arguments(3).expect("named"), ["true", "3"]);
        for bad in ["0", "x true", "3-1 true", "0-99999999 true"] {
            assert!(
                matches!(
                    MultiProg::parse(bad),
                    Err(MultiProgError::Line { line: 1, .. })
                ),
                "{bad}"
            );
        }
    }

    /// What a real Slurm says about ranks.
    #[test]
    fn mistakes() {
        let cause = |text: &str| match MultiProg::parse(text).and_then(|file| file.check(2)) {
            Err(MultiProgError::Line { line, cause }) => format!("{line} {cause}"),
            other => format!("{other:?}"),
        };
        assert_eq!(cause("0 a\n0 a\n"), "2 Duplicate record for task 0");
        assert_eq!(cause("0-5 a"), "1 Invalid task id, 5 >= ntasks");
        assert_eq!(cause("1-0 a"), "1 Invalid task range, 1-0");
        assert_eq!(cause("0-x a"), "1 Invalid task range specification");
        assert_eq!(cause("0:2 a"), "1 Invalid task range specification (0:2)");
        assert_eq!(cause("\n# c\n0-1\n"), "3 ");
        assert_eq!(cause("0 a\n* b"), "Ok(())");
    }
}
