//! JSON as Slurm writes it: two blanks a level, slashes escaped, empty lists over two lines; or all in one line.

use std::io::{self, Write};

use super::float::push_float;
use super::{BUFFER_BYTES, Sink};
use crate::values::Optional;

/// Layout of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Over many lines.
    #[default]
    Pretty,
    /// In one line.
    Compact,
}

/// An optional number at one depth, ready to be copied.
struct Template {
    before_number: Vec<u8>,
    after_number: Vec<u8>,
    unset: Vec<u8>,
    infinite: Vec<u8>,
}

/// Writes JSON.
pub struct Json<W: Write> {
    out: W,
    failure: Option<io::Error>,
    text: Vec<u8>,
    style: Style,
    depth: usize,
    /// The next value or key of this container is not the first.
    comma: bool,
    /// A key has been written and waits for its value.
    keyed: bool,
    /// By depth.
    templates: Vec<Template>,
}

/// A line end and the deepest indentation that is copied at once.
const NEW_LINE: [u8; 97] = {
    let mut bytes = [b' '; 97];
    bytes[0] = b'\n';
    bytes
};

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

impl<W: Write> Json<W> {
    /// Begins a document.
    pub fn new(out: W, style: Style) -> Self {
        Self {
            out,
            failure: None,
            text: Vec::with_capacity(BUFFER_BYTES + 4096),
            style,
            depth: 0,
            comma: false,
            keyed: false,
            templates: Vec::new(),
        }
    }

    /// Ends the document with a line end and hands everything on.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.push(b'\n');
        self.hand_on();
        match self.failure {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn hand_on(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.out.write_all(&self.text)
        {
            self.failure = Some(error);
        }
        self.text.clear();
    }

    #[inline]
    fn new_line(&mut self) {
        push_new_line(&mut self.text, self.style, self.depth);
    }

    /// What stands before a value: nothing after a key, else what separates items of a list.
    #[inline]
    fn before_value(&mut self) {
        if self.keyed {
            self.keyed = false;
        } else if self.depth > 0 {
            if self.comma {
                self.text.push(b',');
            }
            self.new_line();
        }
        self.comma = true;
    }

    fn begin(&mut self, bracket: u8) {
        self.before_value();
        self.text.push(bracket);
        self.depth += 1;
        self.comma = false;
    }

    fn end(&mut self, bracket: u8) {
        self.depth = self.depth.saturating_sub(1);
        self.new_line();
        self.text.push(bracket);
        self.comma = true;
        if self.text.len() >= BUFFER_BYTES {
            self.hand_on();
        }
    }

    fn template(&mut self) -> usize {
        let depth = self.depth;
        while self.templates.len() <= depth {
            let at = self.templates.len();
            let object = |set: &str, infinite: &str, number: &str| {
                let mut text = vec![b'{'];
                let separator = if self.style == Style::Pretty {
                    ": "
                } else {
                    ":"
                };
                for (key, value) in [("set", set), ("infinite", infinite), ("number", number)] {
                    if text.len() > 1 {
                        text.push(b',');
                    }
                    push_new_line(&mut text, self.style, at + 1);
                    text.extend_from_slice(format!("\"{key}\"{separator}{value}").as_bytes());
                }
                text
            };
            let mut after_number = Vec::new();
            push_new_line(&mut after_number, self.style, at);
            after_number.push(b'}');
            let closed = |mut text: Vec<u8>| {
                text.extend_from_slice(&after_number);
                text
            };
            let template = Template {
                before_number: object("true", "false", ""),
                unset: closed(object("false", "false", "0")),
                infinite: closed(object("false", "true", "0")),
                after_number,
            };
            self.templates.push(template);
        }
        depth
    }
}

#[inline]
fn push_new_line(text: &mut Vec<u8>, style: Style, depth: usize) {
    if style == Style::Compact {
        return;
    }
    match NEW_LINE.get(..1 + 2 * depth) {
        Some(bytes) => text.extend_from_slice(bytes),
        None => {
            text.push(b'\n');
            text.extend(std::iter::repeat_n(b' ', 2 * depth));
        }
    }
}

fn push_unsigned(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// Appends a text with what JSON wants escaped, and `/`, which Slurm escapes as well.
fn push_escaped(text: &mut Vec<u8>, string: &str) {
    let bytes = string.as_bytes();
    let mut done = 0;
    for (place, byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' | b'/' => *byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..0x20 => 0,
            _ => continue,
        };
        text.extend_from_slice(&bytes[done..place]);
        done = place + 1;
        if short == 0 {
            text.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            text.extend_from_slice(&[b'\\', short]);
        }
    }
    text.extend_from_slice(&bytes[done..]);
}

impl<W: Write> Sink for Json<W> {
    fn begin_map(&mut self) {
        self.begin(b'{');
    }

