//! Hostlist expressions: `n[1-3,7],gpu[01-16]-ib` to names and back.
//!
//! Pure text work: no name lookup, no I/O. Limits: an expression may name at most [`NAMES_MAX`] hosts, so that a slip such as
//! `n[1-999999999]` is an error and not a machine out of memory. Invariant: `parse_hostlist(collapse_hostlist(names)) == names`
//! for names without brackets, commas and blanks. Zero padding is significant (`n01` is not `n1`). Duplicates are kept.
//! Source: `scontrol(1)` (show hostlist, hostnames), `slurm.conf(5)` (NodeName).

use std::fmt::Write as _;

/// The most names that one expression may mean.
pub const NAMES_MAX: usize = 1_000_000;
/// Bytes that all names of one term may have together.
const TEXT_BYTES_MAX: usize = 128 << 20;
/// Brackets in one term; each goes one call deeper.
const BRACKETS_MAX: usize = 64;
/// The most digits of a number inside a name that are treated as a number.
const DIGITS_MAX: usize = 18;

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// `[` without `]`, `]` without `[`, or one bracket in another.
    #[error("invalid hostlist `{expression}`: brackets must be closed and may not be nested")]
    Brackets {
        /// The whole expression.
        expression: String,
    },
    /// Something in brackets that is neither a number nor a range.
    #[error(
        "invalid hostlist `{expression}`: `{part}` in brackets is neither a number nor a range LOW-HIGH"
    )]
    Range {
        /// The whole expression.
        expression: String,
        /// The offending part.
        part: String,
    },
    /// A range whose end lies before its start.
    #[error("invalid hostlist `{expression}`: range `{part}` ends before it begins")]
    Backwards {
        /// The whole expression.
        expression: String,
        /// The offending part.
        part: String,
    },
    /// More names than [`NAMES_MAX`].
    #[error(
        "hostlist `{expression}` means more than {NAMES_MAX} names, or too long ones; split it or correct the range"
    )]
    TooMany {
        /// The whole expression, shortened.
        expression: String,
    },
}

/// One piece of a term: literal text or the alternatives in a bracket.
enum Piece<'a> {
    Literal(&'a str),
    Ranges(Vec<Range>),
}

#[derive(Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

/// Expands an expression to its names, in the order written, duplicates kept.
///
/// Terms are separated by commas or blanks; an empty expression gives no names. In a range the width of the lower end rules the
/// padding.
///
/// # Errors
/// Unbalanced or nested brackets, something that is no range, or more than [`NAMES_MAX`] names.
///
/// ```
/// let names = sluice_model::hostlist::parse_hostlist("n[09-10],login").unwrap();
/// assert_eq!(names, ["n09", "n10", "login"]);
/// ```
pub fn parse_hostlist(expression: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    for term in split_terms(expression)? {
        expand_term(expression, term, &mut names)?;
    }
    Ok(names)
}

