//! What a command needs for the way over TCP: a token that says who calls, and the pin of the controller's key.
//!
//! Looked for only when no Unix socket answers, so that it costs local commands nothing. Both may come from the agent of this
//! machine, in one answer. Invariant: a pin that is there and cannot be read as one is an error, never a reason to go without.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sluice_tls::{PIN_FILE, PIN_VARIABLE, Pin, ServerKey, Trust};
use tonic::metadata::{Ascii, MetadataValue};

use super::{ClientError, Settings, address};

/// How long the agent may take to answer.
const AGENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest cluster key, in bytes; `ctld` takes no shorter one.
const KEY_BYTES_MIN: usize = 16;

/// Token and pin.
#[derive(Debug)]
pub(super) struct Credentials {
    /// Value of the `authorization` header.
    pub(super) token: Option<MetadataValue<Ascii>>,
    /// Whom to take for the controller.
    pub(super) trust: Trust,
}

/// What an agent says on its socket.
#[derive(Debug, Default)]
struct AgentAnswer {
    token: Option<String>,
    pin: Option<String>,
}

impl Credentials {
    /// The token of SLURM_JWT, else one from the agent of this machine. The pin of its variable, else of the cluster key where
    /// the caller can read it, else the agent's, else of a file. `variable` looks up environment variables.
    pub(super) fn find(
        settings: &Settings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ClientError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let host = address::short_hostname();
        let node = variable("SLURMD_NODENAME").unwrap_or_else(|| host.clone());
        let token = variable("SLURM_JWT");
        let known = match variable(PIN_VARIABLE) {
            Some(text) => Some(parse(&text, PIN_VARIABLE)?),
            None => pin_of_key(settings),
        };
        let agent = if token.is_none() || known.is_none() {
            ask_agent(settings, &host, &node)
        } else {
            AgentAnswer::default()
        };
        let pin = match (known, agent.pin) {
            (Some(pin), _) => Some(pin),
            (None, Some(text)) => Some(parse(&text, "the agent's socket")?),
            (None, None) => pin_of_file(settings)?,
        };
        Ok(Credentials {
            token: token
                .or(agent.token)
                .and_then(|token| format!("Bearer {token}").parse().ok()),
            trust: pin.map_or(Trust::LoopbackOnly, Trust::Pinned),
        })
    }
}

fn parse(text: &str, place: &str) -> Result<Pin, ClientError> {
    text.trim()
        .parse()
        .map_err(|error| ClientError::Other(format!("{place}: {error}")))
}

fn pin_of_key(settings: &Settings) -> Option<Pin> {
    let bytes = settings
        .key_candidates()
        .iter()
        .find_map(|path| std::fs::read(path).ok())?;
    if bytes.len() < KEY_BYTES_MIN {
        return None;
    }
    ServerKey::derive(&bytes).ok().map(|key| key.pin())
}

