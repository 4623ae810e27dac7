//! Where the tasks' streams go: through srun to its own streams and files, or to files on the nodes.
//!
//! A pattern that means one file is opened here; one with a task or node in it is opened on the nodes. Labels and line
//! buffering are applied here. Source: srun(1) --output, --label, --unbuffered.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use sluice_model::filename::{FilenameContext, FilenameScope, expand_pattern, pattern_scope};
use sluice_model::job::OpenMode;

use crate::output;

/// Longest line that is held back for its end.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What an option such as `--output` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamMode {
    /// Through srun.
    Through,
    /// Nowhere: /dev/null on the nodes.
    Nothing,
    /// Through srun, of one task only.
    OneTask(u32),
    /// A file opened by srun; the name has its patterns still in it.
    File(String),
    /// Files opened on the nodes.
    OnNodes(String),
}

/// A file that a stream should go to cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("Could not open {stream} file: {}", output::os_text(source))]
pub struct OpenError {
    /// `stdout`, `stderr` or `stdin`.
    pub stream: &'static str,
    /// Cause.
    #[source]
    pub source: std::io::Error,
}

impl StreamMode {
    /// Reads a value of `--output`, `--error` or `--input`.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None => StreamMode::Through,
            Some(text) if text.eq_ignore_ascii_case("all") => StreamMode::Through,
            Some(text) if text.eq_ignore_ascii_case("none") => StreamMode::Nothing,
            Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse()
                    .map_or(StreamMode::Through, StreamMode::OneTask)
            }
            Some(text) if pattern_scope(text) != FilenameScope::Step => {
                StreamMode::OnNodes(text.to_string())
            }
            Some(text) => StreamMode::File(text.to_string()),
        }
    }

    /// What the nodes are told: a pattern, or `None` for "through srun".
    #[must_use]
    pub fn for_nodes(&self) -> Option<String> {
        match self {
            StreamMode::Nothing => Some("/dev/null".to_string()),
            StreamMode::OnNodes(pattern) => Some(pattern.clone()),
            StreamMode::Through | StreamMode::OneTask(_) | StreamMode::File(_) => None,
        }
    }
}

/// Where bytes end.
#[derive(Debug)]
enum Target {
    Stdout,
    Stderr,
    File(usize),
}

/// Takes the output of all tasks.
#[derive(Debug)]
pub struct Sink {
    label_width: Option<usize>,
    unbuffered: bool,
    out: (Target, Option<u32>),
    err: (Target, Option<u32>),
    files: Vec<File>,
    pending: BTreeMap<(u32, bool), Vec<u8>>,
}

/// How output is treated.
#[derive(Debug, Clone, Copy)]
pub struct SinkOptions {
    /// `--label`.
    pub label: bool,
    /// `--unbuffered`, or a terminal.
    pub unbuffered: bool,
    /// Tasks of the step, for the width of the labels.
    pub tasks: u32,
    /// `--open-mode`.
    pub open_mode: OpenMode,
}

impl Sink {
    /// Opens the files that srun itself writes.
    pub fn open(
        out: &StreamMode,
        err: &StreamMode,
        options: SinkOptions,
        directory: &Path,
        names: &FilenameContext,
    ) -> Result<Self, OpenError> {
        let mut sink = Self {
            label_width: options
                .label
                .then(|| options.tasks.saturating_sub(1).to_string().len()),
            unbuffered: options.unbuffered,
            out: (Target::Stdout, None),
            err: (Target::Stderr, None),
            files: Vec::new(),
            pending: BTreeMap::new(),
        };
        let failed = |stream| move |source| OpenError { stream, source };
        sink.out = sink
            .target(out, Target::Stdout, options, directory, names)
            .map_err(failed("stdout"))?;
        sink.err = if err == out && matches!(err, StreamMode::File(_)) {
            // One file, one offset: the lines of both streams must not overwrite each other.
            (Target::File(0), None)
        } else {
            sink.target(err, Target::Stderr, options, directory, names)
                .map_err(failed("stderr"))?
        };
        Ok(sink)
    }

    fn target(
        &mut self,
        mode: &StreamMode,
        default: Target,
        options: SinkOptions,
        directory: &Path,
        names: &FilenameContext,
    ) -> std::io::Result<(Target, Option<u32>)> {
        match mode {
            StreamMode::OneTask(task) => Ok((default, Some(*task))),
            StreamMode::File(pattern) => {
                let path = directory.join(expand_pattern(pattern, names));
                let append = options.open_mode == OpenMode::Append;
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .append(append)
                    .truncate(!append)
                    .open(path)?;
                self.files.push(file);
                Ok((Target::File(self.files.len() - 1), None))
            }
            _ => Ok((default, None)),
        }
    }

