//! The agent's log: stderr in the foreground, else a file, with Slurm's levels.
//!
//! SIGHUP opens the file again, so that log rotation needs no restart.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sluice_config::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Where lines go.
#[derive(Debug, Clone)]
pub struct LogSink {
    file: Option<(PathBuf, Arc<Mutex<File>>)>,
}

impl LogSink {
    fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().append(true).create(true).open(path);
        let file = path
            .map(|path| Ok::<_, io::Error>((path.to_path_buf(), Arc::new(Mutex::new(open(path)?)))))
            .transpose()?;
        Ok(Self { file })
    }

    /// Opens the file again.
    ///
    /// # Errors
    /// When that fails; the old file stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some((path, file)) = &self.file {
            let fresh = OpenOptions::new().append(true).create(true).open(path)?;
            *file.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        Ok(())
    }
}

impl Write for LogSink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &self.file {
            Some((_, file)) => file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(line),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogSink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The level for SlurmdDebug with `-v` given `verbose` times.
pub fn level(configured: LogLevel, verbose: u8) -> LevelFilter {
    let base = match configured {
        LogLevel::Quiet => return LevelFilter::OFF,
        LogLevel::Fatal | LogLevel::Error => 1,
        LogLevel::Info | LogLevel::Verbose => 3,
        LogLevel::Debug | LogLevel::Debug2 => 4,
        LogLevel::Debug3 | LogLevel::Debug4 | LogLevel::Debug5 => 5,
    };
    match base + verbose {
        0 | 1 => LevelFilter::ERROR,
        2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Starts logging; call once.
///
/// # Errors
/// When the file cannot be opened.
pub fn init(level: LevelFilter, file: Option<&Path>) -> io::Result<LogSink> {
    let sink = LogSink::open(file)?;
    let filter = tracing_subscriber::EnvFilter::default()
        .add_directive(level.into())
        // The transport's own chatter is of use only at the last level.
        .add_directive(quiet("h2", level))
        .add_directive(quiet("hyper", level))
        .add_directive(quiet("tower", level))
        .add_directive(quiet("tonic", level));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(sink.clone())
        .try_init();
    Ok(sink)
}

fn quiet(target: &str, level: LevelFilter) -> tracing_subscriber::filter::Directive {
    let level = if level >= LevelFilter::TRACE {
        "info"
    } else {
        "warn"
    };
    format!("{target}={level}")
        .parse()
        .unwrap_or_else(|_| LevelFilter::WARN.into())
}