fn pin_of_file(settings: &Settings) -> Result<Option<Pin>, ClientError> {
    for path in settings.pin_candidates(PIN_FILE) {
        let found = Pin::read(&path)
            .map_err(|error| ClientError::Other(format!("{}: {error}", path.display())))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn ask_agent(settings: &Settings, host: &str, node: &str) -> AgentAnswer {
    let Ok(stream) = UnixStream::connect(settings.token_socket(host, node)) else {
        return AgentAnswer::default();
    };
    if stream.set_read_timeout(Some(AGENT_TIMEOUT)).is_err() {
        return AgentAnswer::default();
    }
    let mut lines = BufReader::new(stream).lines();
    let mut next = || {
        let line = lines.next()?.ok()?;
        let line = line.trim();
        (!line.is_empty()).then(|| line.to_string())
    };
    AgentAnswer {
        token: next(),
        pin: next(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    fn pin(cluster_key: u8) -> Pin {
        ServerKey::derive(&[cluster_key; 32])
            .expect("derived")
            .pin()
    }

    fn settings(folder: &Path) -> Settings {
        let conf = folder.join("slurm.conf");
        std::fs::create_dir_all(folder.join("state")).expect("folder");
        std::fs::write(
            &conf,
            format!(
                "AuthAltParameters=disable_token_creation,jwt_key={0}/keys/jwt\nStateSaveLocation={0}/state\n\
                 SlurmdSpoolDir={0}/spool-%n\n",
                folder.display()
            ),
        )
        .expect("write");
        Settings::read(&conf).expect("readable")
    }

    /// Each place wins over those after it, and only what is nowhere is `LoopbackOnly`.
    #[test]
    fn the_pin_is_found_in_each_place() {
        let folder = tempfile::tempdir().expect("folder");
        let settings = settings(folder.path());
        let trust = |pin_variable: Option<Pin>| {
            let value = pin_variable.map(|pin| pin.to_string());
            let variable = move |name: &str| match name {
                "SLURM_JWT" => Some("a.b.c".to_string()),
                "SLURMD_NODENAME" => Some("n1".to_string()),
                PIN_VARIABLE => value.clone(),
                _ => None,
            };
            let found = Credentials::find(&settings, variable).expect("found");
            let token = found.token.expect("a token");
            assert_eq!(token.to_str().expect("text"), "Bearer a.b.c");
            found.trust
        };
        assert_eq!(trust(None), Trust::LoopbackOnly);
        pin(1).publish(&settings.state_dir).expect("written");
        assert_eq!(trust(None), Trust::Pinned(pin(1)));
        pin(2).publish(folder.path()).expect("written");
        assert_eq!(trust(None), Trust::Pinned(pin(2)));
        let spool = folder.path().join("spool-n1");
        std::fs::create_dir(&spool).expect("folder");
        let listener = UnixListener::bind(spool.join("auth.sock")).expect("listen");
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            write!(stream, "agent.s.token\n{}\n", pin(3)).expect("write");
        });
        assert_eq!(trust(None), Trust::Pinned(pin(3)));
        agent.join().expect("asked once");
        std::fs::create_dir(folder.path().join("keys")).expect("folder");
        std::fs::write(folder.path().join("keys/jwt"), [4; 32]).expect("write");
        assert_eq!(trust(None), Trust::Pinned(pin(4)));
        assert_eq!(trust(Some(pin(5))), Trust::Pinned(pin(5)));
    }

    /// Without this, a slip in the variable or a damaged file would turn the check off.
    #[test]
    fn what_is_no_pin_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        let settings = settings(folder.path());
        let variable = |name: &str| (name == PIN_VARIABLE).then(|| "sha256:12".to_string());
        let error = Credentials::find(&settings, variable).expect_err("refused");
        assert!(
            error.to_string().starts_with("SLUICE_CTLD_KEY: "),
            "{error}"
        );
        std::fs::write(folder.path().join("ctld.pub"), "").expect("write");
        let error = Credentials::find(&settings, |_| None).expect_err("refused");
        assert!(error.to_string().contains("ctld.pub: "), "{error}");
    }

    /// Token and pin come in one answer; an agent of an older version gives the token alone.
    #[test]
    fn an_agent_gives_both() {
        for (answer, trust) in [
            (
                format!("agent.s.token\n{}\n", pin(3)),
                Trust::Pinned(pin(3)),
            ),
            ("agent.s.token\n".to_string(), Trust::LoopbackOnly),
        ] {
            let folder = tempfile::tempdir().expect("folder");
            let settings = settings(folder.path());
            let spool = folder.path().join("spool-n1");
            std::fs::create_dir(&spool).expect("folder");
            let listener = UnixListener::bind(spool.join("auth.sock")).expect("listen");
            let agent = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("accept");
                stream.write_all(answer.as_bytes()).expect("write");
            });
            let variable = |name: &str| (name == "SLURMD_NODENAME").then(|| "n1".to_string());
            let found = Credentials::find(&settings, variable).expect("found");
            agent.join().expect("asked once");
            let token = found.token.expect("a token");
            assert_eq!(token.to_str().expect("text"), "Bearer agent.s.token");
            assert_eq!(found.trust, trust);
        }
    }
}
