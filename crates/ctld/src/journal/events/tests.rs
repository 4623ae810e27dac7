//! Tests of the state folder as a whole: replay on top of checkpoints, fallbacks, versions, crashes between the steps.

use super::super::encode_state;
use super::*;
use std::fs;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Event {
    Added { amount: u64 },
    Named(String),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    sum: u64,
    names: Vec<String>,
}

impl State {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Added { amount } => self.sum += amount,
            Event::Named(name) => self.names.push(name),
        }
    }
}

fn options() -> EventJournalOptions {
    EventJournalOptions {
        segment_bytes_max: 1,
        ..EventJournalOptions::new(1, 1)
    }
}

fn open_with(
    dir: &Path,
    options: EventJournalOptions,
) -> Result<(EventJournal<Event>, State, Recovery), JournalError> {
    let (journal, recovery) = EventJournal::open(dir, options)?;
    let mut state = recovery
        .state::<State>()?
        .map(|(_, state)| state)
        .unwrap_or_default();
    for item in journal.replay_after(recovery.replay_after) {
        state.apply(item?.1.event);
    }
    Ok((journal, state, recovery))
}

fn open(dir: &Path) -> (EventJournal<Event>, State, Recovery) {
    open_with(dir, options()).expect("open")
}

fn add(journal: &mut EventJournal<Event>, state: &mut State, amount: u64) -> Position {
    let event = Event::Added { amount };
    journal
        .append(1_700_000_000_000, std::slice::from_ref(&event))
        .expect("append");
    state.apply(event);
    journal.sync().expect("sync")
}

fn checkpoint(journal: &EventJournal<Event>, state: &State) -> Position {
    let payload = encode_state(state).expect("encode");
    journal
        .checkpoints()
        .write(journal.durable(), 1, &payload)
        .expect("write")
}

#[test]
fn state_is_checkpoint_plus_replay_wherever_a_crash_falls() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, mut state, _) = open(dir.path());
    for amount in 1..=4 {
        add(&mut journal, &mut state, amount);
    }
    checkpoint(&journal, &state); // crash between checkpoint and prune
    drop(journal);
    let (mut journal, again, recovery) = open(dir.path());
    assert_eq!((again, recovery.replay_after), (state.clone(), Position(4)));
    add(&mut journal, &mut state, 10);
    let oldest = checkpoint(&journal, &state);
    assert_eq!(oldest, Position(4), "the older checkpoint still counts");
    assert_eq!(journal.prune(oldest).expect("prune").len(), 4);
    add(&mut journal, &mut state, 100);
    drop(journal);
    let (journal, again, recovery) = open(dir.path());
    assert_eq!((again.sum, recovery.replay_after), (120, Position(5)));
    drop(journal);
    // The newest checkpoint is damaged: the older one and a longer replay give the same state.
    let newest = recovery.checkpoint.expect("checkpoint").path;
    fs::write(&newest, b"rubbish").expect("damage");
    let (_, again, recovery) = open(dir.path());
    assert_eq!((again.sum, recovery.replay_after), (120, Position(4)));
    assert!(
        recovery.report.warnings()[0].contains("is passed over"),
        "{:?}",
        recovery.report
    );
}

#[test]
fn without_a_readable_checkpoint_a_pruned_journal_is_refused_but_can_be_left_behind() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, mut state, _) = open(dir.path());
    for amount in 1..=3 {
        add(&mut journal, &mut state, amount);
    }
    let oldest = checkpoint(&journal, &state);
    journal.prune(oldest).expect("prune");
    let path = journal.checkpoints().path_of(oldest);
    drop(journal);
    fs::write(&path, b"rubbish").expect("damage");
    let text = open_with(dir.path(), options())
        .expect_err("no base")
        .to_string();
    assert!(
        text.contains("begins at position 3")
            && text.contains("passed over")
            && text.contains("-c"),
        "{text}"
    );
    let (mut journal, mut state, _) = open_with(
        dir.path(),
        EventJournalOptions {
            begin_empty: true,
            ..options()
        },
    )
    .expect("empty");
    assert_eq!(state, State::default());
    assert_eq!(
        add(&mut journal, &mut state, 7),
        Position(4),
        "positions go on"
    );
    checkpoint(&journal, &state);
    drop(journal);
    assert_eq!(open(dir.path()).1.sum, 7);
}

#[test]
fn a_second_daemon_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let (_journal, _, _) = open(dir.path());
    assert!(matches!(
        open_with(dir.path(), options()),
        Err(JournalError::Locked { .. })
    ));
}

#[test]
fn events_of_a_newer_release_are_refused_by_version() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) =
        EventJournal::<(u8, u8)>::open(dir.path(), EventJournalOptions::new(3, 1))
            .expect("newer release");
    journal.append(0, &[(1, 2)]).expect("append");
    journal.sync().expect("sync");
    drop(journal);
    let text = open_with(dir.path(), options())
        .expect_err("newer")
        .to_string();
    assert!(
        text.contains("has format 3, this ctld reads formats up to 1"),
        "{text}"
    );
}

#[test]
fn an_unknown_event_is_refused_with_its_position() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = EventJournal::<u8>::open(dir.path(), options()).expect("other");
    journal.append(0, &[1]).expect("append");
    journal.sync().expect("sync");
    drop(journal);
    let text = open_with(dir.path(), options())
        .expect_err("unknown")
        .to_string();
    assert!(
        text.contains("the event at journal position 1 cannot be read"),
        "{text}"
    );
}

#[test]
fn state_of_a_newer_release_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let (journal, state, _) = open(dir.path());
    journal
        .checkpoints()
        .write(Position(0), 2, &encode_state(&state).expect("encode"))
        .expect("write");
    drop(journal);
    let text = open_with(dir.path(), options())
        .expect_err("newer")
        .to_string();
    assert!(text.contains("reads state format 2"), "{text}");
}

#[tokio::test]
async fn a_follower_gets_each_event_once_while_the_writer_goes_on() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, mut state, _) = open(dir.path());
    let mut reader = journal.reader_after(Position::ZERO);
    let mut durable = reader.durable_watch();
    let writer = tokio::task::spawn_blocking(move || {
        for amount in 1..=50 {
            add(&mut journal, &mut state, amount);
        }
        journal
    });
    let mut seen = Vec::new();
    while seen.len() < 50 {
        while let Some((position, record)) = reader.next_event().expect("read") {
            assert_eq!(record.event, Event::Added { amount: position.0 });
            assert_eq!((record.version, record.time_ms), (1, 1_700_000_000_000));
            seen.push(position.0);
        }
        if seen.len() < 50 {
            durable.changed().await.expect("the writer lives");
        }
    }
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    drop(writer.await.expect("writer"));
}

#[test]
fn fields_may_be_added_to_events() {
    #[derive(Serialize)]
    enum Newer {
        Added { amount: u64, why: &'static str },
    }
    let dir = tempfile::tempdir().expect("folder");
    let payload = rmp_serde::to_vec_named(&JournalRecord {
        version: 1,
        time_ms: 5,
        event: Newer::Added {
            amount: 9,
            why: "later field",
        },
    })
    .expect("encode");
    let (mut raw, _) =
        Journal::open(&dir.path().join("journal"), &JournalOptions::default()).expect("open");
    raw.append(&[payload]).expect("append");
    raw.sync().expect("sync");
    drop(raw);
    assert_eq!(open(dir.path()).1.sum, 9);
}
