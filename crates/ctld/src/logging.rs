//! The daemon's log: `tracing` events as lines like Slurm's, to stderr, to a file, or both; level and file can change while it
//! runs.
//!
//! A line is `[2026-01-31T12:00:00.123] error: text field=value`; INFO lines have no level word. Slurm's levels map onto
//! tracing's five: quiet → off, fatal and error → WARN and above, info → INFO, verbose and debug → DEBUG, debug2 and above →
//! TRACE; libraries below us stay at WARN until debug4. `SLUICE_LOG` (the syntax of `RUST_LOG`) overrules all of it.
//! Source of names and numbers: `slurm.conf` (SlurmctldDebug).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// A log level as Slurm names it; ordered by loudness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlurmLevel {
    /// Nothing.
    Quiet,
    /// What ends the daemon.
    Fatal,
    /// What failed.
    Error,
    /// State changes.
    Info,
    /// Requests and their outcome.
    Verbose,
    /// Decisions.
    Debug,
    /// And so on, louder.
    Debug2,
    /// Louder.
    Debug3,
    /// Libraries too.
    Debug4,
    /// Everything.
    Debug5,
}

const LEVELS: [(SlurmLevel, &str); 10] = [
    (SlurmLevel::Quiet, "quiet"),
    (SlurmLevel::Fatal, "fatal"),
    (SlurmLevel::Error, "error"),
    (SlurmLevel::Info, "info"),
    (SlurmLevel::Verbose, "verbose"),
    (SlurmLevel::Debug, "debug"),
    (SlurmLevel::Debug2, "debug2"),
    (SlurmLevel::Debug3, "debug3"),
    (SlurmLevel::Debug4, "debug4"),
    (SlurmLevel::Debug5, "debug5"),
];

/// A level that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no log level; levels are quiet fatal error info verbose debug debug2 debug3 debug4 debug5, or 0 to 9"
)]
pub struct UnknownLevel(String);

impl FromStr for SlurmLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let by_number = text
            .parse::<usize>()
            .ok()
            .and_then(|number| LEVELS.get(number));
        let by_name = || {
            LEVELS
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(text))
        };
        by_number
            .or_else(by_name)
            .map(|(level, _)| *level)
            .ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

impl fmt::Display for SlurmLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            LEVELS
                .iter()
                .find(|(level, _)| level == self)
                .map_or("info", |(_, name)| name),
        )
    }
}

impl SlurmLevel {
    /// This level made louder by so many `-v`.
    #[must_use]
    pub fn louder(self, steps: u8) -> SlurmLevel {
        let index = (self as usize)
            .saturating_add(usize::from(steps))
            .min(LEVELS.len() - 1);
        LEVELS[index].0
    }

    fn directives(self) -> &'static str {
        match self {
            SlurmLevel::Quiet => "off",
            SlurmLevel::Fatal | SlurmLevel::Error => "warn",
            SlurmLevel::Info => {
                "warn,sluice=info,sluice_ctld=info,sluice_controller=info,sluice_config=info,sluice_accounting=info,ctld=info"
            }
            SlurmLevel::Verbose | SlurmLevel::Debug => {
                "warn,sluice=debug,sluice_ctld=debug,sluice_controller=debug,sluice_config=debug,sluice_accounting=debug,ctld=debug"
            }
            SlurmLevel::Debug2 | SlurmLevel::Debug3 => {
                "warn,sluice=trace,sluice_ctld=trace,sluice_controller=trace,sluice_config=trace,sluice_accounting=trace,ctld=trace"
            }
            SlurmLevel::Debug4 => "debug",
            SlurmLevel::Debug5 => "trace",
        }
    }
}

/// Where the log goes, and how much of it.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// How loud.
    pub level: SlurmLevel,
    /// Appended to, made when missing (mode 0600 as logs name users and jobs).
    pub file: Option<PathBuf>,
    /// Also to stderr (`-D`, or when there is no file).
    pub stderr: bool,
}

/// Why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file.
    #[error("cannot open the log file {path}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A level that is not valid here.
    #[error("SLUICE_LOG is not valid: {0}")]
    Filter(String),
    /// Another subscriber is installed.
    #[error("the log was set up twice")]
    Twice,
}

/// Changes the log while the daemon runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LogHandle {
    filter: reload::Handle<EnvFilter, tracing_subscriber::Registry>,
    sink: Sink,
}

impl LogHandle {
    /// Makes the log louder or quieter.
    ///
    /// # Errors
    /// Only when the log is no longer installed.
    pub fn set_level(&self, level: SlurmLevel) -> Result<(), LogError> {
        self.filter
            .reload(EnvFilter::new(level.directives()))
            .map_err(|error| LogError::Filter(error.to_string()))
    }

    /// Opens the file anew, after it was rotated away (SIGHUP, SIGUSR2).
    ///
    /// # Errors
    /// When it cannot be opened; the old one stays in use.
    pub fn reopen(&self) -> Result<(), LogError> {
        self.sink.reopen()
    }
}

