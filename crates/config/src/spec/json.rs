//! JSON with comments and trailing commas, with the line of every value.
//!
//! Own reader because every fault must carry line and path, and a duplicate key is a fault: the usual crates keep the last one in
//! silence. A syntax error ends the reading; duplicates do not. Nesting is limited.

use crate::diagnostic::{Detail, Diagnostics, Origin};

/// Deeper documents are refused; real ones have seven levels.
const DEPTH_MAX: usize = 64;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub line: u32,
    pub value: Value,
}

/// A JSON value. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Names are the same in both spellings: case and underscores do not count.
pub(crate) fn plain_name(name: &str) -> String {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// Reads a document; `None` when it is not JSON, which is then on record.
pub(crate) fn parse(text: &str, origin: &Origin, diags: &mut Diagnostics) -> Option<Node> {
    let mut parser = Parser {
        text,
        at: 0,
        line: 1,
        origin,
        diags,
        path: Vec::new(),
    };
    let read = parser.document();
    match read {
        Ok(node) => Some(node),
        Err(message) => {
            let origin = parser.here();
            parser.diags.error(
                &origin,
                Detail::default()
                    .hint("JSON with // and /* */ comments and trailing commas is expected"),
                message,
            );
            None
        }
    }
}

/// The rest of a text after blanks and comments.
pub(crate) fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, r)| r)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            match comment.split_once("*/") {
                Some((_, r)) => r,
                None => return rest,
            }
        } else {
            return rest;
        };
        rest = after.trim_start();
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    origin: &'a Origin,
    diags: &'a mut Diagnostics,
    path: Vec<String>,
}

impl<'a> Parser<'a> {
    fn here(&self) -> Origin {
        let path = (!self.path.is_empty()).then(|| join_path(&self.path).into());
        Origin {
            file: self.origin.file.clone(),
            line: self.line,
            json_path: path,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.line += self.text[self.at..self.at + bytes].matches('\n').count() as u32;
        self.at += bytes;
    }

    fn blank(&mut self) {
        let rest = self.rest();
        let after = skip_blank(rest);
        self.advance(rest.len() - after.len());
    }

    fn take(&mut self, c: char) -> bool {
        self.blank();
        let hit = self.rest().starts_with(c);
        if hit {
            self.advance(c.len_utf8());
        }
        hit
    }

    fn found(&self) -> String {
        match self.rest().chars().next() {
            None => "the end of the document".to_owned(),
            Some(c) => format!("`{c}`"),
        }
    }

    fn document(&mut self) -> Result<Node, String> {
        let node = self.value(0)?;
        self.blank();
        if self.rest().is_empty() {
            Ok(node)
        } else {
            Err(format!("{} follows the end of the document", self.found()))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} levels deep"));
        }
        self.blank();
        let line = self.line;
        let value = match self.rest().chars().next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Value::Text(self.string()?),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number()?,
            Some(_) => self.word()?,
            None => return Err("the document ends where a value is expected".to_owned()),
        };
        Ok(Node { line, value })
    }

    fn word(&mut self) -> Result<Value, String> {
        let words = [
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("null", Value::Null),
        ];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.advance(word.len());
                return Ok(value);
            }
        }
        Err(format!("{} where a value is expected", self.found()))
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
            .unwrap_or(rest.len());
        let text = &rest[..end];
        if text.parse::<f64>().is_err() {
            return Err(format!("`{text}` is not a number"));
        }
        self.advance(end);
        Ok(Value::Number(text.to_owned()))
    }

    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let mut out = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.advance(i + 1);
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, 'r')) => out.push('\r'),
                    Some((_, 'b')) => out.push('\u{8}'),
                    Some((_, 'f')) => out.push('\u{c}'),
                    Some((_, c @ ('"' | '\\' | '/'))) => out.push(c),
                    Some((at, 'u')) => {
                        let (c, used) = unicode_escape(&rest[at + 1..])
                            .ok_or("a \\u escape needs four hexadecimal digits")?;
                        out.push(c);
                        for _ in 0..used {
                            chars.next();
                        }
                    }
                    _ => return Err(
                        "a backslash in a string must be followed by one of \" \\ / b f n r t u"
                            .to_owned(),
                    ),
                },
                '\n' => return Err("a string is not closed on its line".to_owned()),
                c => out.push(c),
            }
        }
        Err("a string is not closed".to_owned())
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        self.take('[');
        let mut items = Vec::new();
        while !self.take(']') {
            self.path.push(format!("[{}]", items.len()));
            items.push(self.value(depth + 1)?);
            self.path.pop();
            if !self.take(',') && !self.at_end_of(']') {
                return Err(format!("{} where `,` or `]` is expected", self.found()));
            }
        }
        Ok(Value::List(items))
    }

    fn at_end_of(&mut self, close: char) -> bool {
        self.blank();
        self.rest().starts_with(close)
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.take('{');
        let mut fields: Vec<(String, Node)> = Vec::new();
        while !self.take('}') {
            if !self.at_end_of('"') {
                return Err(format!(
                    "{} where a key in double quotes or `}}` is expected",
                    self.found()
                ));
            }
            let key = self.string()?;
            let here = {
                self.path.push(key.clone());
                self.here()
            };
            if !self.take(':') {
                return Err(format!("{} where `:` is expected", self.found()));
            }
            let node = self.value(depth + 1)?;
            self.path.pop();
            let twin = fields
                .iter()
                .find(|(k, _)| plain_name(k) == plain_name(&key))
                .map(|(k, _)| k.clone());
            match twin {
                Some(k) if k == key => self.diags.error(&here, Detail::default(), "duplicate key"),
                Some(k) => self.diags.error(
                    &here,
                    Detail::default(),
                    format!("duplicate key: {k} is the same in another spelling"),
                ),
                None => fields.push((key, node)),
            }
            if !self.take(',') && !self.at_end_of('}') {
                return Err(format!("{} where `,` or `}}` is expected", self.found()));
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Reads the digits after `\u`, with a second escape for characters beyond the basic plane. Gives the character and how many characters
/// of the text it took.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |t: &str| {
        t.get(..4)
            .filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|h| u32::from_str_radix(h, 16).ok())
    };
    let first = unit(text)?;
    if (0xD800..0xDC00).contains(&first) {
        let second =
            unit(text.get(4..)?.strip_prefix("\\u")?).filter(|s| (0xDC00..0xE000).contains(s))?;
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return char::from_u32(code).map(|c| (c, 10));
    }
    char::from_u32(first).map(|c| (c, 4))
}

