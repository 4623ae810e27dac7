//! What reads bytes from outside, as functions of bytes: the targets of `cargo fuzz` and of the smoke run on stable.
//!
//! A target may do anything with its input but panic, hang or eat memory; where more must hold (what was written is read back
//! as it was), it asserts it. Targets keep nothing between inputs, except those that say so (`stateful`). No finding is
//! hidden here: a target that must not see some input says why.

pub mod configuration;
pub mod journal;
pub mod messages;
pub mod mutate;
pub mod service;
pub mod smoke;
pub mod submission;
pub mod texts;

/// A reader of outside bytes.
pub struct Target {
    /// Its name on command lines and its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How an input becomes another one.
    pub mutation: mutate::Kind,
    /// Reads one input.
    pub run: fn(&[u8]),
    /// What to do before the first input and from time to time, for targets with a state of their own.
    pub reset: Option<fn()>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    texts::HOSTLIST,
    texts::TIME,
    texts::TRES,
    texts::CONSTRAINT,
    texts::DEPENDENCY,
    texts::NAMES,
    configuration::SLURM_CONF,
    configuration::SPEC,
    submission::SCRIPT,
    submission::COMMAND_LINE,
    messages::ENVELOPE,
    messages::FRAMES,
    messages::TOKEN,
    journal::SEGMENT,
    journal::CHECKPOINT,
    journal::EVENTS,
    service::CALLS,
    service::AGENT,
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs one input of one target, for `cargo fuzz`.
///
/// # Panics
/// When there is no such target, and when the input shows a fault.
pub fn run(name: &str, input: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("no target {name}"));
    if let Some(reset) = target.reset {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(reset);
    }
    (target.run)(input);
}

/// Texts as seeds.
pub(crate) fn texts_of(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
