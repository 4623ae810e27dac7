//! YAML as Slurm writes it: block style, a tag at every value, one document with `%YAML 1.1` before and `...` after it.
//!
//! Texts stand plain where YAML allows it and are folded at blanks after column 80; else they are quoted. Lists stand at the
//! indentation of their key.

use std::io::{self, Write};

use super::float::push_float;
use super::{BUFFER_BYTES, Sink};

/// Column after which a plain text goes on in the next line.
const FOLD_COLUMN: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    List,
}

struct Container {
    kind: Kind,
    /// Blanks before its keys or dashes.
    indent: usize,
    /// It has an entry; its tag and line end have been written.
    open: bool,
}

/// Writes YAML.
pub struct Yaml<W: Write> {
    out: W,
    failure: Option<io::Error>,
    text: String,
    stack: Vec<Container>,
}

impl<W: Write> Yaml<W> {
    /// Begins a document.
    pub fn new(out: W) -> Self {
        Self {
            out,
            failure: None,
            text: String::from("%YAML 1.1\n--- "),
            stack: Vec::new(),
        }
    }

    /// Ends the document and hands everything on.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.push_str("...\n\n");
        self.hand_on();
        match self.failure {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn hand_on(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.out.write_all(self.text.as_bytes())
        {
            self.failure = Some(error);
        }
        self.text.clear();
    }

    /// Writes the tag of the innermost container when its first entry comes, and the indentation of an entry.
    fn entry(&mut self) {
        let Some(container) = self.stack.last_mut() else {
            return;
        };
        if !container.open {
            container.open = true;
            self.text.push_str(match container.kind {
                Kind::Map => "!!map\n",
                Kind::List => "!!seq\n",
            });
        }
        self.text.extend(std::iter::repeat_n(' ', container.indent));
    }

    /// A value of a list begins with a dash; that of a key stands after it.
    fn before_value(&mut self) {
        if self
            .stack
            .last()
            .is_some_and(|container| container.kind == Kind::List)
        {
            self.entry();
            self.text.push_str("- ");
        }
    }

    fn begin(&mut self, kind: Kind) {
        self.before_value();
        let indent = match (self.stack.last(), kind) {
            (None, _) => 0,
            (Some(outer), Kind::List) if outer.kind == Kind::Map => outer.indent,
            (Some(outer), _) => outer.indent + 2,
        };
        self.stack.push(Container {
            kind,
            indent,
            open: false,
        });
    }

    fn end(&mut self) {
        if let Some(container) = self.stack.pop()
            && !container.open
        {
            self.text.push_str(match container.kind {
                Kind::Map => "!!map {}\n",
                Kind::List => "!!seq []\n",
            });
        }
        if self.text.len() >= BUFFER_BYTES {
            self.hand_on();
        }
    }

    fn scalar(&mut self, tag: &str, text: &str) {
        self.before_value();
        self.text.push_str(tag);
        self.text.push(' ');
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A plain text; long ones are folded at blanks.
    fn plain(&mut self, text: &str) {
        let line_start = self.text.rfind('\n').map_or(0, |place| place + 1);
        let mut column = self.text[line_start..].chars().count();
        let indent = self.stack.last().map_or(0, |container| container.indent) + 2;
        let mut letters = text.chars().peekable();
        let mut after_blank = false;
        while let Some(letter) = letters.next() {
            let blank = letter == ' ';
            if blank && !after_blank && column > FOLD_COLUMN && letters.peek() != Some(&' ') {
                self.text.push('\n');
                self.text.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            } else {
                self.text.push(letter);
                column += 1;
            }
            after_blank = blank;
        }
    }
}

/// How a text may stand.
#[derive(PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

fn quotes(text: &str) -> Quotes {
    if text.chars().any(|letter| !(' '..='~').contains(&letter)) {
        return Quotes::Double;
    }
    let first_indicator = text.starts_with([
        '#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`',
    ]);
    let alone = |place: usize| text[place + 1..].is_empty() || text[place + 1..].starts_with(' ');
    let dash = text.starts_with(['-', '?']) && alone(0);
    let colon = text.match_indices(':').any(|(place, _)| alone(place));
    let document = text.starts_with("---") || text.starts_with("...");
    if first_indicator
        || dash
        || colon
        || document
        || text.contains(" #")
        || text.starts_with(' ')
        || text.ends_with(' ')
    {
        Quotes::Single
    } else {
        Quotes::None
    }
}

impl<W: Write> Sink for Yaml<W> {
    fn begin_map(&mut self) {
        self.begin(Kind::Map);
    }

    fn end_map(&mut self) {
        self.end();
    }

    fn begin_list(&mut self) {
        self.begin(Kind::List);
    }

    fn end_list(&mut self) {
        self.end();
    }

    fn key(&mut self, key: &'static str) {
        self.entry();
        self.text.push_str("!!str ");
        self.text.push_str(key);
        self.text.push_str(": ");
    }

    fn string(&mut self, text: &str) {
        self.before_value();
        self.text.push_str("!!str");
        if !text.is_empty() {
            self.text.push(' ');
            match quotes(text) {
                Quotes::None => self.plain(text),
                Quotes::Single => {
                    self.text.push('\'');
                    self.text.push_str(&text.replace('\'', "''"));
                    self.text.push('\'');
                }
                Quotes::Double => push_double_quoted(&mut self.text, text),
            }
        }
        self.text.push('\n');
    }

    fn integer(&mut self, number: i64) {
        self.scalar("!!int", &number.to_string());
    }

    fn unsigned(&mut self, number: u64) {
        self.scalar("!!int", &number.to_string());
    }

    fn float(&mut self, number: f64) {
        let mut text = String::new();
        push_float(&mut text, number);
        self.scalar("!!float", &text);
    }

    fn boolean(&mut self, on: bool) {
        self.scalar("!!bool", if on { "true" } else { "false" });
    }

    fn null(&mut self) {
        self.scalar("!!null", "null");
    }
}

fn push_double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(letter),
            _ => {
                let code = u32::from(letter);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Optional;

    fn written(write: impl FnOnce(&mut Yaml<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        let mut sink = Yaml::new(&mut bytes);
        sink.begin_map();
        write(&mut sink);
        sink.end_map();
        sink.finish().expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    /// The beginning and the end of a real `sinfo --yaml`.
    #[test]
    fn as_sinfo() {
        let text = written(|sink| {
            sink.list("sinfo", [()], |sink, ()| {
                sink.begin_map();
                sink.uint("port", 17_001_u64);
                sink.map("node", |sink| {
                    sink.texts("state", ["MIXED", "PLANNED"]);
                });
                sink.map("nodes", |sink| {
                    sink.uint("allocated", 2_u64);
                    sink.empty_list("hostnames");
                    sink.texts("nodes", ["n1", "n3"]);
                });
                sink.map("cpus", |sink| sink.number("max", Optional::Infinite));
                sink.text("gres", "gpu:h100:0(IDX:N/A)");
                sink.text("cluster", "");
                sink.end_map();
            });
            sink.empty_list("errors");
        });
        let expected = "%YAML 1.1
--- !!map
!!str sinfo: !!seq
- !!map
  !!str port: !!int 17001
  !!str node: !!map
    !!str state: !!seq
    - !!str MIXED
    - !!str PLANNED
  !!str nodes: !!map
    !!str allocated: !!int 2
    !!str hostnames: !!seq []
    !!str nodes: !!seq
    - !!str n1
    - !!str n3
  !!str cpus: !!map
    !!str max: !!map
      !!str set: !!bool false
      !!str infinite: !!bool true
      !!str number: !!int 0
  !!str gres: !!str gpu:h100:0(IDX:N/A)
  !!str cluster: !!str
!!str errors: !!seq []
...

";
        assert_eq!(text, expected);
    }

    /// Texts that YAML would read as something else are quoted; long ones are folded below their key.
    #[test]
    fn texts() {
        let line = |text: &str| {
            let all = written(|sink| sink.text("t", text));
            let body = all.strip_prefix("%YAML 1.1\n--- !!map\n").expect("begin");
            body.strip_suffix("...\n\n").expect("end").to_string()
        };
        assert_eq!(line("a: b"), "!!str t: !!str 'a: b'\n");
        assert_eq!(line("it's"), "!!str t: !!str it's\n");
        assert_eq!(line("'q"), "!!str t: !!str '''q'\n");
        assert_eq!(line("a\nb\"é"), "!!str t: !!str \"a\\nb\\\"\\xE9\"\n");
        assert_eq!(line("- x"), "!!str t: !!str '- x'\n");
        assert_eq!(line("-x"), "!!str t: !!str -x\n");
        let long = format!("{} tail end", "x".repeat(80));
        assert_eq!(
            line(&long),
            format!("!!str t: !!str {}\n  tail end\n", "x".repeat(80))
        );
    }
}