/// Splits at commas and blanks outside brackets.
fn split_terms(expression: &str) -> Result<Vec<&str>, HostlistError> {
    let brackets = || HostlistError::Brackets {
        expression: shorten(expression),
    };
    let mut terms = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (i, c) in expression.char_indices() {
        match c {
            '[' if inside => return Err(brackets()),
            '[' => inside = true,
            ']' if !inside => return Err(brackets()),
            ']' => inside = false,
            c if !inside && (c == ',' || c.is_whitespace()) => {
                terms.push(&expression[start..i]);
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    if inside {
        return Err(brackets());
    }
    terms.push(&expression[start..]);
    terms.retain(|t| !t.is_empty());
    Ok(terms)
}

fn expand_term(expression: &str, term: &str, names: &mut Vec<String>) -> Result<(), HostlistError> {
    let mut pieces = Vec::new();
    let mut rest = term;
    let mut count: usize = 1;
    while let Some(open) = rest.find('[') {
        if open > 0 {
            pieces.push(Piece::Literal(&rest[..open]));
        }
        // `split_terms` has seen to it that each bracket is closed.
        let close = rest[open..].find(']').map_or(rest.len(), |c| open + c);
        let ranges = parse_ranges(expression, &rest[open + 1..close])?;
        let alternatives = ranges.iter().fold(0usize, |n, r| {
            n.saturating_add((r.high - r.low) as usize)
                .saturating_add(1)
        });
        count = count.saturating_mul(alternatives);
        pieces.push(Piece::Ranges(ranges));
        rest = rest.get(close + 1..).unwrap_or("");
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    let brackets = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Ranges(_)))
        .count();
    let literal: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Literal(text) => text.len(),
            Piece::Ranges(_) => 0,
        })
        .sum();
    // Of the longest name; an expression that is one name may be as long as it likes.
    let bytes = literal.saturating_add(brackets * DIGITS_MAX);
    if names.len().saturating_add(count) > NAMES_MAX
        || brackets > BRACKETS_MAX
        || count > 1 && count.saturating_mul(bytes) > TEXT_BYTES_MAX
    {
        return Err(HostlistError::TooMany {
            expression: shorten(expression),
        });
    }
    expand_pieces(&pieces, String::new(), names);
    Ok(())
}

