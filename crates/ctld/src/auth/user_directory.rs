//! Users and groups of this machine, by way of the name service (files, LDAP, …), which may be slow or hang.
//!
//! Answers are kept for a minute, "unknown" included. The `find_*` calls are for async code: they look up on a blocking thread
//! and give up after a deadline, so that a dead directory server costs one caller its request, never the daemon.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid, User, getgrouplist};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// How long an answer is used again.
const ANSWER_LIFE: Duration = Duration::from_secs(60);
/// How long an async caller waits.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(5);
/// How many answers are kept; above that the old ones are dropped.
const ANSWERS_MAX: usize = 20_000;
/// How many lookups may hang at the same time.
const LOOKUPS_MAX: usize = 64;

/// A user as the name service knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Login name.
    pub name: String,
    /// Home folder.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

/// Why there is no answer (an unknown user is an answer).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The name service reported an error.
    #[error("the name service cannot look {what} up: {reason}")]
    Failed {
        /// `uid 1000` or `user alice`.
        what: String,
        /// Its error.
        reason: String,
    },
    /// It did not answer in time.
    #[error(
        "the name service did not answer in time when asked for {what}\n\nhint: check the directory server (sssd, LDAP) on ctld's machine"
    )]
    Slow {
        /// What was asked for.
        what: String,
    },
}

type Answer<T> = (Instant, T);

#[derive(Debug, Default)]
struct Cache {
    by_uid: HashMap<u32, Answer<Option<UserRecord>>>,
    by_name: HashMap<String, Answer<Option<UserRecord>>>,
    groups: HashMap<(String, u32), Answer<Vec<u32>>>,
}

/// The machine's users, with a memory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UserDirectory {
    cache: Arc<Mutex<Cache>>,
    lookups: Arc<Semaphore>,
    deadline: Duration,
}

impl Default for UserDirectory {
    fn default() -> Self {
        UserDirectory {
            cache: Arc::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            deadline: LOOKUP_DEADLINE,
        }
    }
}

impl UserDirectory {
    /// The user with this id; `None` when there is none. Blocks.
    ///
    /// # Errors
    /// [`LookupError::Failed`].
    pub fn by_uid(&self, uid: u32) -> Result<Option<UserRecord>, LookupError> {
        if let Some(known) = fresh(self.cache.lock().by_uid.get(&uid)) {
            return Ok(known);
        }
        let found = User::from_uid(Uid::from_raw(uid))
            .map_err(|error| failed(format!("uid {uid}"), error))?;
        let record = found.map(UserRecord::from);
        keep(&mut self.cache.lock().by_uid, uid, record.clone());
        Ok(record)
    }

    /// The user of this name; `None` when there is none. Blocks.
    ///
    /// # Errors
    /// [`LookupError::Failed`].
    pub fn by_name(&self, name: &str) -> Result<Option<UserRecord>, LookupError> {
        if let Some(known) = fresh(self.cache.lock().by_name.get(name)) {
            return Ok(known);
        }
        if name.contains('\0') {
            return Ok(None);
        }
        let found = User::from_name(name).map_err(|error| failed(format!("user {name}"), error))?;
        let record = found.map(UserRecord::from);
        keep(
            &mut self.cache.lock().by_name,
            name.to_owned(),
            record.clone(),
        );
        Ok(record)
    }

    /// All groups of a user, the primary one among them. Blocks.
    ///
    /// # Errors
    /// [`LookupError::Failed`].
    pub fn groups(&self, user: &UserRecord) -> Result<Vec<u32>, LookupError> {
        let key = (user.name.clone(), user.gid);
        if let Some(known) = fresh(self.cache.lock().groups.get(&key)) {
            return Ok(known);
        }
        let what = || format!("the groups of user {}", user.name);
        let name = CString::new(user.name.as_str()).map_err(|_| LookupError::Failed {
            what: what(),
            reason: "the name holds a zero byte".to_owned(),
        })?;
        let found =
            getgrouplist(&name, Gid::from_raw(user.gid)).map_err(|error| failed(what(), error))?;
        let groups: Vec<u32> = found.into_iter().map(Gid::as_raw).collect();
        keep(&mut self.cache.lock().groups, key, groups.clone());
        Ok(groups)
    }

