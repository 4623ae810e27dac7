//! Work on the state folder of a stopped controller: what its files hold, what damage would cost, mending, and replay.
//!
//! Looking changes nothing. What a lost record held is told as far as it can be known: from its bytes read without the
//! checksum, and from job ids that are never given although later ones are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sluice_controller::Cluster;
use sluice_controller::event::{self, Event};
use sluice_controller::transaction::JournalEntry;
use sluice_model::ids::JobId;

use crate::core::checkpoint::{EVENT_VERSION, STATE_VERSION};
use crate::journal::{
    CheckpointFile, Damage, EventJournal, EventJournalOptions, JournalRecord, OnDamage, Position,
    StateLock, Survey, encode_state, survey,
};

/// Ids that are listed one by one at most; a damaged number must not make an endless list.
const IDS_MAX: u32 = 10_000;

/// One damage and what is known of what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Where.
    pub damage: Damage,
    /// The state does not need it: a newer checkpoint is whole. Only accounting may miss it.
    pub covered: bool,
    /// Events in the unreadable bytes, read without the checksum; they may be wrong.
    pub events: Vec<String>,
    /// Jobs that were submitted there and are gone.
    pub lost_jobs: BTreeSet<u32>,
    /// Other jobs that are named there: they keep an older state.
    pub older_jobs: BTreeSet<u32>,
}

/// What is in a state folder.
#[derive(Debug)]
pub struct Findings {
    survey: Survey,
    /// Every damage of confirmed records.
    pub losses: Vec<Loss>,
    /// Why no state can be made of it at all.
    pub hopeless: Option<String>,
}

/// The state folder that is meant by a path: itself, or the journal's folder in it.
///
/// # Errors
/// When there is no journal.
pub fn state_dir(path: &Path) -> anyhow::Result<PathBuf> {
    if path.join("journal").is_dir() {
        return Ok(path.to_owned());
    }
    if path.file_name().is_some_and(|name| name == "journal") && path.is_dir() {
        return Ok(path.parent().unwrap_or(path).to_owned());
    }
    bail!(
        "{} holds no journal: give the folder of StateSaveLocation",
        path.display()
    )
}

/// Looks at a state folder without changing it.
///
/// # Errors
/// Files that cannot be read, or of a newer format.
pub fn check(state_dir: &Path) -> anyhow::Result<Findings> {
    let survey = survey(state_dir)?;
    let base = survey.base();
    let from = base.map_or(Position::ZERO, |file| file.position);
    let first_needed = survey
        .report
        .first
        .filter(|first| *first > from.next())
        .filter(|_| survey.report.skipped.is_empty());
    let mut hopeless = match (base, first_needed) {
        (None, _) => Some(
            "no checkpoint can be read: there is nothing that the journal could begin with"
                .to_owned(),
        ),
        (Some(_), Some(first)) => Some(format!(
            "the journal begins at position {first}, the newest readable checkpoint is at {from}"
        )),
        _ => None,
    };
    let mut cluster: Option<Cluster> = None;
    if let Some(file) = base {
        match state_in(file) {
            Ok(state) => cluster = Some(state),
            Err(error) => hopeless = Some(format!("{error:#}")),
        }
    }
    let mut losses: Vec<Loss> = survey
        .report
        .skipped
        .iter()
        .zip(&survey.remains)
        .map(|(damage, remains)| loss(damage, remains, from))
        .collect();
    if let Some(cluster) = &mut cluster {
        walk(&survey, from, cluster, &mut losses);
        for loss in &mut losses {
            loss.older_jobs
                .retain(|id| cluster.jobs.contains_key(&JobId(*id)));
        }
    }
    Ok(Findings {
        survey,
        losses,
        hopeless,
    })
}

/// The state in a checkpoint.
fn state_in(file: &CheckpointFile) -> anyhow::Result<Cluster> {
    rmp_serde::from_slice(&file.payload).with_context(|| {
        format!(
            "the checkpoint {} cannot be understood",
            file.path.display()
        )
    })
}

/// What a record holds.
fn entry_in(payload: &[u8]) -> Result<JournalEntry, rmp_serde::decode::Error> {
    rmp_serde::from_slice::<JournalRecord<JournalEntry>>(payload).map(|record| record.event)
}

