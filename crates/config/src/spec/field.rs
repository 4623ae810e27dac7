//! Typed access to the document: a value together with its path, and what may be asked of it.
//!
//! A value of the wrong type is reported once, with path, and then is as if it were not there.

use super::json::{Node, Value, join_path, plain_name};
use crate::diagnostic::{Detail, Diagnostics, Origin};
use std::sync::Arc;

/// A value with its path.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    node: &'a Node,
    path: Vec<String>,
    file: Arc<str>,
}

impl<'a> Field<'a> {
    pub fn root(node: &'a Node, file: &Arc<str>) -> Self {
        Field {
            node,
            path: Vec::new(),
            file: file.clone(),
        }
    }

    /// Where it stands.
    pub fn origin(&self) -> Origin {
        let path = (!self.path.is_empty()).then(|| join_path(&self.path).into());
        Origin {
            file: self.file.clone(),
            line: self.node.line,
            json_path: path,
        }
    }

    /// Where a field of it would stand that is missing.
    pub fn origin_of_missing(&self, name: &str) -> Origin {
        let mut path = self.path.clone();
        path.push(name.to_owned());
        Origin {
            json_path: Some(join_path(&path).into()),
            ..self.origin()
        }
    }

    fn child(&self, part: String, node: &'a Node) -> Field<'a> {
        let mut path = self.path.clone();
        path.push(part);
        Field {
            node,
            path,
            file: self.file.clone(),
        }
    }

    /// Its key, or index in brackets.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    fn wrong(&self, wanted: &str, diags: &mut Diagnostics) {
        diags.error(
            &self.origin(),
            Detail::default().hint(format!("legal: {wanted}")),
            format!("is {}", self.node.value.kind()),
        );
    }

    /// A field by its snake_case name, in either spelling; null is as good as none.
    pub fn get(&self, name: &str) -> Option<Field<'a>> {
        let Value::Object(fields) = &self.node.value else {
            return None;
        };
        let wanted = plain_name(name);
        let (key, node) = fields.iter().find(|(k, _)| plain_name(k) == wanted)?;
        (node.value != Value::Null).then(|| self.child(key.clone(), node))
    }

    /// A field that must be there.
    pub fn require(&self, name: &str, diags: &mut Diagnostics) -> Option<Field<'a>> {
        let found = self.get(name);
        if found.is_none() && self.is_object() {
            diags.error(
                &self.origin_of_missing(name),
                Detail::default(),
                "is required",
            );
        }
        found
    }

    fn is_object(&self) -> bool {
        matches!(self.node.value, Value::Object(_))
    }

    /// Reports it if it is no object.
    pub fn expect_object(self, diags: &mut Diagnostics) -> Option<Field<'a>> {
        if self.is_object() {
            return Some(self);
        }
        self.wrong("an object { … }", diags);
        None
    }

    /// All fields of an object.
    pub fn fields(&self, diags: &mut Diagnostics) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::Object(fields) => fields
                .iter()
                .map(|(k, n)| self.child(k.clone(), n))
                .collect(),
            _ => {
                self.wrong("an object { … }", diags);
                Vec::new()
            }
        }
    }

    /// All items of a list.
    pub fn items(&self, diags: &mut Diagnostics) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(i, n)| self.child(format!("[{i}]"), n))
                .collect(),
            _ => {
                self.wrong("a list [ … ]", diags);
                Vec::new()
            }
        }
    }

    /// A string.
    pub fn text(&self, diags: &mut Diagnostics) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong("a string", diags);
                None
            }
        }
    }

    /// A whole number of 0 or more; a string of digits is accepted.
    pub fn count(&self, diags: &mut Diagnostics) -> Option<u64> {
        let parsed = match &self.node.value {
            Value::Number(text) | Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        if parsed.is_none() {
            let detail = Detail::default().hint("legal: a whole number of 0 or more");
            diags.error(&self.origin(), detail, format!("is {}", self.describe()));
        }
        parsed
    }

    fn describe(&self) -> String {
        match &self.node.value {
            Value::Number(text) | Value::Text(text) => format!("`{text}`"),
            other => other.kind().to_owned(),
        }
    }

    /// The text that a value of a map would have in slurm.conf.
    pub fn slurm_text(&self, diags: &mut Diagnostics) -> Option<String> {
        match &self.node.value {
            Value::Text(text) if text.contains('\n') => {
                diags.error(
                    &self.origin(),
                    Detail::default(),
                    "has a line break, which a slurm.conf value cannot have",
                );
                None
            }
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Bool(flag) => Some(if *flag { "YES" } else { "NO" }.to_owned()),
            _ => {
                self.wrong("a string", diags);
                None
            }
        }
    }

    /// Reports fields that are not among those known.
    pub fn only(&self, known: &[&str], strict: bool, diags: &mut Diagnostics) {
        let Value::Object(fields) = &self.node.value else {
            return;
        };
        for (key, node) in fields {
            let plain = plain_name(key);
            if known.iter().any(|k| plain_name(k) == plain) {
                continue;
            }
            let origin = self.child(key.clone(), node).origin();
            if strict {
                diags.error(
                    &origin,
                    Detail::default().hint(format!("known here: {}", known.join(", "))),
                    "is not known",
                );
            } else {
                diags.warn(&origin, Detail::default(), "is not known and has no effect");
            }
        }
    }
}
