//! Text of slurm.conf and its kin to statements: comments, continuation lines, quotes, Include.
//!
//! Knows the grammar, not the keys. A `#` begins a comment unless written `\#`; a trailing backslash continues the line; other
//! backslashes protect the next character; a value with blanks stands in double quotes. Invariant: [`quote`] writes a value so that it is
//! read back as it was. Source: `slurm.conf(5)`.

use super::files::{Files, folder_of, join};
use crate::diagnostic::{Detail, Diagnostics, Origin};
use std::sync::Arc;

/// Files may include files that include files; deeper than this is a circle.
const INCLUDE_DEPTH_MAX: u32 = 20;

/// One `Key=Value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub key: String,
    pub value: String,
    pub origin: Origin,
}

impl Pair {
    pub fn new(key: &str, value: impl Into<String>, origin: &Origin) -> Self {
        Pair {
            key: key.to_owned(),
            value: value.into(),
            origin: origin.clone(),
        }
    }
}

/// All pairs of one logical line.
pub(crate) type Statement = Vec<Pair>;

/// A file with everything that it includes.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub statements: Vec<Statement>,
    /// The text with each Include replaced by what it brings.
    pub resolved: String,
    /// Whether an included file could not be read; then what is missing is not a fault of its own.
    pub incomplete: bool,
}

/// Reads a file and what it includes.
pub(crate) fn read_file(files: &dyn Files, path: &str, diags: &mut Diagnostics) -> Text {
    let mut text = Text::default();
    match files.read(path) {
        Ok(content) => Reader {
            files,
            diags,
            text: &mut text,
            cluster_name: None,
        }
        .read(path, &content, 0),
        Err(why) => {
            diags.error(
                &Origin::file(path),
                Detail::default(),
                format!("cannot be read: {why}"),
            );
            text.incomplete = true;
        }
    }
    text
}

struct Reader<'a> {
    files: &'a dyn Files,
    diags: &'a mut Diagnostics,
    text: &'a mut Text,
    /// For `%c` in Include.
    cluster_name: Option<String>,
}

impl Reader<'_> {
    fn read(&mut self, path: &str, content: &str, depth: u32) {
        let file: Arc<str> = path.into();
        for line in logical_lines(content) {
            let origin = Origin::line(&file, line.number);
            if let Some(target) = include_target(&line.text) {
                self.include(&origin, target, depth);
                continue;
            }
            self.text.resolved.push_str(line.source);
            self.text.resolved.push('\n');
            let statement = split_pairs(&line.text, &origin, self.diags);
            if let Some(name) = statement
                .iter()
                .find(|p| p.key.eq_ignore_ascii_case("ClusterName"))
            {
                self.cluster_name = Some(name.value.to_ascii_lowercase());
            }
            if !statement.is_empty() {
                self.text.statements.push(statement);
            }
        }
    }

    fn include(&mut self, origin: &Origin, target: &str, depth: u32) {
        let detail = || Detail::pair("Include", target);
        if depth >= INCLUDE_DEPTH_MAX {
            self.diags.error(
                origin,
                detail(),
                "files include each other in a circle or too deeply",
            );
            return;
        }
        let name = self.cluster_name.clone().unwrap_or_default();
        let path = join(folder_of(&origin.file), &target.replace("%c", &name));
        let matches = match self.files.glob(&path) {
            Ok(matches) => matches,
            Err(why) => {
                return self
                    .diags
                    .error(origin, detail(), format!("not a valid pattern: {why}"));
            }
        };
        for path in matches {
            match self.files.read(&path) {
                Ok(content) => self.read(&path, &content, depth + 1),
                Err(why) => {
                    self.diags
                        .error(origin, detail(), format!("{path} cannot be read: {why}"));
                    self.text.incomplete = true;
                }
            }
        }
    }
}

/// The path of an `Include` line.
fn include_target(line: &str) -> Option<&str> {
    let line = line.trim();
    let word = line.get(..7)?;
    let rest = &line[7..];
    (word.eq_ignore_ascii_case("include")
        && rest.starts_with(char::is_whitespace)
        && !rest.trim_start().starts_with('='))
    .then(|| rest.trim().trim_matches('"'))
}

struct LogicalLine<'a> {
    /// Number of its first line.
    number: u32,
    /// Without comment, continued lines joined, escapes resolved.
    text: String,
    /// As in the file.
    source: &'a str,
}