/// The product of all alternatives; the last bracket turns fastest.
fn expand_pieces(pieces: &[Piece<'_>], prefix: String, names: &mut Vec<String>) {
    match pieces.split_first() {
        None => names.push(prefix),
        Some((Piece::Literal(text), rest)) => expand_pieces(rest, prefix + text, names),
        Some((Piece::Ranges(ranges), rest)) => {
            for range in ranges {
                for n in range.low..=range.high {
                    expand_pieces(
                        rest,
                        format!("{prefix}{n:0width$}", width = range.width),
                        names,
                    );
                }
            }
        }
    }
}

fn parse_ranges(expression: &str, inner: &str) -> Result<Vec<Range>, HostlistError> {
    inner
        .split(',')
        .map(|part| parse_range(expression, part.trim()))
        .collect()
}

fn parse_range(expression: &str, part: &str) -> Result<Range, HostlistError> {
    let bad = || HostlistError::Range {
        expression: shorten(expression),
        part: part.to_owned(),
    };
    let number = |text: &str| -> Option<u64> {
        let plain = !text.is_empty()
            && text.len() <= DIGITS_MAX
            && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    let (low, high) = part.split_once('-').unwrap_or((part, part));
    let range = Range {
        low: number(low).ok_or_else(bad)?,
        high: number(high).ok_or_else(bad)?,
        width: low.len(),
    };
    if range.low > range.high {
        return Err(HostlistError::Backwards {
            expression: shorten(expression),
            part: part.to_owned(),
        });
    }
    Ok(range)
}

/// Keeps error messages readable when somebody passes a whole file.
fn shorten(expression: &str) -> String {
    const SHOWN_MAX: usize = 120;
    if expression.chars().count() <= SHOWN_MAX {
        return expression.to_owned();
    }
    let mut text: String = expression.chars().take(SHOWN_MAX).collect();
    text.push('…');
    text
}

/// Splits a name into the part before its last digits and those digits.
fn split_number(name: &str) -> (&str, &str) {
    let digits = name
        .bytes()
        .rev()
        .take(DIGITS_MAX)
        .take_while(u8::is_ascii_digit)
        .count();
    name.split_at(name.len() - digits)
}

/// Writes names as a hostlist expression: order and duplicates are kept, runs of consecutive numbers become ranges, and
/// neighbours with the same prefix share a bracket.
///
/// ```
/// assert_eq!(sluice_model::hostlist::collapse_hostlist(["n1", "n2", "n3", "n7", "x"]), "n[1-3,7],x");
/// ```
pub fn collapse_hostlist<I>(names: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut writer = Collapser::default();
    for name in names {
        writer.push(name.as_ref());
    }
    writer.finish()
}

/// As [`collapse_hostlist`] with the names sorted (by prefix, then number) and each named once.
pub fn collapse_sorted<I>(names: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut names: Vec<String> = names.into_iter().map(|n| n.as_ref().to_owned()).collect();
    sort_names(&mut names);
    names.dedup();
    collapse_hostlist(names)
}

/// Sorts names as Slurm lists nodes: by prefix, names without number first, padded widths apart, then by number.
pub fn sort_names(names: &mut [String]) {
    names.sort_by(|a, b| name_order(a, b));
}

/// The order of [`sort_names`].
#[must_use]
pub fn name_order(a: &str, b: &str) -> std::cmp::Ordering {
    sort_key(a).cmp(&sort_key(b)).then_with(|| a.cmp(b))
}

fn sort_key(name: &str) -> (&str, bool, usize, u64) {
    let (prefix, digits) = split_number(name);
    let padded_width = if digits.len() > 1 && digits.starts_with('0') {
        digits.len()
    } else {
        0
    };
    (
        prefix,
        !digits.is_empty(),
        padded_width,
        digits.parse().unwrap_or(0),
    )
}

/// A group of ranges under one prefix that is being built.
#[derive(Default)]
struct Collapser {
    out: String,
    prefix: String,
    ranges: Vec<Range>,
}

impl Collapser {
    fn push(&mut self, name: &str) {
        let (prefix, digits) = split_number(name);
        let Ok(number) = digits.parse::<u64>() else {
            self.flush();
            self.separate();
            self.out.push_str(name);
            return;
        };
        if self.prefix != prefix {
            self.flush();
            self.prefix = prefix.to_owned();
        }
        if let Some(last) = self.ranges.last_mut() {
            // The range's width rules how the number will be written on expansion: it must come out as it went in.
            let continues = number == last.high + 1
                && format!("{number:0width$}", width = last.width) == digits;
            if continues {
                last.high = number;
                return;
            }
        }
        self.ranges.push(Range {
            low: number,
            high: number,
            width: digits.len(),
        });
    }

    fn separate(&mut self) {
        if !self.out.is_empty() {
            self.out.push(',');
        }
    }

    fn flush(&mut self) {
        let ranges = std::mem::take(&mut self.ranges);
        if ranges.is_empty() {
            return;
        }
        self.separate();
        self.out.push_str(&self.prefix);
        let single = ranges.len() == 1 && ranges[0].low == ranges[0].high;
        if !single {
            self.out.push('[');
        }
        for (i, r) in ranges.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(self.out, "{comma}{:0width$}", r.low, width = r.width);
            if r.high > r.low {
                let _ = write!(self.out, "-{:0width$}", r.high, width = r.width);
            }
        }
        if !single {
            self.out.push(']');
        }
    }

    fn finish(mut self) -> String {
        self.flush();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expansion by the manual's rules: order, padding, several brackets, blanks between terms.
    #[test]
    fn expands() {
        let check = |expression: &str, names: &[&str]| {
            assert_eq!(
                parse_hostlist(expression).as_deref(),
                Ok(names.map_owned().as_slice()),
                "{expression}"
            );
        };
        check("", &[]);
        check("n1", &["n1"]);
        check("n[1-3,7]", &["n1", "n2", "n3", "n7"]);
        check("n[01-03]", &["n01", "n02", "n03"]);
        check("n[098-101]", &["n098", "n099", "n100", "n101"]);
        check("n[9-11]", &["n9", "n10", "n11"]);
        check(
            "r[0-1]n[00-01]-ib",
            &["r0n00-ib", "r0n01-ib", "r1n00-ib", "r1n01-ib"],
        );
        check("a,b c[1], d", &["a", "b", "c1", "d"]);
        check("n1,n1", &["n1", "n1"]);
        check("[7000-7002]", &["7000", "7001", "7002"]);
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }
    impl MapOwned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|s| (*s).to_owned()).collect()
        }
    }

    /// Wrong expressions are refused, huge ones too, before any memory is taken.
    #[test]
    fn refuses() {
        for bad in [
            "n[1-3",
            "n]1",
            "n[1[2]]",
            "n[]",
            "n[a]",
            "n[1-]",
            "n[3-1]",
            "n[1-2-3]",
            "n[-1]",
            "n[1,,2]",
            "n[0-9999999999999999999]",
        ] {
            assert!(parse_hostlist(bad).is_err(), "{bad} was accepted");
        }
        assert!(matches!(
            parse_hostlist("n[1-1000001]"),
            Err(HostlistError::TooMany { .. })
        ));
        assert!(matches!(
            parse_hostlist("a[0-9999]b[0-9999]"),
            Err(HostlistError::TooMany { .. })
        ));
        // Few names, but each is long or deep.
        for long in [
            format!("a[1-65535]{}", "x[3]".repeat(2_000)),
            "x[3]".repeat(100_000),
            format!("a[1-65535]{}", "x".repeat(10_000)),
        ] {
            assert!(matches!(
                parse_hostlist(&long),
                Err(HostlistError::TooMany { .. })
            ));
        }
        assert!(matches!(
            parse_hostlist("n[1-999999999999999999]"),
            Err(HostlistError::TooMany { .. })
        ));
        assert_eq!(
            parse_hostlist("n[1-1000000]").map(|n| n.len()),
            Ok(1_000_000)
        );
    }

    /// The forms that `scontrol show hostlist` prints.
    #[test]
    fn collapses() {
        let check = |names: &[&str], text: &str| assert_eq!(collapse_hostlist(names), text);
        check(&["n1", "n2", "n3", "n7"], "n[1-3,7]");
        check(&["n1", "n3", "n2"], "n[1,3,2]");
        check(&["n9", "n10"], "n[9-10]");
        check(&["n09", "n10"], "n[09-10]");
        check(&["n8", "n09"], "n[8,09]");
        check(&["n1"], "n1");
        check(&["n1", "n1"], "n[1,1]");
        check(&["login", "n1", "n2", "gpu", "n3"], "login,n[1-2],gpu,n3");
        check(&["a1-ib", "a2-ib"], "a1-ib,a2-ib");
        check(&["r0n0", "r0n1", "r1n0", "r1n1"], "r0n[0-1],r1n[0-1]");
        check(&[], "");
        assert_eq!(collapse_sorted(["n7", "n2", "n3", "n1", "n2"]), "n[1-3,7]");
        assert_eq!(
            collapse_sorted(["n10", "b2", "n9", "b", "n09"]),
            "b,b2,n[9-10,09]"
        );
    }

    proptest! {
        /// What is collapsed expands to the same names in the same order.
        #[test]
        fn round_trip(names in proptest::collection::vec("[a-z]{0,2}[0-9]{0,1}[a-z.-]{0,2}[0-9]{1,20}|[a-z]{1,4}", 0..60)) {
            prop_assert_eq!(parse_hostlist(&collapse_hostlist(&names)), Ok(names));
        }

        /// The sorted form names each host once and nothing else.
        #[test]
        fn sorted_keeps_the_set(numbers in proptest::collection::vec(0u32..300, 0..60)) {
            let names: Vec<String> = numbers.iter().map(|n| format!("n{n}")).collect();
            let mut unique = numbers.clone();
            unique.sort_unstable();
            unique.dedup();
            let expected: Vec<String> = unique.iter().map(|n| format!("n{n}")).collect();
            prop_assert_eq!(parse_hostlist(&collapse_sorted(&names)), Ok(expected));
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text_is_an_answer(text in "[a-c0-3,\\[\\] é-]{0,40}") {
            let _ = parse_hostlist(&text);
        }
    }
}
