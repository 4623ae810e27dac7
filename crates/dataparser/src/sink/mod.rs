//! Where documents are written to: one interface, JSON and YAML behind it.
//!
//! A sink takes values in the order in which they stand in the text. Failures of the writer below are kept and told by
//! `finish`, so that the documents need no error handling at every field.

mod float;
mod json;
mod yaml;

pub use json::{Json, Style};
pub use yaml::Yaml;

use crate::values::{Optional, OptionalFloat};

/// Form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json(Style),
    /// YAML with a tag at every value, as Slurm writes it.
    Yaml,
}

/// Text that is kept before it goes to the writer below.
const BUFFER_BYTES: usize = 256 * 1024;

/// Takes a document, value by value.
pub trait Sink {
    /// Begins an object.
    fn begin_map(&mut self);
    /// Ends an object.
    fn end_map(&mut self);
    /// Begins a list.
    fn begin_list(&mut self);
    /// Ends a list.
    fn end_list(&mut self);
    /// Name of the next value. Letters that would need quoting are not allowed.
    fn key(&mut self, key: &'static str);
    /// A text.
    fn string(&mut self, text: &str);
    /// A whole number.
    fn integer(&mut self, number: i64);
    /// A whole number without sign.
    fn unsigned(&mut self, number: u64);
    /// A number with a fraction.
    fn float(&mut self, number: f64);
    /// A truth value.
    fn boolean(&mut self, on: bool);
    /// Nothing.
    fn null(&mut self);

    /// An optional number as a value.
    fn optional(&mut self, value: Optional) {
        let (set, infinite, number) = match value {
            Optional::Unset => (false, false, 0),
            Optional::Infinite => (false, true, 0),
            Optional::Set(number) => (true, false, number),
        };
        self.begin_map();
        self.flag("set", set);
        self.flag("infinite", infinite);
        self.uint("number", number);
        self.end_map();
    }

    /// A text field.
    fn text(&mut self, key: &'static str, text: &str) {
        self.key(key);
        self.string(text);
    }

    /// A text field that is empty when there is none.
    fn text_or_empty(&mut self, key: &'static str, text: Option<&str>) {
        self.text(key, text.unwrap_or_default());
    }

    /// A field with a whole number.
    fn int(&mut self, key: &'static str, number: impl Into<i64>) {
        self.key(key);
        self.integer(number.into());
    }

    /// A field with a whole number without sign.
    fn uint(&mut self, key: &'static str, number: impl Into<u64>) {
        self.key(key);
        self.unsigned(number.into());
    }

    /// A field with a truth value.
    fn flag(&mut self, key: &'static str, on: bool) {
        self.key(key);
        self.boolean(on);
    }

    /// A field with an optional number.
    fn number(&mut self, key: &'static str, value: Optional) {
        self.key(key);
        self.optional(value);
    }

    /// A field with an optional number that may have a fraction.
    fn real(&mut self, key: &'static str, value: OptionalFloat) {
        let (set, infinite, number) = match value {
            OptionalFloat::Unset => (false, false, 0.0),
            OptionalFloat::Infinite => (false, true, 0.0),
            OptionalFloat::Set(number) => (true, false, number),
        };
        self.map(key, |sink| {
            sink.flag("set", set);
            sink.flag("infinite", infinite);
            sink.key("number");
            sink.float(number);
        });
    }

    /// A field with an object.
    fn map(&mut self, key: &'static str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.begin_map();
        write(self);
        self.end_map();
    }

    /// A field with a list.
    fn list<I: IntoIterator>(
        &mut self,
        key: &'static str,
        items: I,
        mut write: impl FnMut(&mut Self, I::Item),
    ) {
        self.key(key);
        self.begin_list();
        for item in items {
            write(self, item);
        }
        self.end_list();
    }

    /// A field with a list of texts.
    fn texts<I: IntoIterator>(&mut self, key: &'static str, items: I)
    where
        I::Item: AsRef<str>,
    {
        self.list(key, items, |sink, item| sink.string(item.as_ref()));
    }

    /// A field with an empty list.
    fn empty_list(&mut self, key: &'static str) {
        self.key(key);
        self.begin_list();
        self.end_list();
    }
}