/// Joins continued lines.
fn logical_lines(content: &str) -> Vec<LogicalLine<'_>> {
    let mut lines = Vec::new();
    let mut pending: Option<(u32, String, usize)> = None;
    let mut offset = 0;
    for (index, raw) in content.split('\n').enumerate() {
        let start = offset;
        offset += raw.len() + 1;
        let body = strip_comment(raw.strip_suffix('\r').unwrap_or(raw));
        let (number, mut text, from) =
            pending
                .take()
                .unwrap_or((index as u32 + 1, String::new(), start));
        match strip_continuation(body) {
            Some(head) => {
                text.push_str(head);
                pending = Some((number, text, from));
            }
            None => {
                text.push_str(body);
                let source = content[from..start + raw.len()].trim_end_matches('\r');
                lines.push(LogicalLine {
                    number,
                    text: resolve_escapes(&text),
                    source,
                });
            }
        }
    }
    if let Some((number, text, from)) = pending {
        // The file ends with a backslash: the line is as it stands.
        lines.push(LogicalLine {
            number,
            text: resolve_escapes(&text),
            source: content[from..].trim_end_matches(['\\', '\r', '\n', ' ']),
        });
    }
    // The empty piece after the last line feed is not a line.
    if lines.last().is_some_and(|l| l.source.is_empty()) {
        lines.pop();
    }
    lines
}

/// Cuts at the first `#` that no backslash protects.
fn strip_comment(line: &str) -> &str {
    let mut escaped = false;
    for (i, c) in line.char_indices() {
        match c {
            '\\' => escaped = !escaped,
            '#' if !escaped => return &line[..i],
            _ => escaped = false,
        }
    }
    line
}

/// The line without its final backslash, if it has one that is not itself protected.
fn strip_continuation(line: &str) -> Option<&str> {
    let trimmed = line.trim_end();
    let backslashes = trimmed.bytes().rev().take_while(|b| *b == b'\\').count();
    (backslashes % 2 == 1).then(|| &trimmed[..trimmed.len() - 1])
}

/// A backslash gives way to the character that it protects. A quote that was protected is not the end of a value, so it is kept apart
/// until the pairs are split.
fn resolve_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('"') => out.push(PROTECTED_QUOTE),
                Some(next) => out.push(next),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

/// Stands for `\"` between the two steps; a private-use character that no configuration contains.
const PROTECTED_QUOTE: char = '\u{F8FF}';

/// Splits a logical line into pairs; what is no pair is reported.
fn split_pairs(line: &str, origin: &Origin, diags: &mut Diagnostics) -> Statement {
    let mut statement = Statement::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let key_end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(rest.len());
        let key = &rest[..key_end];
        let after = rest[key_end..].trim_start();
        let Some(after) = after.strip_prefix('=').filter(|_| !key.is_empty()) else {
            let word = rest.split_whitespace().next().unwrap_or(rest);
            let detail = Detail {
                key: None,
                value: Some(word),
                hint: Some("write Key=Value; put a value with blanks in double quotes".to_owned()),
            };
            diags.error(origin, detail, "is not of the form Key=Value");
            rest = rest[word.len()..].trim_start();
            continue;
        };
        let after = after.trim_start();
        let (value, remaining) = match after.strip_prefix('"') {
            Some(quoted) => match quoted.find('"') {
                Some(end) => (&quoted[..end], &quoted[end + 1..]),
                None => {
                    diags.error(
                        origin,
                        Detail::pair(key, quoted),
                        "the double quote is not closed",
                    );
                    (quoted, "")
                }
            },
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        if value.is_empty() && !after.starts_with('"') {
            diags.error(
                origin,
                Detail::key(key).hint("leave the key out, or write \"\""),
                "has no value",
            );
        } else {
            statement.push(Pair::new(key, value.replace(PROTECTED_QUOTE, "\""), origin));
        }
        if after.starts_with('"')
            && !remaining.is_empty()
            && !remaining.starts_with(char::is_whitespace)
        {
            let word = remaining.split_whitespace().next().unwrap_or(remaining);
            diags.error(
                origin,
                Detail::pair(key, word),
                "follows the closing quote without a blank",
            );
            rest = remaining[word.len()..].trim_start();
            continue;
        }
        rest = remaining.trim_start();
    }
    statement
}

