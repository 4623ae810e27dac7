//! sbcast: copies a file to every node of a job.
//!
//! The copy is made by a step of the job with one task on each node, so it runs as the user, inside the job, and nowhere else;
//! srun sends the file once to each node. It is written under another name and renamed, so that nobody sees half of it. The
//! step appears in accounting under the name `sbcast`. Source: sbcast(1).

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command as Process, Stdio};

use super::block_on;
use super::caller::Place;
use crate::client::Client;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// What each node runs. Arguments: target, mode, force, times (seconds of access and modification, or empty).
const WRITER: &str = r#"
to=$1 mode=$2 force=$3 accessed=$4 modified=$5
case $to in */) echo "sbcast: error: $to is a folder" >&2; exit 1;; esac
if [ -d "$to" ]; then echo "sbcast: error: $to is a folder" >&2; exit 1; fi
if [ -e "$to" ] && [ "$force" != yes ]; then echo "sbcast: error: $to is there already: use --force" >&2; exit 1; fi
new=$to.sbcast.$$
trap 'rm -f "$new"' EXIT
umask 077
cat > "$new" && chmod "$mode" "$new" || exit 1
if [ -n "$modified" ]; then touch -a -d "@$accessed" "$new" && touch -m -d "@$modified" "$new" || exit 1; fi
if [ "$force" = yes ]; then mv -f "$new" "$to"; else ln "$new" "$to"; fi
"#;

/// Runs sbcast.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sbcast,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    match prepare(&options, parsed, &place) {
        Ok(mut srun) => match srun.status() {
            Ok(status) if status.success() => 0,
            Ok(status) => {
                output::error_line("sbcast: error: the file was not written on every node");
                status.code().filter(|code| *code != 0).unwrap_or(1)
            }
            Err(error) => fail(&format!("srun cannot be started: {error}")),
        },
        Err(text) => fail(&text),
    }
}

fn fail(text: &str) -> i32 {
    output::error_line(format!("sbcast: error: {text}"));
    1
}

/// The srun that does it.
fn prepare(options: &Options, parsed: &Parsed, place: &Place) -> Result<Process, String> {
    let [source, target] = parsed.operands.as_slice() else {
        return Err("source and destination must be given: sbcast source destination".to_string());
    };
    for (name, text) in [
        (
            "send-libs",
            "libraries are not sent yet: copy them one by one",
        ),
        (
            "exclude",
            "libraries are not sent yet, so none can be left out",
        ),
    ] {
        if options.has(name) && options.get(name) != Some("no") {
            return Err(format!("--{name}: {text}"));
        }
    }
    if options.has("verbose") {
        for name in ["compress", "fanout", "treewidth", "size", "timeout"] {
            if options.has(name) {
                output::error_line(format!(
                    "sbcast: --{name} has no effect: srun sends the file"
                ));
            }
        }
    }
    let job: u32 = options
        .get("jobid")
        .map(String::from)
        .or_else(|| place.variable("SLURM_JOB_ID"))
        .or_else(|| place.variable("SLURM_JOBID"))
        .ok_or("no job: run it inside an allocation, or use --jobid")?
        .parse()
        .map_err(|_| "--jobid needs the number of a job".to_string())?;
    let file = File::open(source).map_err(|error| format!("cannot read {source}: {error}"))?;
    let about = file
        .metadata()
        .map_err(|error| format!("cannot read {source}: {error}"))?;
    if !about.is_file() {
        return Err(format!("{source} is no file"));
    }
    let nodes = node_count(job)?;
    // As cp does: what was readable to all stays so, what the umask hides is hidden, unless --preserve keeps all.
    let umask = crate::submit::rlimits::umask();
    let preserve = options.has("preserve");
    let mode = match preserve {
        true => about.permissions().mode() & 0o7777,
        false => about.permissions().mode() & 0o777 & !umask,
    };
    let target = place.directory.join(absolute_end(target, source));
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
    let (accessed, modified) = if preserve {
        (about.atime().to_string(), about.mtime().to_string())
    } else {
        (String::new(), String::new())
    };
    srun.arg("srun")
        .arg(format!("--jobid={job}"))
        .args(["--overlap", "--quiet", "--job-name=sbcast", "--mem=0"])
        .arg(format!("--nodes={nodes}"))
        .arg(format!("--ntasks={nodes}"))
        .args(["--ntasks-per-node=1", "--export=NONE", "--chdir=/"])
        .args(["/bin/sh", "-c", WRITER, "sbcast"])
        .arg(&target)
        .arg(format!("{mode:o}"))
        .arg(if options.has("force") { "yes" } else { "no" })
        .args([accessed, modified])
        .stdin(Stdio::from(file));
    Ok(srun)
}

/// A destination that ends in `/` is a folder: the file keeps its name.
fn absolute_end(target: &str, source: &str) -> String {
    if !target.ends_with('/') {
        return target.to_string();
    }
    let name = Path::new(source)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{target}{name}")
}

/// Nodes of the job.
fn node_count(job: u32) -> Result<u32, String> {
    let mut nodes = Err("the controller cannot be asked".to_string());
    block_on(async {
        nodes = async {
            let client = Client::connect(std::time::Duration::from_secs(2))
                .await
                .map_err(|error| error.to_string())?;
            let found = client.job(job).await.map_err(|error| error.to_string())?;
            found
                .iter()
                .find(|info| info.job_id.0 == job && info.state.is_running())
                .map(|info| info.num_nodes)
                .ok_or_else(|| format!("job {job} is not running"))
        }
        .await;
        0
    });
    nodes
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
        assert!(String::from_utf8_lossy(&again.stderr).contains("use --force"));
        assert_eq!(std::fs::read(&target).expect("there"), b"one\0two");
        assert!(write(&target, "yes", b"three").status.success());
        assert_eq!(std::fs::read(&target).expect("there"), b"three");
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1);
        assert_eq!(absolute_end("/tmp/", "in/x.bin"), "/tmp/x.bin");
    }
}
