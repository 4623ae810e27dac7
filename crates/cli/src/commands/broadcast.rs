//! Copying a file to the nodes of a job, for `sbcast` and `srun --bcast`.
//!
//! The copy is made by a step of the job with one task on each node, so it runs as the user, inside the job, and nowhere else; srun
//! sends the file once to each node. It is written under another name and renamed, so that nobody sees half of it. The step appears in
//! accounting under the name `sbcast`. Source: sbcast(1), srun(1) --bcast.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use crate::client::{Client, ClientError};
use crate::submit::options::Options;

/// What each node runs. Arguments: target, mode, force, times (seconds of access and modification, or empty).
pub(super) const WRITER: &str = r#"
to=$1 mode=$2 force=$3 accessed=$4 modified=$5
fail() { echo "sbcast: error: REQUEST_FILE_BCAST($SLURMD_NODENAME): $1" >&2; exit 1; }
case $to in */) fail "Is a directory";; esac
if [ -d "$to" ]; then fail "Is a directory"; fi
if [ -e "$to" ] && [ "$force" != yes ]; then fail "File exists"; fi
case $to in *_libs/*) mkdir -p "${to%/*}" || exit 1;; esac
if [ ! -d "${to%/*}/" ]; then fail "No such file or directory"; fi
if [ ! -w "${to%/*}/" ]; then fail "Permission denied"; fi
new=$to.sbcast.$$
trap 'rm -f "$new"' EXIT
umask 077
set -C # a link that somebody laid under this name is not followed
cat > "$new" && chmod "$mode" "$new" || exit 1
if [ -n "$modified" ]; then touch -a -d "@$accessed" "$new" && touch -m -d "@$modified" "$new" || exit 1; fi
if [ "$force" = yes ]; then mv -f "$new" "$to"; else ln "$new" "$to"; fi
"#;

/// How copies are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Copying {
    /// The job on whose nodes the file is written.
    pub job: u32,
    /// Only on the nodes of this step.
    pub nodes: Vec<String>,
    /// Replace what is there.
    pub force: bool,
    /// Keep mode and times.
    pub preserve: bool,
}

impl Copying {
    /// Copies one file.
    ///
    /// # Errors
    /// What to tell the user, without the command's name.
    pub fn copy(&self, source: &Path, target: &Path) -> Result<(), String> {
        let shown = source.display();
        let unreadable =
            |error| format!("Can't open `{shown}`: {}", crate::output::os_text(&error));
        let file = File::open(source).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(format!("Can't read `{shown}`: it is no file"));
        }
        // As cp does: what was readable to all stays so, what the umask hides is hidden, unless --preserve keeps all.
        let umask = crate::submit::rlimits::umask();
        let mode = match self.preserve {
            true => about.permissions().mode() & 0o7777,
            false => about.permissions().mode() & 0o777 & !umask,
        };
        let (accessed, modified) = if self.preserve {
            (about.atime().to_string(), about.mtime().to_string())
        } else {
            (String::new(), String::new())
        };
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut srun = Process::new(program);
        // Nothing of the allocation's layout may reach the step: it has one task on each node.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("SLURM_") && text != "SLURM_CONF" && text != "SLURM_JWT"
                || text.starts_with("SRUN_")
            {
                srun.env_remove(&name);
            }
        }
        let count = self.nodes.len();
        srun.arg("srun")
            .arg(format!("--jobid={}", self.job))
            .args(["--overlap", "--quiet", "--job-name=sbcast", "--mem=0"])
            .arg(format!("--nodes={count}"))
            .arg(format!("--ntasks={count}"))
            .arg(format!("--nodelist={}", self.nodes.join(",")))
            .args(["--ntasks-per-node=1", "--export=NONE", "--chdir=/"])
            .args(["/bin/sh", "-c", WRITER, "sbcast"])
            .arg(target)
            .arg(format!("{mode:o}"))
            .arg(if self.force { "yes" } else { "no" })
            .args([accessed, modified])
            .stdin(Stdio::from(file))
            .stderr(Stdio::piped());
        let done = srun
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .inspect(|done| tell_reasons(&String::from_utf8_lossy(&done.stderr)))
            .map(|done| done.status);
        match done {
            Ok(status) if status.success() => Ok(()),
            // The nodes have said why.
            Ok(_) => Err(String::new()),
            Err(error) => Err(format!("srun cannot be started: {error}")),
        }
    }

    /// Copies a program, and its libraries into `<target>_libs` beside it if wanted; gives that folder when there are any.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn copy_program(
        &self,
        source: &Path,
        target: &Path,
        libraries: Option<&[PathBuf]>,
    ) -> Result<Option<PathBuf>, String> {
        self.copy(source, target)?;
        let Some(excluded) = libraries else {
            return Ok(None);
        };
        let found = shared_objects(source, excluded);
        if found.is_empty() {
            return Ok(None);
        }
        let mut folder = target.as_os_str().to_owned();
        folder.push("_libs");
        let folder = PathBuf::from(folder);
        for library in found {
            let name = library.file_name().unwrap_or_default();
            // Libraries are replaced: the same folder belongs to the same program.
            let copying = Self {
                force: true,
                ..self.clone()
            };
            copying.copy(&library, &folder.join(name))?;
        }
        Ok(Some(folder))
    }
}

/// Passes on what the nodes said; that a task of the copying step failed says nothing more.
fn tell_reasons(text: &str) {
    for line in text.lines() {
        if !line.contains(": Exited with exit code ") {
            crate::output::error_line(line);
        }
    }
}

/// Shared objects that a program needs, as `ldd` finds them, without those in excluded folders.
fn shared_objects(program: &Path, excluded: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(output) = Process::new("ldd").arg(program).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    parse_ldd(&text)
        .into_iter()
        .filter(|path| !excluded.iter().any(|folder| path.starts_with(folder)))
        .collect()
}

fn parse_ldd(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| {
            let (_, path) = line.split_once("=>")?;
            let path = path.split_whitespace().next()?;
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .collect()
}

/// A destination that ends in `/` is a folder: the file keeps its name.
pub(super) fn with_name(target: &str, source: &Path) -> PathBuf {
    if !target.ends_with('/') {
        return PathBuf::from(target);
    }
    Path::new(target).join(source.file_name().unwrap_or_default())
}

/// The folders whose libraries are not copied when `--send-libs` asks for the others; the option `exclude` names them.
pub(super) fn wanted_libraries(options: &Options, exclude: &str) -> Option<Vec<PathBuf>> {
    options
        .get("send-libs")
        .filter(|word| !word.eq_ignore_ascii_case("no"))
        .map(|_| excluded_folders(options.get(exclude)))
}

/// `--exclude` and BcastExclude: folders; `NONE` = no folder.
fn excluded_folders(text: Option<&str>) -> Vec<PathBuf> {
    match text {
        Some(text) if text.eq_ignore_ascii_case("NONE") => Vec::new(),
        Some(text) => text.split(',').map(PathBuf::from).collect(),
        // The default of BcastExclude.
        None => ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
            .map(PathBuf::from)
            .to_vec(),
    }
}

/// Nodes of a running job, or of one of its steps.
pub(super) async fn nodes_of(
    client: &Client,
    job: u32,
    step: Option<u32>,
) -> Result<Vec<String>, String> {
    let text = |error: ClientError| error.to_string();
    if let Some(step) = step {
        let steps = client.steps(Some(job)).await.map_err(text)?;
        return steps
            .iter()
            .find(|info| info.step_id.number() == step && info.end_time.is_none())
            .map(|info| {
                info.layout
                    .nodes
                    .iter()
                    .map(|node| node.node.clone())
                    .collect()
            })
            .ok_or_else(|| format!("step {job}.{step} is not running"));
    }
    let found = client.job(job).await.map_err(text)?;
    found
        .iter()
        .find(|info| info.job_id.0 == job && info.state.is_running())
        .map(|info| sluice_model::hostlist::parse_hostlist(&info.nodes).unwrap_or_default())
        .ok_or_else(|| format!("job {job} is not running"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(target: &Path, force: &str, bytes: &[u8]) -> std::process::Output {
        use std::io::Write as _;
        let mut child = Process::new("/bin/sh")
            .args(["-c", WRITER, "sbcast"])
            .arg(target)
            .args(["640", force, "1000000000", "1000000001"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        // A writer that refuses does not read its input.
        let _ = child.stdin.take().expect("piped").write_all(bytes);
        child.wait_with_output().expect("ends")
    }

    /// The part that runs on the nodes: whole files, mode and times, nothing replaced by accident, nothing left behind.
    #[test]
    fn writer() {
        let dir = tempfile::tempdir().expect("folder");
        let target = dir.path().join("a file");
        let done = write(&target, "no", b"one\0two");
        assert!(done.status.success(), "{done:?}");
        assert_eq!(std::fs::read(&target).expect("there"), b"one\0two");
        let about = std::fs::metadata(&target).expect("there");
        assert_eq!(
            (about.mode() & 0o777, about.mtime()),
            (0o640, 1_000_000_001)
        );
        let again = write(&target, "no", b"three");
        assert_eq!(again.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&again.stderr).contains("File exists"));
        assert_eq!(std::fs::read(&target).expect("there"), b"one\0two");
        assert!(write(&target, "yes", b"three").status.success());
        assert_eq!(std::fs::read(&target).expect("there"), b"three");
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1);
        let library = dir.path().join("prog_libs").join("libx.so");
        assert!(write(&library, "yes", b"x").status.success());
        assert!(library.exists());
    }

    /// Destinations that are folders.
    #[test]
    fn destinations() {
        assert_eq!(
            with_name("/tmp/", Path::new("in/x.bin")),
            PathBuf::from("/tmp/x.bin")
        );
        assert_eq!(
            with_name("/tmp/y", Path::new("in/x.bin")),
            PathBuf::from("/tmp/y")
        );
    }

    /// Lines of ldd that name a file; the loader and the kernel's own object are none.
    #[test]
    fn libraries() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibfoo.so.1 => /opt/foo/libfoo.so.1 (0x7f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\tlibgone.so => not found\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(
            parse_ldd(text),
            [
                PathBuf::from("/opt/foo/libfoo.so.1"),
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6")
            ]
        );
        assert!(excluded_folders(Some("NONE")).is_empty());
        assert_eq!(
            excluded_folders(Some("/a,/b")),
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
    }
}