/// Writes a value so that it is read back unchanged: quoted when it has blanks or is empty, `#`, `\` and `"` protected.
pub(crate) fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    let quoted = value.is_empty() || value.contains(char::is_whitespace);
    if quoted {
        out.push('"');
    }
    for c in value.chars() {
        if matches!(c, '#' | '\\' | '"') {
            out.push('\\');
        }
        out.push(c);
    }
    if quoted {
        out.push('"');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{BundleFile, ConfigBundle};
    use crate::slurm::files::InBundle;
    use proptest::prelude::*;

    fn read(files: &[(&str, &str)]) -> (Vec<(String, String, u32)>, Vec<String>, String) {
        let bundle = ConfigBundle::new(
            files
                .iter()
                .map(|(n, c)| BundleFile {
                    name: (*n).into(),
                    content: (*c).into(),
                })
                .collect(),
        );
        let mut diags = Diagnostics::default();
        let text = read_file(&InBundle(&bundle), files[0].0, &mut diags);
        let pairs = text
            .statements
            .into_iter()
            .flatten()
            .map(|p| (p.key, p.value, p.origin.line))
            .collect();
        (
            pairs,
            diags
                .into_sorted()
                .iter()
                .map(ToString::to_string)
                .collect(),
            text.resolved,
        )
    }

    fn pair(key: &str, value: &str, line: u32) -> (String, String, u32) {
        (key.into(), value.into(), line)
    }

    /// The grammar: comments, continuation, quotes, blanks around `=`, escapes.
    #[test]
    fn grammar() {
        let source = "# head\nClusterName = c # tail\nNodeName=n[1-2] CPUs=4 \\\n  Reason=\"bad fan\" \\ \n\nA=x\\#y\r\nB=\"\"\nC=a\\\\b\n";
        let (pairs, faults, _) = read(&[("s", source)]);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            pairs,
            [
                pair("ClusterName", "c", 2),
                pair("NodeName", "n[1-2]", 3),
                pair("CPUs", "4", 3),
                pair("Reason", "bad fan", 3),
                pair("A", "x#y", 6),
                pair("B", "", 7),
                pair("C", "a\\b", 8)
            ]
        );
    }

    /// Each fault is named with its line and reading goes on.
    #[test]
    fn faults() {
        let (pairs, faults, _) =
            read(&[("s", "NodeName=n1 REPLACE_IT State=UP\nA=\nB=\"x\n=3\nC=1\n")]);
        assert_eq!(
            pairs,
            [
                pair("NodeName", "n1", 1),
                pair("State", "UP", 1),
                pair("B", "x", 3),
                pair("C", "1", 5)
            ]
        );
        let lines: Vec<&str> = faults
            .iter()
            .map(|f| f.split(" (").next().unwrap_or(""))
            .collect();
        assert_eq!(
            lines,
            [
                "s:1: error: `REPLACE_IT`: is not of the form Key=Value",
                "s:2: error: A: has no value",
                "s:3: error: B=x: the double quote is not closed",
                "s:4: error: `=3`: is not of the form Key=Value"
            ]
        );
    }

    /// Includes: relative to the including file, globs, %c, missing files, circles.
    #[test]
    fn includes() {
        let (pairs, faults, resolved) = read(&[
            (
                "d/s",
                "ClusterName=Big\nInclude sub/%c.conf\ninclude parts/*.conf\nZ=1\n",
            ),
            ("d/sub/big.conf", "A=1\n"),
            ("d/parts/2.conf", "C=3"),
            ("d/parts/1.conf", "B=2\n"),
        ]);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            pairs.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(),
            ["ClusterName", "A", "B", "C", "Z"]
        );
        assert_eq!(resolved, "ClusterName=Big\nA=1\nB=2\nC=3\nZ=1\n");
        let (_, faults, _) = read(&[("s", "Include nosuch.conf\n")]);
        assert!(
            faults[0].starts_with("s:1: error: Include=nosuch.conf: nosuch.conf cannot be read"),
            "{faults:?}"
        );
        let (_, faults, _) = read(&[("s", "Include s\n")]);
        assert!(faults[0].contains("circle"), "{faults:?}");
    }

    proptest! {
        /// Any value that is written is read back.
        #[test]
        fn quote_round_trip(values in proptest::collection::vec("[ -~é]{0,30}", 1..5)) {
            let line: Vec<String> = values.iter().enumerate().map(|(i, v)| format!("K{i}={}", quote(v))).collect();
            let (pairs, faults, _) = read(&[("s", &line.join(" "))]);
            prop_assert_eq!(faults, Vec::<String>::new());
            prop_assert_eq!(pairs.into_iter().map(|p| p.1).collect::<Vec<_>>(), values);
        }

        /// No text makes the reader panic, and every pair has a key.
        #[test]
        fn any_text_is_an_answer(text in "[A-C=\" \\\\#\n\r0-2é]{0,60}") {
            let (pairs, _, _) = read(&[("s", &text)]);
            prop_assert!(pairs.iter().all(|p| !p.0.is_empty()));
        }
    }
}