/// Installs the process's log.
///
/// # Errors
/// [`LogError`].
pub fn init(config: &LogConfig) -> Result<LogHandle, LogError> {
    let filter = match std::env::var("SLUICE_LOG") {
        Ok(text) if !text.is_empty() => {
            EnvFilter::try_new(text).map_err(|error| LogError::Filter(error.to_string()))?
        }
        _ => EnvFilter::new(config.level.directives()),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let sink = Sink::open(config.file.clone(), config.stderr)?;
    let lines = tracing_subscriber::fmt::layer()
        .event_format(SlurmLine)
        .with_ansi(config.file.is_none() && io::stderr().is_terminal())
        .with_writer(sink.clone());
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|_| LogError::Twice)?;
    Ok(LogHandle {
        filter: handle,
        sink,
    })
}

/// The open file and whether stderr is written too.
#[derive(Debug, Clone)]
struct Sink {
    inner: Arc<SinkInner>,
}

#[derive(Debug)]
struct SinkInner {
    path: Option<PathBuf>,
    file: Mutex<Option<File>>,
    stderr: bool,
}

impl Sink {
    fn open(path: Option<PathBuf>, stderr: bool) -> Result<Sink, LogError> {
        let sink = Sink {
            inner: Arc::new(SinkInner {
                path,
                file: Mutex::new(None),
                stderr,
            }),
        };
        sink.reopen()?;
        Ok(sink)
    }

    fn reopen(&self) -> Result<(), LogError> {
        if let Some(path) = &self.inner.path {
            let opened = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(path);
            let file = opened.map_err(|source| LogError::Open {
                path: path.clone(),
                source,
            })?;
            *self.inner.file.lock() = Some(file);
        }
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = SinkWriter<'a>;

    fn make_writer(&'a self) -> SinkWriter<'a> {
        SinkWriter { sink: &self.inner }
    }
}

/// Writes one line. A log that cannot be written never hurts the daemon, so errors end here.
struct SinkWriter<'a> {
    sink: &'a SinkInner,
}

impl Write for SinkWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = self.sink.file.lock().as_mut() {
            let _ = file.write_all(line);
        }
        if self.sink.stderr || self.sink.path.is_none() {
            let _ = io::stderr().write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Slurm's line format.
struct SlurmLine;

impl<S, N> FormatEvent<S, N> for SlurmLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = jiff::ZonedDateTime::now();
        write!(
            writer,
            "[{}] {}",
            now.strftime("%Y-%m-%dT%H:%M:%S.%3f"),
            level_word(*event.metadata().level())
        )?;
        if let Some(scope) = context.event_scope() {
            for span in scope.from_root() {
                let extensions = span.extensions();
                match extensions.get::<tracing_subscriber::fmt::FormattedFields<N>>() {
                    Some(fields) if !fields.is_empty() => {
                        write!(writer, "{}{{{fields}}}: ", span.name())?
                    }
                    _ => write!(writer, "{}: ", span.name())?,
                }
            }
        }
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::INFO => "",
        Level::DEBUG => "debug: ",
        Level::TRACE => "debug2: ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_by_name_and_number() {
        for (text, level) in [
            ("quiet", SlurmLevel::Quiet),
            ("3", SlurmLevel::Info),
            ("DEBUG2", SlurmLevel::Debug2),
            ("9", SlurmLevel::Debug5),
        ] {
            assert_eq!(text.parse::<SlurmLevel>(), Ok(level));
        }
        assert!("10".parse::<SlurmLevel>().is_err());
        assert!(
            "loud"
                .parse::<SlurmLevel>()
                .expect_err("unknown")
                .to_string()
                .contains("debug5")
        );
        assert_eq!(SlurmLevel::Info.louder(2), SlurmLevel::Debug);
        assert_eq!(SlurmLevel::Debug4.louder(200), SlurmLevel::Debug5);
        assert_eq!(SlurmLevel::Verbose.to_string(), "verbose");
    }

    #[test]
    fn every_level_is_a_valid_filter() {
        for (level, _) in LEVELS {
            EnvFilter::try_new(level.directives()).expect("valid");
        }
    }

    #[test]
    fn lines_look_like_slurms_and_follow_a_rotated_file() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("ctld.log");
        let sink = Sink::open(Some(path.clone()), false).expect("open");
        let (filter, handle) = reload::Layer::new(EnvFilter::new(SlurmLevel::Info.directives()));
        let lines = tracing_subscriber::fmt::layer()
            .event_format(SlurmLine)
            .with_ansi(false)
            .with_writer(sink.clone());
        let log = LogHandle {
            filter: handle,
            sink,
        };
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(filter).with(lines),
            || {
                tracing::info!(job_id = 7, "job ended");
                tracing::debug!("too quiet to be seen");
                tracing::error!("disk gone");
                std::fs::rename(&path, dir.path().join("ctld.log.1")).expect("rotate");
                log.reopen().expect("reopen");
                log.set_level(SlurmLevel::Debug).expect("louder");
                tracing::debug!("now seen");
            },
        );
        let old = std::fs::read_to_string(dir.path().join("ctld.log.1")).expect("old");
        let bare: Vec<&str> = old
            .lines()
            .map(|line| line.split_once("] ").expect("time").1)
            .collect();
        assert_eq!(bare, ["job ended job_id=7", "error: disk gone"]);
        let stamp = &old[..26];
        assert!(
            stamp.starts_with("[20") && stamp.ends_with("] ") || stamp.contains('T'),
            "{stamp}"
        );
        let new = std::fs::read_to_string(&path).expect("new");
        assert!(new.ends_with("] debug: now seen\n"), "{new}");
    }
}
