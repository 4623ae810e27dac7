//! The file of `srun --multi-prog`: which ranks run which program.
//!
//! Each line names ranks (`0`, `1-3`, `4,6-7` or `*`), a program and its arguments; `#` begins a comment, a backslash at the end of
//! a line joins the next one, quotes keep blanks together. `%t` is the rank, `%o` the rank's place within its line. The first line
//! that names a rank rules it. Pure. Source: srun(1) MULTIPLE PROGRAM CONFIGURATION.

use thiserror::Error;

use crate::array::IndexSet;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
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
    /// A line without ranks or without a program.
    #[error("Line {line} is not \"ranks program arguments\": {text}")]
    Line {
        /// Number, from 1.
        line: usize,
        /// What stands there.
        text: String,
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

    /// Checks that every one of `tasks` ranks has a program.
    ///
    /// # Errors
    /// The first rank without one.
    pub fn check(&self, tasks: u32) -> Result<(), MultiProgError> {
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
    let bad = || MultiProgError::Line {
        line: number,
        text: text.trim().to_owned(),
    };
    if words.len() < 2 {
        return Err(bad());
    }
    let ranks = words.remove(0);
    let ranks = match ranks.as_str() {
        "*" => None,
        _ => Some(read_ranks(&ranks).ok_or_else(bad)?),
    };
    Ok(Some(Line { ranks, words }))
}

fn read_ranks(text: &str) -> Option<IndexSet> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        // A rank is below the number of tasks of any step; the limit keeps a typing error from filling the memory.
        if high < low || high - low > 1 << 20 {
            return None;
        }
        ranks.extend(low..=high);
    }
    Some(ranks.into_iter().collect())
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
}
