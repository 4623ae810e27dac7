//! The live state and the replay of the journal, byte for byte.

use std::path::Path;

use sluice_proto::v1::DumpStateRequest;
use sluice_testkit::Cluster;

use super::client::Client;

/// Asks `ctld` for its whole state, kills it, and compares with what its files give, from every checkpoint there is.
pub fn check_bytes(cluster: &mut Cluster) {
    let socket = cluster.path("run").join("ctld.test.sock");
    let (position, live) = Client::new(socket).dump_state(DumpStateRequest {});
    assert!(position > 0 && !live.is_empty());
    cluster.kill_ctld().unwrap();
    let sluice = cluster.bin_program("sluice");
    for how in [&[][..], &["--from-oldest"]] {
        let out = cluster.path("work/replayed");
        let mut command = cluster.program(&sluice);
        command
            .args(["journal", "replay"])
            .arg(cluster.path("state"))
            .args(["--until", &position.to_string(), "--output"])
            .arg(&out)
            .args(how);
        let done = sluice_testkit::run_with_deadline(command, std::time::Duration::from_secs(120))
            .unwrap();
        let said = done.success().unwrap();
        assert!(said.starts_with(&format!("position {position},")), "{said}");
        let replayed = std::fs::read(&out).unwrap();
        if replayed != live {
            panic!(
                "live state and replay differ {how:?}: {}",
                difference(&live, &replayed, cluster.dir())
            );
        }
    }
    cluster.start_ctld().unwrap();
}

/// Where two states differ, with the bytes around it; both are kept for a look.
fn difference(live: &[u8], replayed: &[u8], dir: &Path) -> String {
    let at = live
        .iter()
        .zip(replayed)
        .position(|(one, other)| one != other)
        .unwrap_or(live.len().min(replayed.len()));
    let around = |bytes: &[u8]| {
        let part = &bytes[at.saturating_sub(200)..bytes.len().min(at + 60)];
        String::from_utf8_lossy(part).into_owned()
    };
    format!(
        "at byte {at} of {} and {} ({})\nlive: {:?}\nreplayed: {:?}",
        live.len(),
        replayed.len(),
        dir.display(),
        around(live),
        around(replayed)
    )
}