/// `a`, `[0]`, `b` become `a[0].b`.
pub(crate) fn join_path(parts: &[String]) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() && !part.starts_with('[') {
            out.push('.');
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Option<Node>, Vec<String>) {
        let mut diags = Diagnostics::default();
        let node = parse(text, &Origin::file("d"), &mut diags);
        (
            node,
            diags
                .into_sorted()
                .iter()
                .map(|d| d.to_string().split(" (").next().unwrap_or("").to_owned())
                .collect(),
        )
    }

    /// Comments, trailing commas, escapes, lines.
    #[test]
    fn reads() {
        let (node, faults) = read(
            "// head\n{ /* x\n */ \"a\": [1, -2.5e3,], \"b\": \"l1\\nl2 \\u00e9 \\ud83d\\ude00\",\n \"c\": {\"d\": true, \"e\": null,}, }\n",
        );
        assert_eq!(faults, Vec::<String>::new());
        let Some(Node {
            value: Value::Object(fields),
            line: 2,
        }) = node
        else {
            panic!("{node:?}")
        };
        assert_eq!(fields[0].1.line, 3);
        assert_eq!(fields[1].1.value, Value::Text("l1\nl2 é 😀".into()));
        assert_eq!(fields[2].1.line, 4);
    }

    /// Faults carry line and path.
    #[test]
    fn faults() {
        let check = |text: &str, fault: &str| assert_eq!(read(text).1, [fault], "{text}");
        check("{\"a\": 1,\n \"a\": 2}", "d:2: error: a: duplicate key");
        check(
            "{\"x\": {\"fooBar\": 1, \"foo_bar\": 2}}",
            "d:1: error: x.foo_bar: duplicate key: fooBar is the same in another spelling",
        );
        check(
            "{\"a\": [1 2]}",
            "d:1: error: a[0]: `2` where `,` or `]` is expected"
                .replace("a[0]", "a")
                .as_str(),
        );
        check(
            "{\"a\": ",
            "d:1: error: a: the document ends where a value is expected",
        );
        check(
            "{a: 1}",
            "d:1: error: `a` where a key in double quotes or `}` is expected",
        );
        check("{} x", "d:1: error: `x` follows the end of the document");
        check(
            "{\"a\": \"x\n\"}",
            "d:1: error: a: a string is not closed on its line",
        );
        check(
            &"[".repeat(100),
            &format!(
                "d:1: error: {}: nested more than 64 levels deep",
                "[0]".repeat(65)
            ),
        );
    }

    proptest! {
        /// Whatever serde_json writes is read as the same value.
        #[test]
        fn reads_all_json(text in "\\PC{0,30}", number in any::<i64>(), flag in any::<bool>()) {
            let document = serde_json::json!({"t": text, "n": number, "l": [flag, null]}).to_string();
            let (node, faults) = read(&document);
            prop_assert_eq!(faults, Vec::<String>::new());
            let Some(Node { value: Value::Object(fields), .. }) = node else { return Err(TestCaseError::fail("no object")) };
            prop_assert_eq!(&fields[0].1.value, &Value::Text(text));
            prop_assert_eq!(&fields[1].1.value, &Value::Number(number.to_string()));
        }

        /// No text makes the reader panic.
        #[test]
        fn any_text_is_an_answer(text in "[\\[\\]{}:,\"\\\\/*a1u \n-]{0,40}") {
            let _ = read(&text);
        }
    }
}