    /// As [`UserDirectory::by_uid`], for async code.
    ///
    /// # Errors
    /// [`LookupError`].
    pub async fn find_uid(&self, uid: u32) -> Result<Option<UserRecord>, LookupError> {
        if let Some(known) = fresh(self.cache.lock().by_uid.get(&uid)) {
            return Ok(known);
        }
        let directory = self.clone();
        self.on_blocking_thread(format!("uid {uid}"), move || directory.by_uid(uid))
            .await
    }

    /// As [`UserDirectory::by_name`], for async code.
    ///
    /// # Errors
    /// [`LookupError`].
    pub async fn find_name(&self, name: &str) -> Result<Option<UserRecord>, LookupError> {
        if let Some(known) = fresh(self.cache.lock().by_name.get(name)) {
            return Ok(known);
        }
        let (directory, name) = (self.clone(), name.to_owned());
        self.on_blocking_thread(format!("user {name}"), move || directory.by_name(&name))
            .await
    }

    /// As [`UserDirectory::groups`], for async code.
    ///
    /// # Errors
    /// [`LookupError`].
    pub async fn find_groups(&self, user: &UserRecord) -> Result<Vec<u32>, LookupError> {
        let (directory, user) = (self.clone(), user.clone());
        self.on_blocking_thread(format!("the groups of user {}", user.name), move || {
            directory.groups(&user)
        })
        .await
    }

    async fn on_blocking_thread<T: Send + 'static>(
        &self,
        what: String,
        look_up: impl FnOnce() -> Result<T, LookupError> + Send + 'static,
    ) -> Result<T, LookupError> {
        let lookups = self.lookups.clone();
        let asked = async move {
            let permit = lookups.acquire_owned().await.ok();
            // The permit goes with the thread: a lookup that hangs keeps counting after its caller gave up.
            tokio::task::spawn_blocking(move || {
                let answer = look_up();
                drop(permit);
                answer
            })
            .await
        };
        match tokio::time::timeout(self.deadline, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(join)) => Err(LookupError::Failed {
                what,
                reason: join.to_string(),
            }),
            Err(_) => Err(LookupError::Slow { what }),
        }
    }
}

impl From<User> for UserRecord {
    fn from(user: User) -> Self {
        UserRecord {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            name: user.name,
            home: user.dir,
            shell: user.shell,
        }
    }
}

fn failed(what: String, error: nix::Error) -> LookupError {
    LookupError::Failed {
        what,
        reason: error.desc().to_owned(),
    }
}

fn fresh<T: Clone>(answer: Option<&Answer<T>>) -> Option<T> {
    answer
        .filter(|(when, _)| when.elapsed() < ANSWER_LIFE)
        .map(|(_, value)| value.clone())
}

fn keep<K: std::hash::Hash + Eq, T>(answers: &mut HashMap<K, Answer<T>>, key: K, value: T) {
    if answers.len() >= ANSWERS_MAX {
        answers.retain(|_, (when, _)| when.elapsed() < ANSWER_LIFE);
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
    }
    answers.insert(key, (Instant::now(), value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_id_and_by_name() {
        let directory = UserDirectory::default();
        let root = directory.by_uid(0).expect("lookup").expect("root");
        assert_eq!((root.name.as_str(), root.gid), ("root", 0));
        assert_eq!(
            directory.by_name("root").expect("lookup"),
            Some(root.clone())
        );
        assert!(directory.groups(&root).expect("groups").contains(&0));
    }

    #[tokio::test]
    async fn unknown_users_are_an_answer() {
        let directory = UserDirectory::default();
        assert_eq!(
            directory.find_uid(4_000_000_123).await.expect("lookup"),
            None
        );
        assert_eq!(
            directory
                .find_name("no-such-user-here")
                .await
                .expect("lookup"),
            None
        );
        assert_eq!(directory.by_name("ro\0ot").expect("lookup"), None);
        assert!(
            directory.cache.lock().by_uid.contains_key(&4_000_000_123),
            "kept, so that it is not asked for again"
        );
    }

    #[tokio::test]
    async fn a_name_service_that_hangs_is_given_up() {
        let directory = UserDirectory {
            deadline: Duration::from_millis(10),
            ..UserDirectory::default()
        };
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let asked = directory.on_blocking_thread("uid 5".to_owned(), move || {
            // Ends when the test drops the other side.
            let _ = wait.recv();
            Ok(())
        });
        assert_eq!(
            asked.await,
            Err(LookupError::Slow {
                what: "uid 5".to_owned()
            })
        );
        drop(release);
    }
}
