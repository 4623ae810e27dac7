//! JSON of sdiag and sshare, in the form in which Slurm's commands write it: two blanks a level, `/` escaped, an empty list
//! over two lines.
//!
//! Pure: a value in, text out.

use std::fmt::Write as _;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `true`, `false`.
    Bool(bool),
    /// Whole number.
    Int(i64),
    /// Number with a fraction.
    Real(f64),
    /// Text.
    Text(String),
    /// List.
    List(Vec<Json>),
    /// Object, in this order.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Json::Text(text.into())
    }

    /// A count; too large ones become the largest.
    #[must_use]
    pub fn count(number: u64) -> Self {
        Json::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Slurm's form of a number that may be missing or without limit.
    #[must_use]
    pub fn optional(number: Option<Json>, infinite: bool, zero: Json) -> Self {
        Json::Object(vec![
            ("set", Json::Bool(number.is_some())),
            ("infinite", Json::Bool(infinite)),
            ("number", number.unwrap_or(zero)),
        ])
    }

    /// A number that is there, in that form.
    #[must_use]
    pub fn set(number: Json) -> Self {
        Self::optional(Some(number), false, Json::Int(0))
    }

    /// The whole text with a line end.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text.push('\n');
        text
    }

    fn write(&self, text: &mut String, level: usize) {
        let blanks = |text: &mut String, level: usize| {
            text.extend(std::iter::repeat_n(' ', level * 2));
        };
        match self {
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Int(value) => {
                let _ = write!(text, "{value}");
            }
            Json::Real(value) => {
                let _ = write!(text, "{value:?}");
            }
            Json::Text(value) => write_text(text, value),
            Json::List(items) => {
                text.push_str("[\n");
                for (index, item) in items.iter().enumerate() {
                    blanks(text, level + 1);
                    item.write(text, level + 1);
                    text.push_str(if index + 1 < items.len() { ",\n" } else { "\n" });
                }
                blanks(text, level);
                text.push(']');
            }
            Json::Object(fields) => {
                text.push_str("{\n");
                for (index, (name, value)) in fields.iter().enumerate() {
                    blanks(text, level + 1);
                    write_text(text, name);
                    text.push_str(": ");
                    value.write(text, level + 1);
                    text.push_str(if index + 1 < fields.len() {
                        ",\n"
                    } else {
                        "\n"
                    });
                }
                blanks(text, level);
                text.push('}');
            }
        }
    }
}

fn write_text(text: &mut String, value: &str) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '/' => text.push_str("\\/"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            control if u32::from(control) < 0x20 => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// What stands around the data: who asked what of which version.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Command line.
    pub command: Vec<String>,
    /// User.
    pub user: String,
    /// Group.
    pub group: String,
    /// Cluster.
    pub cluster: String,
    /// AccountingStorageType.
    pub storage: String,
}

impl Envelope {
    /// The answer with its data.
    #[must_use]
    pub fn around(&self, name: &'static str, data: Json) -> Json {
        let texts = |list: &[String]| Json::List(list.iter().map(Json::text).collect());
        let release = crate::commands::SLURM_VERSION
            .rsplit(' ')
            .next()
            .unwrap_or_default();
        let part = |index: usize| Json::text(release.split('.').nth(index).unwrap_or("0"));
        let meta = Json::Object(vec![
            (
                "plugin",
                Json::Object(vec![
                    ("type", Json::text("")),
                    ("name", Json::text("")),
                    ("data_parser", Json::text("data_parser/v0.0.44")),
                    ("accounting_storage", Json::text(&self.storage)),
                ]),
            ),
            (
                "client",
                Json::Object(vec![
                    ("source", Json::text("")),
                    ("user", Json::text(&self.user)),
                    ("group", Json::text(&self.group)),
                ]),
            ),
            ("command", texts(&self.command)),
            (
                "slurm",
                Json::Object(vec![
                    (
                        "version",
                        Json::Object(vec![
                            ("major", part(0)),
                            ("micro", part(2)),
                            ("minor", part(1)),
                        ]),
                    ),
                    ("release", Json::text(release)),
                    ("cluster", Json::text(&self.cluster)),
                ]),
            ),
        ]);
        Json::Object(vec![
            (name, data),
            ("meta", meta),
            ("errors", Json::List(Vec::new())),
            ("warnings", Json::List(Vec::new())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Escapes, empty lists and numbers as Slurm writes them.
    #[test]
    fn form() {
        let value = Json::Object(vec![
            ("name", Json::text("fs/disk \"x\"\n")),
            ("value", Json::set(Json::Int(33_300))),
            ("factor", Json::Real(1.0)),
            ("list", Json::List(vec![Json::text("a"), Json::Bool(false)])),
            ("errors", Json::List(Vec::new())),
        ]);
        assert_eq!(
            value.pretty(),
            "{\n  \"name\": \"fs\\/disk \\\"x\\\"\\n\",\n  \"value\": {\n    \"set\": true,\n    \"infinite\": false,\n    \
             \"number\": 33300\n  },\n  \"factor\": 1.0,\n  \"list\": [\n    \"a\",\n    false\n  ],\n  \"errors\": [\n  ]\n}\n"
        );
    }
}