    /// Takes bytes of a task; no bytes are the end of that stream.
    pub fn take(&mut self, task: u32, is_stderr: bool, data: &[u8]) {
        let only = if is_stderr { self.err.1 } else { self.out.1 };
        if only.is_some_and(|only| only != task) {
            return;
        }
        if self.unbuffered && self.label_width.is_none() {
            self.write(is_stderr, data);
            return;
        }
        let mut held = self.pending.remove(&(task, is_stderr)).unwrap_or_default();
        held.extend_from_slice(data);
        let ends = data.is_empty() || held.len() > LINE_BYTES_MAX;
        let complete = if ends {
            held.len()
        } else {
            held.iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1)
        };
        let rest = held.split_off(complete);
        let text = self.labelled(task, held);
        self.write(is_stderr, &text);
        if !rest.is_empty() {
            self.pending.insert((task, is_stderr), rest);
        }
    }

    /// Writes what is still held back.
    pub fn flush(&mut self) {
        for ((task, is_stderr), held) in std::mem::take(&mut self.pending) {
            let text = self.labelled(task, held);
            self.write(is_stderr, &text);
        }
    }

    fn labelled(&self, task: u32, lines: Vec<u8>) -> Vec<u8> {
        let Some(width) = self.label_width else {
            return lines;
        };
        let label = format!("{task:0width$}: ");
        let mut text = Vec::with_capacity(lines.len() + label.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            text.extend_from_slice(label.as_bytes());
            text.extend_from_slice(line);
        }
        text
    }

    fn write(&mut self, is_stderr: bool, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match if is_stderr { &self.err.0 } else { &self.out.0 } {
            Target::Stdout => output::bytes_out(bytes),
            Target::Stderr => output::bytes_err(bytes),
            Target::File(index) => {
                if let Some(file) = self.files.get_mut(*index)
                    && let Err(error) = file.write_all(bytes)
                {
                    output::error_line(format!("srun: error: Unable to write output: {error}"));
                }
            }
        }
    }
}

/// Bytes of standard input or a file; an empty piece is its end.
pub(super) fn read_input(file: Option<String>, sender: &tokio::sync::mpsc::Sender<Vec<u8>>) {
    let mut source: Box<dyn std::io::Read> = match file {
        None => Box::new(std::io::stdin()),
        Some(path) => match std::fs::File::open(&path) {
            Ok(file) => Box::new(file),
            Err(error) => {
                crate::output::error_line(format!(
                    "srun: error: Could not open stdin file {path}: {error}"
                ));
                Box::new(std::io::empty())
            }
        },
    };
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let length = match source.read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if sender.blocking_send(chunk[..length].to_vec()).is_err() || length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each form of --output means.
    #[test]
    fn modes() {
        assert_eq!(StreamMode::parse(None), StreamMode::Through);
        assert_eq!(StreamMode::parse(Some("all")), StreamMode::Through);
        assert_eq!(
            StreamMode::parse(Some("none")).for_nodes(),
            Some("/dev/null".to_string())
        );
        assert_eq!(StreamMode::parse(Some("3")), StreamMode::OneTask(3));
        assert_eq!(
            StreamMode::parse(Some("out.%j")),
            StreamMode::File("out.%j".to_string())
        );
        assert_eq!(
            StreamMode::parse(Some("out.%t")).for_nodes(),
            Some("out.%t".to_string())
        );
    }

    fn sink(label: bool, unbuffered: bool, file: &Path) -> Sink {
        let options = SinkOptions {
            label,
            unbuffered,
            tasks: 12,
            open_mode: OpenMode::Truncate,
        };
        let mode = StreamMode::File(file.to_string_lossy().into_owned());
        Sink::open(
            &mode,
            &mode,
            options,
            Path::new("/"),
            &FilenameContext::default(),
        )
        .expect("opens")
    }

    /// Lines of two tasks never mix, whatever pieces they come in; labels are as wide as the highest rank.
    #[test]
    fn labels_and_lines() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("out");
        let mut labelled = sink(true, false, &file);
        labelled.take(0, false, b"hel");
        labelled.take(11, false, b"other\nhalf");
        labelled.take(0, true, b"lo\nend\n");
        labelled.take(0, false, b"lo\n");
        labelled.take(11, false, b"");
        labelled.flush();
        let text = std::fs::read_to_string(&file).expect("read");
        assert_eq!(text, "11: other\n00: lo\n00: end\n00: hello\n11: half");
        let mut raw = sink(false, true, &file);
        raw.take(0, false, b"a");
        raw.take(1, false, b"b");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "ab");
    }
}
