//! Column formats of squeue and sinfo: `-o "%.18i %.9P"` and `-O jobid:10,partition`.
//!
//! A format is a list of columns with text between them; what a column shows is looked up in a table of the caller. No size
//! means as long as needed; what is too long is cut. Source: squeue(1) --format, --Format.

use super::push_fit;

/// Width of an `-O` field without a size.
const NAMED_WIDTH: usize = 20;

/// What a column without a size usually needs.
const UNSIZED_WIDTH: usize = 16;

/// Durations that are shown whole when they are justified to the right, however narrow the column is.
const NEVER_CUT: [&str; 3] = ["TimeLimit", "TimeLeft", "TimeUsed"];

/// `%all`: every letter, small ones first, with bars between.
fn every_letter<R: ?Sized>(fields: &[Field<R>]) -> String {
    let mut letters: Vec<char> = fields.iter().filter_map(|field| field.letter).collect();
    letters.sort_unstable_by_key(|letter| (letter.is_ascii_uppercase(), *letter));
    let columns: Vec<String> = letters.iter().map(|letter| format!("%{letter}")).collect();
    columns.join("|")
}

/// One field that a column can show.
#[derive(Debug)]
pub struct Field<R: ?Sized> {
    /// Letter of `-o`.
    pub letter: Option<char>,
    /// Name of `-O`.
    pub name: &'static str,
    /// Heading.
    pub header: &'static str,
    /// Text of a row.
    pub value: fn(&R) -> String,
}

/// One column of a format.
#[derive(Debug)]
pub struct Column<R: ?Sized + 'static> {
    /// The field.
    pub field: &'static Field<R>,
    /// Width; 0 = as needed.
    pub width: usize,
    /// Justified to the right.
    pub right: bool,
    /// Text after it.
    pub suffix: String,
}

/// A parsed format.
#[derive(Debug)]
pub struct Layout<R: ?Sized + 'static> {
    /// Text before the first column.
    pub prefix: String,
    /// The columns.
    pub columns: Vec<Column<R>>,
}

/// A field that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField(pub String);

impl<R: ?Sized> Layout<R> {
    /// Reads `-o`. A letter that does not exist is reported, and its text stands as it is; `%all` means all of them.
    pub fn from_letters(format: &str, fields: &'static [Field<R>]) -> (Self, Vec<UnknownField>) {
        let mut layout = Self {
            prefix: String::new(),
            columns: Vec::new(),
        };
        let mut unknown = Vec::new();
        let every = every_letter(fields);
        let mut rest = if format.eq_ignore_ascii_case("%all") {
            every.as_str()
        } else {
            format
        };
        while let Some(place) = rest.find('%') {
            layout.append_text(&rest[..place]);
            rest = &rest[place + 1..];
            let (right, after) = rest
                .strip_prefix('.')
                .map_or((false, rest), |after| (true, after));
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let width = after[..digits].parse().unwrap_or(0);
            let Some(letter) = after[digits..].chars().next() else {
                if !rest.is_empty() {
                    layout.append_text(&format!("%{rest}"));
                }
                rest = "";
                break;
            };
            let whole = &rest[..rest.len() - after.len() + digits + letter.len_utf8()];
            rest = &after[digits + letter.len_utf8()..];
            match fields.iter().find(|field| field.letter == Some(letter)) {
                Some(field) => layout.columns.push(Column {
                    field,
                    width,
                    right,
                    suffix: String::new(),
                }),
                None => {
                    layout.append_text(&format!("%{whole}"));
                    unknown.push(UnknownField(letter.to_string()));
                }
            }
        }
        layout.append_text(rest);
        (layout, unknown)
    }

    fn append_text(&mut self, text: &str) {
        match self.columns.last_mut() {
            Some(column) => column.suffix.push_str(text),
            None => self.prefix.push_str(text),
        }
    }

