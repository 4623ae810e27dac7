//! The file with the key that signs tokens: whoever can read it can be anybody.
//!
//! Made with 32 random bytes and mode 0600. A file that others can reach is refused rather than mended: its content must be
//! taken as known to them. An existing key may be any bytes from 16 up, so that a site's `jwt_hs256.key` serves.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::TryRng;
use rand::rngs::SysRng;

/// Length of a key that we make, in bytes.
const KEY_BYTES: usize = 32;
/// Shortest key that is accepted, in bytes.
const KEY_BYTES_MIN: usize = 16;
/// Longest file that is taken for a key, in bytes.
const KEY_BYTES_MAX: u64 = 16 << 10;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The system refused.
    #[error("cannot {action} the token key {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others can read or write it.
    #[error(
        "the token key {path} is open to others (mode {mode:04o}): anyone who read it can act as any user\n\nhint: make a new key \
         and keep it to its owner: remove the file and start ctld again, or `chmod 0600` it if nobody can have read it",
        path = path.display()
    )]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to somebody who is neither us nor root.
    #[error(
        "the token key {path} belongs to uid {owner}, ctld runs as uid {us}\n\nhint: `chown` it to the user that ctld runs as",
        path = path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our user.
        us: u32,
    },
    /// Too short or too long.
    #[error(
        "the token key {path} has {bytes} bytes, a key has 16 bytes to 16 KiB\n\nhint: make one with `dd if=/dev/random \
         of=jwt_hs256.key bs=32 count=1`, or remove the file and let ctld make one",
        path = path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |source| KeyFileError::Io {
        action,
        path,
        source,
    }
}

/// Reads a key, checking who else can.
pub(super) fn load(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    // One open file for check and read: the path may be exchanged in between.
    let file = File::open(path).map_err(io_error("open", path))?;
    let facts = file.metadata().map_err(io_error("look at", path))?;
    let mode = facts.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::TooOpen {
            path: path.to_owned(),
            mode,
        });
    }
    let us = nix::unistd::geteuid().as_raw();
    if facts.uid() != us && facts.uid() != 0 {
        return Err(KeyFileError::Owner {
            path: path.to_owned(),
            owner: facts.uid(),
            us,
        });
    }
    let mut key = Vec::new();
    file.take(KEY_BYTES_MAX + 1)
        .read_to_end(&mut key)
        .map_err(io_error("read", path))?;
    let bytes = key.len() as u64;
    if key.len() < KEY_BYTES_MIN || bytes > KEY_BYTES_MAX {
        return Err(KeyFileError::Length {
            path: path.to_owned(),
            bytes,
        });
    }
    Ok(key)
}

/// Reads a key, making one first when the file does not exist.
pub(super) fn load_or_create(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    match create(path) {
        Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    load(path)
}

/// Makes a key under a name of its own and links it into place, so that no reader ever finds half a key.
fn create(path: &Path) -> Result<(), KeyFileError> {
    if path.exists() {
        return Ok(());
    }
    let mut key = [0; KEY_BYTES];
    SysRng.try_fill_bytes(&mut key).map_err(|error| {
        io_error("get random bytes for", path)(io::Error::other(error.to_string()))
    })?;
    let temporary = path.with_extension(format!("new.{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(io_error("create", &temporary))?;
    let written = file
        .write_all(&key)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&temporary, path));
    let removed = fs::remove_file(&temporary);
    written.and(removed).map_err(io_error("create", path))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("flush the folder of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("jwt_hs256.key");
        let made = load_or_create(&path).expect("made");
        assert_eq!(made.len(), 32);
        assert_ne!(made, [0; 32]);
        assert_eq!(fs::metadata(&path).expect("facts").mode() & 0o7777, 0o600);
        assert_eq!(load_or_create(&path).expect("again"), made);
        assert_eq!(
            fs::read_dir(dir.path()).expect("list").count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_key_that_others_can_reach_is_refused() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("key");
        load_or_create(&path).expect("made");
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            let text = load(&path).expect_err("refused").to_string();
            assert!(text.contains(&format!("mode {mode:04o}")), "{text}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("chmod");
        load(&path).expect("read-only for its owner is fine");
    }

    #[test]
    fn short_and_missing_keys_are_refused() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("key");
        assert!(matches!(
            load(&path),
            Err(KeyFileError::Io { action: "open", .. })
        ));
        fs::write(&path, [1; 15]).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
        assert!(matches!(
            load(&path),
            Err(KeyFileError::Length { bytes: 15, .. })
        ));
        fs::write(&path, [1; 16]).expect("write");
        assert_eq!(load(&path).expect("long enough"), [1; 16]);
    }
}