fn loss(damage: &Damage, remains: &[Vec<u8>], from: Position) -> Loss {
    let mut events = Vec::new();
    let mut named = BTreeSet::new();
    let mut submitted = BTreeSet::new();
    for payload in remains {
        match entry_in(payload) {
            Ok(entry) => {
                for event in &entry.events {
                    let (text, ids) = describe(event);
                    events.push(text);
                    if matches!(event, Event::JobSubmitted { .. }) {
                        submitted.extend(&ids);
                    }
                    named.extend(ids);
                }
            }
            Err(_) => named.extend(ids_in(payload)),
        }
    }
    Loss {
        covered: damage.lost.1.is_some_and(|last| last <= from),
        damage: damage.clone(),
        events,
        lost_jobs: submitted,
        older_jobs: named,
    }
}

/// Name of an event with the jobs it is about.
fn describe(event: &Event) -> (String, BTreeSet<u32>) {
    let value = serde_json::to_value(event).unwrap_or_default();
    let Some((name, fields)) = value.as_object().and_then(|map| map.iter().next()) else {
        return ("an event".to_owned(), BTreeSet::new());
    };
    let number = |value: &serde_json::Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let mut ids: BTreeSet<u32> = fields.get("job_id").and_then(number).into_iter().collect();
    ids.extend(
        fields
            .get("job")
            .and_then(|job| job.get("id"))
            .and_then(number),
    );
    if let Some(jobs) = fields.get("jobs").and_then(|jobs| jobs.as_array()) {
        ids.extend(jobs.iter().filter_map(number));
    }
    let text = match ids.iter().next() {
        Some(id) if ids.len() == 1 => format!("{name} (job {id})"),
        Some(_) => format!("{name} (jobs {})", list(&ids)),
        None => name.clone(),
    };
    (text, ids)
}

/// Values of the keys `job_id` in MessagePack, wherever they stand.
fn ids_in(payload: &[u8]) -> BTreeSet<u32> {
    const KEY: &[u8] = b"\xa6job_id";
    payload
        .windows(KEY.len())
        .enumerate()
        .filter(|(_, window)| *window == KEY)
        .filter_map(|(at, _)| rmp_serde::from_slice::<u32>(payload.get(at + KEY.len()..)?).ok())
        .collect()
}

/// Ids that an event gives for the first time.
fn new_ids(event: &Event) -> Vec<JobId> {
    match event {
        Event::JobSubmitted { job } => vec![job.id],
        Event::JobStarted { split_id, .. } | Event::ArrayTaskSplit { split_id, .. } => {
            split_id.iter().copied().collect()
        }
        Event::ArrayTasksRemoved { split_ids, .. } => split_ids.clone(),
        _ => Vec::new(),
    }
}

/// Goes through what is readable; ids that were given inside a damage are found by the next one given after it.
fn walk(survey: &Survey, from: Position, cluster: &mut Cluster, losses: &mut [Loss]) {
    let mut open: Option<usize> = None;
    for record in survey
        .records
        .iter()
        .filter(|record| record.position > from)
    {
        let passed = losses.iter().position(|loss| {
            !loss.covered && loss.damage.lost.1 == Some(record.position.previous())
        });
        open = passed.or(open);
        let Ok(entry) = entry_in(&record.payload) else {
            continue;
        };
        for event in &entry.events {
            if let (Some(index), Some(id)) = (open, new_ids(event).first()) {
                let expected = cluster.next_job_id.0;
                let missing = expected..id.0.min(expected.saturating_add(IDS_MAX));
                losses[index].lost_jobs.extend(missing);
                open = None;
            }
            event::apply(cluster, event);
        }
    }
    for loss in losses {
        loss.lost_jobs
            .retain(|id| !cluster.jobs.contains_key(&JobId(*id)));
    }
}

fn list(ids: &BTreeSet<u32>) -> String {
    let texts: Vec<String> = ids.iter().map(u32::to_string).collect();
    texts.join(", ")
}

