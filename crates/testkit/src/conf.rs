//! The text of a private cluster's slurm.conf and gres.conf.
//!
//! Pure: turns settings and places into text. Every path lies inside the cluster's folder, every address is 127.0.0.1.
//! Keys and values are those of slurm.conf(5) and gres.conf(5).

use std::fmt::Write as _;
use std::path::PathBuf;

/// Where a private cluster has its files and on which ports it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The cluster's folder, absolute.
    pub dir: PathBuf,
    /// Short name of this host.
    pub host: String,
    /// Name of the user who runs the cluster.
    pub user: String,
    /// ClusterName.
    pub cluster_name: String,
    /// SlurmctldPort.
    pub ctld_port: u16,
    /// Port of each node's agent, consecutive, in node order.
    pub node_ports: Vec<u16>,
}

impl Layout {
    /// A path inside the folder.
    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.join(below)
    }

    /// The node ports as a hostlist range: `[17001-17004]`, or one number.
    pub fn node_port_range(&self) -> String {
        match (self.node_ports.first(), self.node_ports.last()) {
            (Some(first), Some(last)) if first != last => format!("[{first}-{last}]"),
            (Some(only), _) => only.to_string(),
            (None, _) => String::new(),
        }
    }
}

/// A configuration written by the test itself, in place of the generated one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfFiles {
    /// Name of the file that the daemons get with `-f`: `slurm.conf`, `cluster.jsonc`, …
    pub main: String,
    /// File name and text of each file, the main one among them.
    pub files: Vec<(String, String)>,
    /// Names of the nodes for which an agent is started.
    pub nodes: Vec<String>,
}

/// What the generated configuration says beyond the places.
#[derive(Debug, Clone)]
pub(crate) struct ConfSettings {
    pub nodes: u16,
    pub cpus: u32,
    pub memory_mib: u64,
    pub gpus: u32,
    pub kill_wait_secs: u32,
    pub debug_level: String,
    pub partition: String,
    pub has_prolog: bool,
    pub has_epilog: bool,
    pub configless: bool,
    pub lines: Vec<String>,
}

/// Names `n1`, `n2`, ….
pub(crate) fn node_names(count: u16) -> Vec<String> {
    (1..=count).map(|nth| format!("n{nth}")).collect()
}

fn node_range(count: u16) -> String {
    if count == 1 {
        "n1".to_owned()
    } else {
        format!("n[1-{count}]")
    }
}

/// The generated slurm.conf and gres.conf.
pub(crate) fn generate(layout: &Layout, settings: &ConfSettings) -> ConfFiles {
    let files = vec![
        ("slurm.conf".to_owned(), slurm_conf(layout, settings)),
        ("gres.conf".to_owned(), gres_conf(layout, settings)),
    ];
    ConfFiles {
        main: "slurm.conf".to_owned(),
        files,
        nodes: node_names(settings.nodes),
    }
}