    /// Reads `-O`. A name that does not exist is reported and left out.
    pub fn from_names(format: &str, fields: &'static [Field<R>]) -> (Self, Vec<UnknownField>) {
        let mut layout = Self {
            prefix: String::new(),
            columns: Vec::new(),
        };
        let mut unknown = Vec::new();
        for item in format.split(',').filter(|item| !item.is_empty()) {
            let (name, spec) = match item.split_once(':') {
                Some((name, spec)) => (name, Some(spec)),
                None => (item, None),
            };
            let name = name.trim();
            let Some(field) = fields
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name))
            else {
                unknown.push(UnknownField(name.to_string()));
                continue;
            };
            let column = match spec {
                None => Column {
                    field,
                    width: NAMED_WIDTH,
                    right: false,
                    suffix: String::new(),
                },
                Some(spec) => {
                    let (right, after) = spec
                        .strip_prefix('.')
                        .map_or((false, spec), |after| (true, after));
                    let digits =
                        after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                    let width = after[..digits].parse().unwrap_or(0);
                    Column {
                        field,
                        width,
                        right,
                        suffix: after[digits..].to_string(),
                    }
                }
            };
            layout.columns.push(column);
        }
        (layout, unknown)
    }

    /// The heading line.
    #[must_use]
    pub fn header(&self) -> String {
        self.line(|column| column.field.header.to_string())
    }

    /// The line of a row.
    #[must_use]
    pub fn row(&self, row: &R) -> String {
        let mut line = String::with_capacity(self.usual_length());
        line.push_str(&self.prefix);
        for column in &self.columns {
            let text = (column.field.value)(row);
            if column.right && NEVER_CUT.contains(&column.field.name) {
                line.push_str(&format!("{text:>width$}", width = column.width));
            } else {
                push_fit(&mut line, &text, column.width, column.right);
            }
            line.push_str(&column.suffix);
        }
        line
    }

    /// Bytes that most lines fit in.
    fn usual_length(&self) -> usize {
        let columns = self.columns.iter();
        let of_columns =
            columns.map(|column| column.width.max(UNSIZED_WIDTH) + column.suffix.len());
        self.prefix.len() + of_columns.sum::<usize>()
    }

    /// A line with the text of each column given by `text`.
    pub fn line(&self, text: impl Fn(&Column<R>) -> String) -> String {
        let mut line = self.prefix.clone();
        for column in &self.columns {
            push_fit(&mut line, &text(column), column.width, column.right);
            line.push_str(&column.suffix);
        }
        line
    }

    /// True when the format shows the field with this `-O` name.
    #[must_use]
    pub fn shows(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.field.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIELDS: &[Field<str>] = &[
        Field {
            letter: Some('i'),
            name: "JobId",
            header: "JOBID",
            value: |row| row.to_string(),
        },
        Field {
            letter: Some('t'),
            name: "StateCompact",
            header: "ST",
            value: |_| "PD".to_string(),
        },
    ];

    /// Forms that clients use: widths, glued fields, text between, separators after a colon.
    #[test]
    fn letters_and_names() {
        let show = |format: &str| Layout::from_letters(format, FIELDS).0.row("123456");
        assert_eq!(show("%.8i %t"), "  123456 PD");
        assert_eq!(show("%2t%10i|"), "PD123456    |");
        assert_eq!(show("%.4i"), "1234");
        assert_eq!(show("\"%i\",\"%t\""), "\"123456\",\"PD\"");
        assert_eq!(show("%i^^^%t"), "123456^^^PD");
        assert_eq!(show("%all"), "123456|PD");
        let named = |format: &str| Layout::from_names(format, FIELDS).0.row("123456");
        assert_eq!(
            named("jobid,statecompact"),
            "123456              PD                  "
        );
        assert_eq!(named("JobID:.8,StateCompact:4"), "  123456PD  ");
        assert_eq!(named("jobid:###,statecompact:###"), "123456###PD###");
        assert_eq!(named("jobid:8|"), "123456  |");
    }

    /// Unknown fields are reported, the rest is shown.
    #[test]
    fn unknown_fields() {
        let (layout, unknown) = Layout::from_names("CPUFreq,JobID:3", FIELDS);
        assert_eq!(unknown, [UnknownField("CPUFreq".to_string())]);
        assert_eq!(layout.header(), "JOB");
        let (layout, unknown) = Layout::from_letters("%i %~ %-5t %.5~|%7", FIELDS);
        assert_eq!(
            unknown,
            ["~", "-", "~"].map(|letter| UnknownField(letter.to_string()))
        );
        assert_eq!(layout.row("12"), "12 %~ %-5t %.5~|%7");
    }

    proptest::proptest! {
        /// A format is the user's text: whatever it is, it is printed or reported, and plain text stays as it is.
        #[test]
        fn any_format_is_printed(format in ".{0,40}", text in "[a-z |,]{0,20}") {
            let _ = Layout::from_letters(&format, FIELDS).0.row("1");
            let _ = Layout::from_names(&format, FIELDS).0.row("1");
            proptest::prop_assert_eq!(Layout::from_letters(&text, FIELDS).0.row("1"), text);
        }
    }
}