    fn end_map(&mut self) {
        self.end(b'}');
    }

    fn begin_list(&mut self) {
        self.begin(b'[');
    }

    fn end_list(&mut self) {
        self.end(b']');
    }

    fn key(&mut self, key: &'static str) {
        if self.comma {
            self.text.push(b',');
        }
        self.new_line();
        self.text.push(b'"');
        self.text.extend_from_slice(key.as_bytes());
        self.text.extend_from_slice(if self.style == Style::Pretty {
            b"\": "
        } else {
            b"\":"
        });
        self.keyed = true;
    }

    fn string(&mut self, text: &str) {
        self.before_value();
        self.text.push(b'"');
        push_escaped(&mut self.text, text);
        self.text.push(b'"');
    }

    fn integer(&mut self, number: i64) {
        self.before_value();
        if number < 0 {
            self.text.push(b'-');
        }
        push_unsigned(&mut self.text, number.unsigned_abs());
    }

    fn unsigned(&mut self, number: u64) {
        self.before_value();
        push_unsigned(&mut self.text, number);
    }

    fn float(&mut self, number: f64) {
        self.before_value();
        let mut text = String::new();
        push_float(&mut text, number);
        self.text.extend_from_slice(text.as_bytes());
    }

    fn boolean(&mut self, on: bool) {
        self.before_value();
        self.text
            .extend_from_slice(if on { b"true" } else { b"false" });
    }

    fn null(&mut self) {
        self.before_value();
        self.text.extend_from_slice(b"null");
    }

    fn optional(&mut self, value: Optional) {
        self.before_value();
        let depth = self.template();
        let template = &self.templates[depth];
        match value {
            Optional::Unset => self.text.extend_from_slice(&template.unset),
            Optional::Infinite => self.text.extend_from_slice(&template.infinite),
            Optional::Set(number) => {
                self.text.extend_from_slice(&template.before_number);
                push_unsigned(&mut self.text, number);
                self.text.extend_from_slice(&template.after_number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style) -> String {
        let mut bytes = Vec::new();
        let mut sink = Json::new(&mut bytes, style);
        sink.begin_map();
        sink.text("path", "/tmp/\"a\"\\b\n\u{1}é");
        sink.empty_list("flags");
        sink.texts("state", ["IDLE", "DRAIN"]);
        sink.number("priority", Optional::Set(11_268));
        sink.map("limits", |sink| {
            sink.number("jobs", Optional::Infinite);
            sink.number("wall", Optional::Unset);
            sink.int("nice", -5);
        });
        sink.list("items", [1_u64, 2], |sink, item| {
            sink.begin_map();
            sink.uint("id", item);
            sink.end_map();
        });
        sink.key("job_resources");
        sink.null();
        sink.end_map();
        sink.finish().expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    /// Layout of a real Slurm's JSON: empty lists take two lines, `/` is escaped.
    #[test]
    fn pretty() {
        let expected = r#"{
  "path": "\/tmp\/\"a\"\\b\n\u0001é",
  "flags": [
  ],
  "state": [
    "IDLE",
    "DRAIN"
  ],
  "priority": {
    "set": true,
    "infinite": false,
    "number": 11268
  },
  "limits": {
    "jobs": {
      "set": false,
      "infinite": true,
      "number": 0
    },
    "wall": {
      "set": false,
      "infinite": false,
      "number": 0
    },
    "nice": -5
  },
  "items": [
    {
      "id": 1
    },
    {
      "id": 2
    }
  ],
  "job_resources": null
}
"#;
        assert_eq!(written(Style::Pretty), expected);
    }

    /// One line, and the same data.
    #[test]
    fn compact() {
        let text = written(Style::Compact);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("\"flags\":[],\"state\":[\"IDLE\",\"DRAIN\"],\"priority\":{\"set\":true,\"infinite\":false,\"number\":11268}"));
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&text), read(&written(Style::Pretty)));
    }

    /// A full disk or a closed pipe is told at the end.
    #[test]
    fn failure_of_the_writer() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut sink = Json::new(Full, Style::Pretty);
        sink.begin_map();
        sink.end_map();
        assert!(sink.finish().is_err());
    }
}
