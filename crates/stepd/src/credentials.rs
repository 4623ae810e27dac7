//! Who the tasks and files of a step belong to, and how the daemon becomes that user: for a moment (to open files) or for
//! good (in a task).
//!
//! Invariant: a step of a user never runs, and no file of it is opened, with another identity; when the switch is not
//! possible the step is refused. Groups come from the node's own user database, the numeric ids from the controller.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{self, Gid, Uid};
use sluice_model::launch::Credentials;

/// Why a step cannot run as its user.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The daemon has no right to become somebody else.
    #[error(
        "cannot run as uid {wanted}: agentd runs as uid {own} and not as root, so it can only run jobs of its own user"
    )]
    NotRoot {
        /// The job's owner.
        wanted: u32,
        /// The daemon's user.
        own: u32,
    },
    /// The launch names no usable user.
    #[error("cannot run as uid {uid}: the launch names no user")]
    NoName {
        /// Its uid.
        uid: u32,
    },
    /// The kernel or the user database refused.
    #[error("cannot {action} for uid {uid}: {errno}")]
    System {
        /// What was tried.
        action: &'static str,
        /// For whom.
        uid: u32,
        /// Cause.
        errno: Errno,
    },
}

/// The user of a step, resolved on this node.
#[derive(Debug, Clone)]
pub struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// False when the daemon already is that user and cannot be anybody else.
    switch: bool,
}

impl User {
    /// Looks up the supplementary groups.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn resolve(credentials: &Credentials) -> Result<Self, CredentialsError> {
        let (uid, gid) = (
            Uid::from_raw(credentials.uid),
            Gid::from_raw(credentials.gid),
        );
        let own = unistd::geteuid();
        if !own.is_root() {
            return if own == uid {
                Ok(Self {
                    uid,
                    gid,
                    groups: Vec::new(),
                    switch: false,
                })
            } else {
                Err(CredentialsError::NotRoot {
                    wanted: uid.as_raw(),
                    own: own.as_raw(),
                })
            };
        }
        if credentials.user_name.is_empty() {
            return Err(CredentialsError::NoName { uid: uid.as_raw() });
        }
        let name = CString::new(credentials.user_name.as_str())
            .map_err(|_| CredentialsError::NoName { uid: uid.as_raw() })?;
        let groups =
            unistd::getgrouplist(&name, gid).map_err(|errno| CredentialsError::System {
                action: "look up the groups",
                uid: uid.as_raw(),
                errno,
            })?;
        Ok(Self {
            uid,
            gid,
            groups,
            switch: true,
        })
    }

    /// Runs `body` with this user's rights on files. The process must have one thread.
    ///
    /// # Errors
    /// When the identity cannot be taken or given back; in the second case the process must end.
    pub fn act<R>(&self, body: impl FnOnce() -> R) -> Result<R, CredentialsError> {
        if !self.switch {
            return Ok(body());
        }
        let uid = self.uid.as_raw();
        let step = |action, result: nix::Result<()>| {
            result.map_err(|errno| CredentialsError::System { action, uid, errno })
        };
        let own_groups = unistd::getgroups().map_err(|errno| CredentialsError::System {
            action: "read the own groups",
            uid,
            errno,
        })?;
        let own_gid = unistd::getegid();
        step("set the groups", unistd::setgroups(&self.groups))?;
        step("set the group", unistd::setegid(self.gid))?;
        step("set the user", unistd::seteuid(self.uid))?;
        let result = body();
        step("give back the user", unistd::seteuid(Uid::from_raw(0)))?;
        step("give back the group", unistd::setegid(own_gid))?;
        step("give back the groups", unistd::setgroups(&own_groups))?;
        Ok(result)
    }

    /// Becomes the user for good.
    ///
    /// # Errors
    /// When the kernel refuses; the process must not go on to run the user's program then.
    pub fn become_for_good(&self) -> nix::Result<()> {
        if !self.switch {
            return Ok(());
        }
        unistd::setgroups(&self.groups)?;
        unistd::setresgid(self.gid, self.gid, self.gid)?;
        unistd::setresuid(self.uid, self.uid, self.uid)
    }

    /// Owner to give to files made by the daemon itself; `None` when it is the user already.
    pub fn owner(&self) -> Option<(Uid, Gid)> {
        self.switch.then_some((self.uid, self.gid))
    }
}
