//! The `agentd` binary: command line, configuration, daemon, signals. See the library for the work.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use sd_notify::NotifyState;
use sluice_agent::config_source;
use sluice_agent::node::{NodeChoice, NodeContext};
use sluice_agent::options::{self, Action, Options};
use sluice_agent::service::{self, Command, Settings};
use sluice_agent::sys::token::KEY_FILE_VARIABLE;
use sluice_agent::sys::{gres, hardware, logging};
use sluice_model::time::UnixSeconds;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// Threads of the runtime: one keeps the stream alive while the other writes the spool.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let program = Path::new(&program).file_name().map_or_else(
        || "agentd".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let options = match options::parse(&program, arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let result = match options.action {
        Action::Help => {
            print!("{}", options::usage(&program));
            Ok(())
        }
        Action::Version => {
            println!("slurm 25.11.0\nsluice {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Action::PrintHardware => print_hardware(&options),
        Action::PrintGres => print_gres(&options),
        Action::Run => run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure:#}");
            eprintln!("{program}: fatal: {failure:#}");
            ExitCode::FAILURE
        }
    }
}

fn choice(options: &Options) -> NodeChoice {
    NodeChoice {
        name: options.node_name.clone(),
        key_file: options
            .key_file
            .clone()
            .or_else(|| std::env::var_os(KEY_FILE_VARIABLE).map(PathBuf::from)),
        overrides: options.conf.clone(),
    }
}

fn now() -> UnixSeconds {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn print_hardware(options: &Options) -> anyhow::Result<()> {
    let mut found = hardware::detect("/tmp", now());
    if let Some(text) = &options.conf {
        hardware::override_values(&mut found, text).map_err(anyhow::Error::msg)?;
    }
    let devices = gres::nvidia_devices().len() as u64;
    let gpus = (devices > 0).then(|| sluice_model::job::GresAllocation {
        name: "gpu".to_owned(),
        type_name: None,
        count: devices,
        indices: Vec::new(),
    });
    print!("{}", hardware::hardware_lines(&found, gpus.as_slice()));
    Ok(())
}

fn print_gres(options: &Options) -> anyhow::Result<()> {
    // Without a configuration only what is plugged in can be told.
    let Ok((config, source)) = config_source::read_local(options) else {
        for (index, device) in gres::nvidia_devices().iter().enumerate() {
            println!(
                "Gres Name=gpu Count=1 Index={index} File={}",
                device.display()
            );
        }
        return Ok(());
    };
    let node = NodeContext::new(config, source, &choice(options), now())?.node;
    for group in &node.gres {
        let type_name = group
            .type_name
            .as_ref()
            .map(|name| format!(" Type={name}"))
            .unwrap_or_default();
        let files = if group.files.is_empty() {
            String::new()
        } else {
            format!(" File={}", group.files.join(","))
        };
        let cores = if group.cores.is_empty() {
            String::new()
        } else {
            format!(
                " Cores={}",
                group
                    .cores
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        };
        println!(
            "Gres Name={}{type_name} Count={}{files}{cores}",
            group.name, group.count
        );
    }
    Ok(())
}

/// A node that is not in the local file may have been made by hand (`scontrol create NodeName=`): then the controller knows it, and
/// the agent takes the configuration from there. The file says where the controller is and where the key may lie.
fn ask_controller(
    options: &mut Options,
    choice: &mut NodeChoice,
    (config, source): &(
        sluice_config::ClusterConfig,
        sluice_agent::node::ConfigSource,
    ),
) {
    let Err(error) = sluice_agent::node::find_node(config, choice.name.as_deref()) else {
        return;
    };
    let hosts = sluice_agent::connection::controller_addresses(config);
    if choice.key_file.is_none() {
        choice.key_file = sluice_agent::node::key_files(config, source)
            .into_iter()
            .find(|path| path.is_file());
    }
    if hosts.is_empty() || choice.key_file.is_none() {
        return;
    }
    eprintln!("agentd: {error}; asking the controller whether the node was made by hand");
    options.conf_server = hosts;
}

fn run(options: &Options) -> anyhow::Result<()> {
    let mut choice = choice(options);
    let options = &mut options.clone();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    if let Some(nice) = options.nice {
        set_nice(nice);
    }
    // A fetched configuration needs the network and so a runtime; a local one is read before the fork, so that its
    // faults appear on the terminal.
    let mut local = None;
    if options.conf_server.is_empty() {
        let read = config_source::read_local(options)?;
        ask_controller(options, &mut choice, &read);
        local = Some(read).filter(|_| options.conf_server.is_empty());
    }
    let options = &*options;
    let log_file = options.log_file.clone().or_else(|| {
        let (config, source) = local.as_ref()?;
        let node = sluice_agent::node::find_node(config, choice.name.as_deref()).ok()?;
        let _ = source;
        let pattern = config
            .paths
            .slurmd_log_file
            .as_ref()
            .filter(|_| !options.foreground)?;
        Some(PathBuf::from(sluice_config::expand_node_path(
            pattern,
            &node.hostname,
            &node.name,
        )))
    });
    let level = local
        .as_ref()
        .map_or(sluice_config::LogLevel::Info, |(config, _)| {
            config.log.slurmd_debug
        });
    if !options.foreground {
        nix::unistd::daemon(true, false).context("cannot become a daemon")?;
    }
    if options.log_folder
        && let Some(folder) = log_file.as_deref().and_then(Path::parent)
    {
        std::env::set_current_dir(folder)
            .with_context(|| format!("cannot enter {}", folder.display()))?;
    }
    let sink = logging::init(logging::level(level, options.verbose), log_file.as_deref())
        .with_context(|| {
            format!(
                "cannot open the log file {}",
                log_file.as_deref().unwrap_or(Path::new("-")).display()
            )
        })?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(options, &choice, local, sink));
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}

async fn serve(
    options: &Options,
    choice: &NodeChoice,
    local: Option<(
        sluice_config::ClusterConfig,
        sluice_agent::node::ConfigSource,
    )>,
    sink: logging::LogSink,
) -> anyhow::Result<()> {
    let (config, source) = match local {
        Some(local) => local,
        None => {
            let stopped = async {
                let mut term = signal(SignalKind::terminate())?;
                term.recv().await;
                anyhow::Ok(())
            };
            tokio::select! {
                fetched = config_source::fetch_first(options, choice) => fetched?,
                stopped = stopped => return stopped,
            }
        }
    };
    let node = NodeContext::new(config, source, choice, now())?;
    let stepd = stepd_path(options)?;
    let pid_file = node.expand(&node.config.paths.slurmd_pid_file);
    if let Err(error) = write_pid_file(&pid_file) {
        warn!("no pid file {}: {error}", pid_file.display());
    }
    info!(
        "agentd {} is node {}",
        env!("CARGO_PKG_VERSION"),
        node.node.name
    );
    let (sender, commands) = mpsc::unbounded_channel();
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let command = tokio::select! {
                _ = term.recv() => Command::Stop,
                _ = interrupt.recv() => Command::Stop,
                _ = hangup.recv() => {
                    if let Err(error) = sink.reopen() {
                        warn!("the log file cannot be opened again: {error}");
                    }
                    Command::Reconfigure
                }
            };
            if sender.send(command).is_err() {
                return;
            }
        }
    });
    let settings = Settings {
        stepd,
        clean_start: options.clean_start,
        booted: options.booted,
        choice: choice.clone(),
    };
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let result = service::run(node, settings, commands).await;
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    let _ = std::fs::remove_file(&pid_file);
    result
}

/// `-d`, or the `stepd` beside this program.
fn stepd_path(options: &Options) -> anyhow::Result<PathBuf> {
    let path = match &options.stepd {
        Some(path) => std::path::absolute(path)?,
        None => {
            let own = std::env::current_exe().context("cannot find the own program")?;
            own.parent().unwrap_or(Path::new("/")).join("stepd")
        }
    };
    anyhow::ensure!(
        path.is_file(),
        "the step daemon {} is not there\n\nhint: give its path with -d",
        path.display()
    );
    Ok(path)
}

fn write_pid_file(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("{}\n", std::process::id()))
}

fn set_nice(value: i32) {
    // Through the command, because the call has no safe form; a failure leaves the old value.
    let pid = std::process::id().to_string();
    let done = std::process::Command::new("renice")
        .args(["-n", &value.to_string(), "-p", &pid])
        .output();
    if !done.is_ok_and(|output| output.status.success()) {
        eprintln!("agentd: cannot set the nice value to {value}");
    }
}
