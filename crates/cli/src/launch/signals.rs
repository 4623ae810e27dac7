//! The signals that a command with a running step hears.
//!
//! Nothing is decided here. Source: srun(1) SIGNALS AND ESCAPE SEQUENCES.

use tokio::signal::unix::{SignalKind, signal};

/// The signals srun passes on or acts upon.
pub(super) struct Signals {
    streams: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(pty: bool) -> std::io::Result<Self> {
        use nix::libc::{
            SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
        };
        let mut numbers = vec![
            SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGUSR2, SIGCONT,
        ];
        if pty {
            numbers.push(SIGWINCH);
        }
        let streams = numbers
            .into_iter()
            .map(|number| Ok((number, signal(SignalKind::from_raw(number))?)))
            .collect::<std::io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, stream) in &mut self.streams {
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