impl Findings {
    /// A start of `ctld` accepts the folder as it is.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.losses.is_empty() && self.hopeless.is_none()
    }

    /// All of it in words, a line each.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for one in &self.survey.checkpoints {
            let _ = match &one.content {
                Ok(file) => writeln!(
                    text,
                    "checkpoint {}: whole, up to position {}",
                    one.path.display(),
                    file.position
                ),
                Err(why) => writeln!(
                    text,
                    "checkpoint {}: unreadable, passed over: {why}",
                    one.path.display()
                ),
            };
        }
        let report = &self.survey.report;
        let first = report.first.unwrap_or(Position::ZERO);
        let _ = writeln!(
            text,
            "journal: {} segments, {} records, positions {first} to {}",
            report.segments, report.records, report.last
        );
        if let Some(torn) = &report.torn {
            let _ = writeln!(
                text,
                "unfinished write: {} at offset {}: {} bytes; nobody was told of it, the next start cuts it off",
                torn.file.display(),
                torn.offset,
                torn.bytes
            );
        }
        for loss in &self.losses {
            let _ = writeln!(text, "damage: {}", loss.damage);
            if loss.covered {
                let _ = writeln!(
                    text,
                    "  the state does not need it, a newer checkpoint is whole; accounting may miss it if it was behind"
                );
            }
            if !loss.events.is_empty() {
                let _ = writeln!(
                    text,
                    "  read without its checksum: {}",
                    loss.events.join(", ")
                );
            }
            if !loss.covered && !loss.lost_jobs.is_empty() {
                let _ = writeln!(text, "  jobs that would be lost: {}", list(&loss.lost_jobs));
            }
            if !loss.covered && !loss.older_jobs.is_empty() {
                let _ = writeln!(
                    text,
                    "  jobs that would go back to an older state: {}",
                    list(&loss.older_jobs)
                );
            }
            if !loss.covered
                && loss.events.is_empty()
                && loss.lost_jobs.is_empty()
                && loss.older_jobs.is_empty()
            {
                let _ = writeln!(text, "  which jobs it was about cannot be told");
            }
        }
        if let Some(why) = &self.hopeless {
            let _ = writeln!(text, "no state: {why}");
        }
        text
    }
}

/// Mends a state folder: unreadable checkpoints are put aside, an unfinished write is cut off, and damage is skipped if the loss
/// is accepted (the damaged file is kept beside). Gives what was done, a line each.
///
/// # Errors
/// A running controller, damage without `accept_loss`, or a folder that no state can be made of.
pub fn repair(state_dir: &Path, accept_loss: bool) -> anyhow::Result<Vec<String>> {
    let lock = StateLock::acquire(state_dir)?;
    let found = check(state_dir)?;
    if let Some(why) = &found.hopeless {
        bail!(
            "{why}\n\nhint: restore the checkpoints folder from a backup, or start ctld with -c to begin with an empty state"
        );
    }
    if !found.losses.is_empty() && !accept_loss {
        bail!(
            "confirmed records are unreadable; nothing was changed\n{}\nhint: restore the file from a backup; or repair with \
             --accept-loss, which keeps a copy of each damaged file and loses what is listed above",
            found.report()
        );
    }
    let mut done = Vec::new();
    for one in found
        .survey
        .checkpoints
        .iter()
        .filter(|one| one.content.is_err())
    {
        let aside = one.path.with_extension("ckpt.damaged");
        std::fs::rename(&one.path, &aside)
            .with_context(|| format!("{} cannot be renamed", one.path.display()))?;
        done.push(format!(
            "checkpoint {} was put aside as {}",
            one.path.display(),
            aside.display()
        ));
    }
    // The journal takes the lock itself.
    drop(lock);
    let mut options = EventJournalOptions::new(EVENT_VERSION, STATE_VERSION);
    options.on_damage = if accept_loss {
        OnDamage::Skip
    } else {
        OnDamage::Refuse
    };
    let (_, recovery) = EventJournal::<JournalEntry>::open(state_dir, options)?;
    done.extend(recovery.report.warnings());
    Ok(done)
}

/// The state that the files of a folder give, up to a position, as bytes, with the position it is at.
///
/// With `from_oldest` it begins with the oldest checkpoint that is kept, else with the newest before `until`.
///
/// # Errors
/// Damage, or no checkpoint to begin with.
pub fn replay(
    state_dir: &Path,
    until: Option<Position>,
    from_oldest: bool,
) -> anyhow::Result<(Position, Vec<u8>)> {
    let found = survey(state_dir)?;
    if let Some(damage) = found.report.skipped.first() {
        bail!("the journal is damaged: {damage}");
    }
    let until = until.unwrap_or(Position(u64::MAX));
    let mut bases = found
        .checkpoints
        .iter()
        .filter_map(|one| one.content.as_ref().ok())
        .filter(|file| file.position <= until);
    let base = if from_oldest {
        bases.next()
    } else {
        bases.next_back()
    };
    let base = base.context("there is no checkpoint to begin with")?;
    let mut cluster = state_in(base)?;
    let mut at = base.position;
    for record in &found.records {
        if record.position <= base.position || record.position > until {
            continue;
        }
        let entry = entry_in(&record.payload).with_context(|| {
            format!(
                "the event at position {} cannot be understood",
                record.position
            )
        })?;
        for event in &entry.events {
            event::apply(&mut cluster, event);
        }
        at = record.position;
    }
    Ok((at, encode_state(&cluster)?))
}