fn slurm_conf(layout: &Layout, settings: &ConfSettings) -> String {
    let dir = layout.dir.display();
    let Layout {
        host,
        user,
        cluster_name,
        ctld_port,
        ..
    } = layout;
    let ConfSettings {
        kill_wait_secs,
        debug_level,
        ..
    } = settings;
    let mut text = format!(
        "\
# A private cluster: everything lies in {dir}, every address is 127.0.0.1.
ClusterName={cluster_name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/slurm
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/ctld.pid
SlurmdPidFile={dir}/run/agentd-%n.pid
SlurmctldLogFile={dir}/log/ctld.log
SlurmdLogFile={dir}/log/agentd-%n.log
SlurmctldDebug={debug_level}
SlurmdDebug={debug_level}
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/linux
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=128
KillWait={kill_wait_secs}
ReturnToService=2
SlurmdParameters=config_overrides
"
    );
    // Writing to a String cannot fail.
    if settings.configless {
        let _ = writeln!(text, "SlurmctldParameters=enable_configless");
    }
    if settings.has_prolog {
        let _ = writeln!(text, "Prolog={dir}/etc/prolog.sh");
    }
    if settings.has_epilog {
        let _ = writeln!(text, "Epilog={dir}/etc/epilog.sh");
    }
    for line in &settings.lines {
        let _ = writeln!(text, "{line}");
    }
    let gres = if settings.gpus > 0 {
        let _ = writeln!(text, "GresTypes=gpu");
        format!(" Gres=gpu:fake:{}", settings.gpus)
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs={} RealMemory={}{gres} State=UNKNOWN",
        node_range(settings.nodes),
        layout.node_port_range(),
        settings.cpus,
        settings.memory_mib,
    );
    let _ = writeln!(
        text,
        "PartitionName=main Nodes=ALL Default=YES State=UP {}",
        settings.partition
    );
    text
}

fn gres_conf(layout: &Layout, settings: &ConfSettings) -> String {
    let mut text = String::from(
        "# The devices are ordinary files, so that GPU jobs can be tried without GPUs.\nAutoDetect=off\n",
    );
    if settings.gpus > 0 {
        let range = match settings.gpus {
            1 => "0".to_owned(),
            count => format!("[0-{}]", count - 1),
        };
        let _ = writeln!(
            text,
            "NodeName={} Name=gpu Type=fake File={}/dev/gpu{range}",
            node_range(settings.nodes),
            layout.dir.display(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(ports: Vec<u16>) -> Layout {
        Layout {
            dir: "/tmp/c".into(),
            host: "host7".to_owned(),
            user: "ada".to_owned(),
            cluster_name: "test".to_owned(),
            ctld_port: 17000,
            node_ports: ports,
        }
    }

    fn settings() -> ConfSettings {
        ConfSettings {
            nodes: 4,
            cpus: 4,
            memory_mib: 4000,
            gpus: 4,
            kill_wait_secs: 5,
            debug_level: "debug".to_owned(),
            partition: "MaxTime=60".to_owned(),
            has_prolog: true,
            has_epilog: false,
            configless: false,
            lines: vec!["OverTimeLimit=1".to_owned()],
        }
    }

    /// Without this, a cluster could reach outside its folder or be told the wrong nodes.
    #[test]
    fn the_generated_files_say_what_was_asked() {
        let conf = generate(&layout(vec![17001, 17002, 17003, 17004]), &settings());
        let slurm = &conf.files[0].1;
        for line in [
            "SlurmctldHost=host7(127.0.0.1)",
            "SlurmUser=ada",
            "StateSaveLocation=/tmp/c/state",
            "Prolog=/tmp/c/etc/prolog.sh",
            "OverTimeLimit=1",
            "NodeName=n[1-4] NodeHostname=host7 NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=4 RealMemory=4000 Gres=gpu:fake:4 State=UNKNOWN",
            "PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=60",
        ] {
            assert!(
                slurm.lines().any(|have| have == line),
                "{line}\nnot in\n{slurm}"
            );
        }
        assert!(!slurm.contains("Epilog="));
        let gres = &conf.files[1].1;
        assert!(gres.contains("NodeName=n[1-4] Name=gpu Type=fake File=/tmp/c/dev/gpu[0-3]\n"));
        assert_eq!(conf.nodes, ["n1", "n2", "n3", "n4"]);
    }

    /// Without this, a cluster of one node would be written as an empty or reversed range.
    #[test]
    fn one_node_and_no_gpus_have_no_brackets() {
        let one = ConfSettings {
            nodes: 1,
            gpus: 0,
            ..settings()
        };
        let conf = generate(&layout(vec![17001]), &one);
        assert!(
            conf.files[0]
                .1
                .contains("NodeName=n1 NodeHostname=host7 NodeAddr=127.0.0.1 Port=17001 CPUs=4")
        );
        assert!(!conf.files[0].1.contains("Gres"));
        assert!(!conf.files[1].1.contains("Name=gpu"));
    }
}
