//! Settings of the controller changed while it runs, until the configuration is read again: `setdebug`, `setdebugflags`,
//! `schedloglevel`, `fsdampeningfactor`. Source: scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_proto::status_from;
use sluice_proto::v1::SetDebugRequest;
use tonic::Status;

use super::super::Shared;
use crate::logging::SlurmLevel;

/// What differs from the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// SlurmctldDebug.
    pub level: Option<String>,
    /// DebugFlags.
    pub debug_flags: Option<Vec<String>>,
    /// SlurmSchedLogLevel.
    pub sched_log_level: Option<u32>,
    /// FairShareDampeningFactor.
    pub dampening: Option<u32>,
}

impl RuntimeSettings {
    /// Lines of `scontrol show config` that are not as configured.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let mut entries = Vec::new();
        if let Some(level) = &self.level {
            entries.push(("SlurmctldDebug", level.clone()));
        }
        if let Some(flags) = &self.debug_flags {
            let text = if flags.is_empty() {
                "(null)".to_owned()
            } else {
                flags.join(",")
            };
            entries.push(("DebugFlags", text));
        }
        if let Some(level) = self.sched_log_level {
            entries.push(("SlurmSchedLogLevel", level.to_string()));
        }
        if let Some(factor) = self.dampening {
            entries.push(("FairShareDampeningFactor", factor.to_string()));
        }
        entries
    }
}

/// Applies a request.
pub(super) fn set(shared: &Shared, request: SetDebugRequest) -> Result<(), Status> {
    let config = std::sync::Arc::clone(&shared.core.snapshot().config);
    let mut runtime = shared.diagnostics.runtime.lock();
    if let Some(text) = &request.level {
        let level: SlurmLevel = text
            .parse()
            .map_err(|_| Status::invalid_argument(format!("\"{text}\" is no log level")))?;
        if let Some(log) = &shared.log {
            log.set_level(level)
                .map_err(|error| Status::internal(error.to_string()))?;
        }
        runtime.level = Some(text.clone());
    }
    if !request.add_flags.is_empty() || !request.remove_flags.is_empty() {
        let configured = || {
            config
                .raw_value("DebugFlags")
                .map(|text| text.split(',').map(|flag| flag.trim().to_owned()).collect())
                .unwrap_or_default()
        };
        let mut flags: Vec<String> = runtime.debug_flags.clone().unwrap_or_else(configured);
        for flag in request.add_flags {
            if !flags.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
                flags.push(flag);
            }
        }
        flags.retain(|flag| {
            !request
                .remove_flags
                .iter()
                .any(|gone| gone.eq_ignore_ascii_case(flag))
        });
        runtime.debug_flags = Some(flags);
    }
    if let Some(level) = request.sched_log_level {
        // Without a log of its own the scheduler has no level.
        if config.raw_value("SlurmSchedLogFile").is_none() {
            return Err(status_from(ErrorCode::Disabled, ""));
        }
        runtime.sched_log_level = Some(level);
    }
    if let Some(factor) = request.fair_share_dampening {
        runtime.dampening = Some(factor);
    }
    Ok(())
}
