//! What stands around every document's data: `meta`, `errors`, `warnings`.
//!
//! Invariant: all three are always there, empty lists too; readers index them without looking.

use std::io::{self, Write};

use crate::sink::{Format, Json, Sink, Style, Yaml};
use crate::version::DataParser;

/// Who asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// Terminal or address it came from; empty = unknown.
    pub source: String,
    /// User name.
    pub user: String,
    /// Group name.
    pub group: String,
}

/// Where an answer comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// `openapi/slurmctld` of a REST answer; empty for commands.
    pub plugin_type: String,
    /// Its name in words.
    pub plugin_name: String,
    /// The parser asked for.
    pub parser: DataParser,
    /// `accounting_storage/slurmdbd`.
    pub accounting_storage: String,
    /// Who asked.
    pub client: Client,
    /// The command line.
    pub command: Vec<String>,
    /// Release of Slurm whose interface this is, `25.11.0`.
    pub release: String,
    /// ClusterName.
    pub cluster: String,
}

/// An error or a warning inside a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// What it is about.
    pub description: String,
    /// Slurm's number of the error.
    pub number: u32,
    /// Slurm's text for the number.
    pub error: String,
    /// The function or path it came from.
    pub source: String,
}

/// The data of a document: fields of its outermost object.
pub trait Payload {
    /// Writes the fields.
    fn write<S: Sink>(&self, sink: &mut S);

    /// Errors to tell.
    fn errors(&self) -> &[Issue] {
        &[]
    }

    /// Warnings to tell.
    fn warnings(&self) -> &[Issue] {
        &[]
    }
}

/// A document that only tells errors.
#[derive(Debug, Clone, Default)]
pub struct Failure(pub Vec<Issue>);

impl Payload for Failure {
    fn write<S: Sink>(&self, _sink: &mut S) {}

    fn errors(&self) -> &[Issue] {
        &self.0
    }
}

/// Writes a whole document, with the line end that the commands print after it.
pub fn document<W: Write>(
    out: W,
    format: Format,
    meta: &Meta,
    payload: &impl Payload,
) -> io::Result<()> {
    match format {
        Format::Json(style) => {
            let mut sink = Json::new(out, style);
            write_all(&mut sink, meta, payload);
            sink.finish()
        }
        Format::Yaml => {
            let mut sink = Yaml::new(out);
            write_all(&mut sink, meta, payload);
            sink.finish()
        }
    }
}

/// As [`document`], as pretty JSON in memory.
#[must_use]
pub fn to_json(meta: &Meta, payload: &impl Payload) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = document(&mut bytes, Format::Json(Style::Pretty), meta, payload);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn write_all<S: Sink>(sink: &mut S, meta: &Meta, payload: &impl Payload) {
    sink.begin_map();
    payload.write(sink);
    write_meta(sink, meta);
    sink.list("errors", payload.errors(), |sink, issue| {
        sink.begin_map();
        sink.text("description", &issue.description);
        sink.uint("error_number", issue.number);
        sink.text("error", &issue.error);
        sink.text("source", &issue.source);
        sink.end_map();
    });
    sink.list("warnings", payload.warnings(), |sink, issue| {
        sink.begin_map();
        sink.text("description", &issue.description);
        sink.text("source", &issue.source);
        sink.end_map();
    });
    sink.end_map();
}

fn write_meta<S: Sink>(sink: &mut S, meta: &Meta) {
    let mut numbers = meta.release.split(['.', '-']);
    let mut number = || numbers.next().unwrap_or("0");
    let (major, minor, micro) = (number(), number(), number());
    sink.map("meta", |sink| {
        sink.map("plugin", |sink| {
            sink.text("type", &meta.plugin_type);
            sink.text("name", &meta.plugin_name);
            sink.text("data_parser", &meta.parser.to_string());
            sink.text("accounting_storage", &meta.accounting_storage);
        });
        sink.map("client", |sink| {
            sink.text("source", &meta.client.source);
            sink.text("user", &meta.client.user);
            sink.text("group", &meta.client.group);
        });
        sink.texts("command", &meta.command);
        sink.map("slurm", |sink| {
            sink.map("version", |sink| {
                sink.text("major", major);
                sink.text("micro", micro);
                sink.text("minor", minor);
            });
            sink.text("release", &meta.release);
            sink.text("cluster", &meta.cluster);
        });
    });
}
