//! The daemon's life: configuration, state, listeners, tasks, and a graceful end.
//!
//! Order at the start: configuration (refused as a whole if bad) → state directory and lock → checkpoint and journal → the
//! configuration becomes an event → writer, planner, feed → listeners → ready. At the end: listeners stop, the writer writes a
//! checkpoint, the feed finishes what it can.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sluice_accounting::{
    AccountingFeed, AccountingStore, FeedHandle, FeedSettings, StorageSettings,
};
use sluice_config::{AccountingStorage, ClusterConfig, ConfigBundle};
use sluice_controller::command::config as config_command;
use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Cluster, event};
use sluice_proto::v1::accounting_server::AccountingServer;
use sluice_proto::v1::admin_server::AdminServer;
use sluice_proto::v1::agents_server::AgentsServer;
use sluice_proto::v1::automation_server::AutomationServer;
use sluice_proto::v1::diagnostics_server::DiagnosticsServer;
use sluice_proto::v1::priority_server::PriorityServer;
use sluice_proto::v1::scheduler_server::SchedulerServer;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::auth::{Authenticator, Roles, TokenKey, UserDirectory};
use crate::core::checkpoint::{EVENT_VERSION, STATE_VERSION};
use crate::core::outbox::{JournalSource, journal_id};
use crate::core::planner::{self, PlannerStatistics, PlannerWake};
use crate::core::writer::{Outputs, Writer};
use crate::core::{CoreHandle, Sessions, Watchers, now, ticker};
use crate::journal::{EventJournal, EventJournalOptions, OnDamage};
use crate::listen::{self, MAX_MESSAGE_BYTES, ServeOptions};
use crate::logging::{self, LogConfig, LogHandle, SlurmLevel};
use crate::notify;
use crate::options::CtldOptions;
use crate::services::Shared;
use crate::services::accounting::{self, AccountingService};
use crate::services::admin::{self, AdminService};
use crate::services::agents::AgentsService;
use crate::services::automation::AutomationService;
use crate::services::diagnostics::{self, CountCalls, DiagnosticsService};
use crate::services::priority::PriorityService;
use crate::services::scheduler::SchedulerService;

/// Time the feed gets at the end to write what it has.
const FEED_GRACE: Duration = Duration::from_secs(5);

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, or a journal that failed.
pub fn run(options: &CtldOptions) -> anyhow::Result<()> {
    let env_conf = std::env::var_os("SLURM_CONF");
    let conf_file = sluice_config::find_conf(options.conf_file.as_deref(), env_conf.as_deref())
        .context("no configuration: give -f FILE or set SLURM_CONF")?;
    // The daemon leaves the folder it is started in.
    let conf_file = std::path::absolute(&conf_file).unwrap_or(conf_file);
    let loaded = ClusterConfig::load(&conf_file).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let config = Arc::new(loaded.config);
    let state_dir = PathBuf::from(&config.paths.state_save_location);
    std::fs::create_dir_all(&state_dir)
        .with_context(|| format!("StateSaveLocation {} cannot be made", state_dir.display()))?;
    if let Some(nice) = options.nice {
        notify::set_nice(nice).with_context(|| format!("nice value {nice} cannot be set"))?;
    }
    let background = !options.foreground && !options.systemd;
    if background {
        notify::daemonize(&state_dir).context("cannot go into the background")?;
    }
    let log = start_log(options, &config, background)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("no runtime")?;
    runtime.block_on(serve(
        options,
        conf_file,
        config,
        loaded.bundle,
        &state_dir,
        log,
    ))
}

fn start_log(
    options: &CtldOptions,
    config: &ClusterConfig,
    background: bool,
) -> anyhow::Result<LogHandle> {
    let level: SlurmLevel = format!("{:?}", config.log.slurmctld_debug)
        .to_lowercase()
        .parse()
        .unwrap_or(SlurmLevel::Info);
    let file = options
        .log_file
        .clone()
        .or_else(|| config.paths.slurmctld_log_file.as_ref().map(PathBuf::from));
    let stderr = !background || file.is_none();
    logging::init(&LogConfig {
        level: level.louder(options.verbose),
        file,
        stderr,
    })
    .context("no log")
}

/// Everything that was brought back at the start.
struct Restored {
    cluster: Cluster,
    journal: EventJournal<JournalEntry>,
}

fn restore(
    options: &CtldOptions,
    config: &Arc<ClusterConfig>,
    state_dir: &Path,
) -> anyhow::Result<Restored> {
    let mut journal_options = EventJournalOptions::new(EVENT_VERSION, STATE_VERSION);
    journal_options.on_damage = if options.ignore_state_errors {
        OnDamage::Skip
    } else {
        OnDamage::Refuse
    };
    journal_options.begin_empty = options.begin_empty;
    let (mut journal, recovery) = EventJournal::<JournalEntry>::open(state_dir, journal_options)?;
    for warning in recovery.report.warnings() {
        tracing::warn!("{warning}");
    }
    let restored = if options.begin_empty {
        None
    } else {
        recovery.state::<Cluster>()?
    };
    let mut replayed = 0_u64;
    let known = restored.is_some();
    let mut cluster = match restored {
        Some((_, cluster)) => cluster,
        None => Cluster::new(Arc::clone(config), now()),
    };
    for record in journal.replay_after(recovery.replay_after) {
        let (_, record) = record?;
        for event in &record.event.events {
            event::apply(&mut cluster, event);
        }
        replayed += 1;
    }
    if !known {
        // The base of the journal: without it a replay could not know with which configuration it began.
        let payload = crate::journal::encode_state(&Cluster::new(Arc::clone(config), now()))?;
        if replayed == 0 {
            journal
                .checkpoints()
                .write(journal.last(), STATE_VERSION, &payload)?;
        }
    }
    tracing::info!(
        jobs = cluster.jobs.len(),
        nodes = cluster.nodes.len(),
        "state restored, {replayed} journal records replayed"
    );
    // The configuration is an event too: a replay sees the one that ruled at each time.
    let mut transaction = sluice_controller::Transaction::new(&mut cluster, now());
    config_command::load(&mut transaction, Arc::clone(config));
    let (entry, _) = transaction.finish();
    if !entry.events.is_empty() {
        journal.append(crate::core::now_ms(), &[entry])?;
        journal.sync()?;
    }
    // Nobody has spoken yet: silence is counted from now.
    let indexes: Vec<_> = cluster.node_index.values().copied().collect();
    for index in indexes {
        cluster.last_heard.insert(index, now());
    }
    Ok(Restored { cluster, journal })
}

async fn serve(
    options: &CtldOptions,
    conf_file: PathBuf,
    config: Arc<ClusterConfig>,
    bundle: ConfigBundle,
    state_dir: &Path,
    log: LogHandle,
) -> anyhow::Result<()> {
    let users = UserDirectory::default();
    let slurm_uid = slurm_user(&users, &config)?;
    let key = Arc::new(TokenKey::load_or_create(Path::new(&config.auth.jwt_key))?);
    let roles = Arc::new(Roles::new(slurm_uid));
    let Restored { cluster, journal } = restore(options, &config, state_dir)?;
    // After the state lock: a second daemon must not take the first one's file away when it is refused.
    let _pid_file = match notify::PidFile::create(Path::new(&config.paths.slurmctld_pid_file)) {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    };

    let store = AccountingStore::new(storage_settings(&config.accounting.storage));
    let source = JournalSource::new(&journal, journal_id(state_dir).context("journal id")?);
    let (shutdown, shutdown_seen) = watch::channel(false);
    let (failed, mut journal_failed) = watch::channel(None);
    let sessions = Arc::new(Sessions::default());
    let watchers = Arc::new(Watchers::default());
    let wake = PlannerWake::default();
    let (mail, mail_queue) = mpsc::unbounded_channel();
    let (triggers, trigger_queue) = mpsc::unbounded_channel();
    let outputs = Outputs {
        sessions: Arc::clone(&sessions),
        watchers: Arc::clone(&watchers),
        planner: wake.clone(),
        mail,
        triggers,
    };
    let (writer, core) = Writer::new(cluster, journal, outputs, failed);
    let runtime = tokio::runtime::Handle::current();
    let writer_thread = std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || writer.run(&runtime))
        .context("writer")?;
    let statistics = Arc::new(PlannerStatistics::default());
    let planner_thread = {
        let (core, wake, statistics) = (core.clone(), wake.clone(), Arc::clone(&statistics));
        std::thread::Builder::new()
            .name("planner".to_owned())
            .spawn(move || planner::run(&core, &wake, &statistics))
            .context("planner")?
    };
    tokio::spawn(ticker::run(core.clone(), shutdown_seen.clone()));
    tokio::spawn(crate::mail::run(mail_queue, config.paths.mail_prog.clone()));
    tokio::spawn(crate::triggers::run(
        trigger_queue,
        users.clone(),
        conf_file.clone(),
    ));
    tokio::spawn(crate::core::cron::run(core.clone(), shutdown_seen.clone()));
    let feed = store.is_enabled().then(|| {
        AccountingFeed::start(
            store.clone(),
            FeedSettings::new(&config.cluster_name),
            source,
        )
    });
    register_cluster(&core, &config, &store).await;
    tokio::spawn(crate::triggers::watch_controller(
        core.clone(),
        feed.as_ref().map(FeedHandle::status),
    ));

    let shared = Arc::new(Shared {
        core: core.clone(),
        sessions,
        watchers,
        users: users.clone(),
        roles,
        key: Arc::clone(&key),
        store,
        feed: feed.as_ref().map(FeedHandle::status),
        default_accounts: parking_lot::RwLock::default(),
        roles_known: watch::channel(false).0,
        encoded_jobs: Default::default(),
        bundle: parking_lot::RwLock::new(Arc::new(bundle)),
        conf_file,
        statistics,
        diagnostics: Arc::default(),
        started: now(),
        hostname: hostname(),
        log: Some(log),
        shutdown: shutdown.clone(),
    });
    let server_key = key.server_key().clone();
    let authenticator = Arc::new(Authenticator::new(key, users));
    let unix = open_unix(&config, state_dir);
    let tcp = listen::bind_tcp(tcp_address(&config)?, server_key.acceptor()?).await?;
    if let Err(error) = server_key.pin().publish(state_dir) {
        tracing::warn!(
            "{} cannot be written, remote commands do not find the fingerprint there: {error}",
            state_dir.join(sluice_tls::PIN_FILE).display()
        );
    }
    tracing::info!(
        address = %tcp.local_addr(),
        socket = %unix.as_ref().map(|u| u.path().display().to_string()).unwrap_or_default(),
        "ctld {} is ready for cluster {}",
        env!("CARGO_PKG_VERSION"),
        config.cluster_name
    );
    notify::ready("running");
    tokio::spawn(watch_signals(Arc::clone(&shared)));
    tokio::spawn(accounting::roles::keep_current(
        Arc::clone(&shared),
        shutdown_seen.clone(),
    ));
    tokio::spawn(end_sessions(Arc::clone(&shared), shutdown_seen.clone()));
    diagnostics::reset(&shared);
    tokio::spawn(diagnostics::reset_daily(
        Arc::clone(&shared),
        shutdown_seen.clone(),
    ));
    if let Some(interval) = notify::watchdog_interval() {
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(interval / 2);
            loop {
                tick.tick().await;
                notify::watchdog_ping();
            }
        });
    }
    let server = listen::serve(
        unix,
        vec![tcp],
        routes(&shared),
        authenticator,
        shutdown_seen,
        ServeOptions::default(),
    );
    let outcome = tokio::select! {
        served = server => served.map_err(anyhow::Error::from),
        failure = async { let _ = journal_failed.changed().await; journal_failed.borrow().clone() } =>
            Err(anyhow::anyhow!("journal: {}", failure.unwrap_or_else(|| "writer ended".to_owned()))),
    };
    notify::stopping();
    let _ = shutdown.send(true);
    core.stop().await;
    wake.stop();
    if let Some(feed) = feed {
        feed.stop(FEED_GRACE).await;
    }
    shared.store.close().await;
    let _ =
        tokio::task::spawn_blocking(move || (writer_thread.join(), planner_thread.join())).await;
    tracing::info!("ctld ends");
    outcome
}

/// All services over the same parts.
pub fn routes(shared: &Arc<Shared>) -> tonic::service::Routes {
    let scheduler = SchedulerServer::new(SchedulerService {
        shared: Arc::clone(shared),
    })
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let agents = AgentsServer::new(AgentsService {
        shared: Arc::clone(shared),
    })
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let accounting = AccountingServer::new(AccountingService {
        shared: Arc::clone(shared),
    })
    .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let admin = AdminServer::new(AdminService {
        shared: Arc::clone(shared),
    });
    let diagnostics = DiagnosticsServer::new(DiagnosticsService {
        shared: Arc::clone(shared),
    });
    let automation = AutomationServer::new(AutomationService {
        shared: Arc::clone(shared),
    })
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let priority = PriorityServer::new(PriorityService {
        shared: Arc::clone(shared),
    })
    .max_encoding_message_size(MAX_MESSAGE_BYTES);
    tonic::service::Routes::new(scheduler)
        .add_service(agents)
        .add_service(accounting)
        .add_service(admin)
        .add_service(diagnostics)
        .add_service(automation)
        .add_service(priority)
        .into_axum_router()
        .layer(CountCalls(Arc::clone(&shared.diagnostics)))
        .into()
}

fn open_unix(config: &ClusterConfig, state_dir: &Path) -> Option<listen::UnixEndpoint> {
    let candidates = listen::unix_candidates(
        Path::new(&config.paths.slurmctld_pid_file),
        &config.cluster_name,
        state_dir,
    );
    match listen::bind_unix(&candidates) {
        Ok(endpoint) => Some(endpoint),
        Err(error) => {
            tracing::error!("no local socket, commands need tokens: {error}");
            None
        }
    }
}

/// Loopback only when the controller's address is a loopback one; else every interface.
fn tcp_address(config: &ClusterConfig) -> anyhow::Result<SocketAddr> {
    let host = config
        .controllers
        .first()
        .map(|c| c.address().to_owned())
        .unwrap_or_default();
    let port = config.slurmctld_port;
    let resolved = (host.as_str(), port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    Ok(match resolved {
        Some(address) if address.ip().is_loopback() => address,
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    })
}

fn slurm_user(users: &UserDirectory, config: &ClusterConfig) -> anyhow::Result<u32> {
    if let Ok(uid) = config.slurm_user.parse::<u32>() {
        return Ok(uid);
    }
    match users.by_name(&config.slurm_user) {
        Ok(Some(user)) => Ok(user.uid),
        Ok(None) => bail!(
            "SlurmUser={} does not exist on this host",
            config.slurm_user
        ),
        Err(error) => bail!(
            "SlurmUser={} cannot be looked up: {error}",
            config.slurm_user
        ),
    }
}

fn storage_settings(storage: &AccountingStorage) -> StorageSettings {
    match storage {
        AccountingStorage::None => StorageSettings::None,
        AccountingStorage::Sqlite { path } => StorageSettings::Sqlite {
            path: PathBuf::from(path),
        },
        AccountingStorage::Postgres(settings) => StorageSettings::Postgres(match &settings.url {
            Some(url) => sluice_accounting::PostgresSettings::Url(url.clone()),
            None => sluice_accounting::PostgresSettings::Parts {
                host: settings.host.clone(),
                port: settings.port,
                user: settings.user.clone(),
                password: settings.password.clone(),
                database: settings.database.clone(),
            },
        }),
    }
}

/// Tells accounting which cluster this is: address, TRES and nodes, as slurmctld registers itself.
async fn register_cluster(core: &CoreHandle, config: &ClusterConfig, store: &AccountingStore) {
    if !store.is_enabled() {
        return;
    }
    let host = config
        .controllers
        .first()
        .map(|c| c.address().to_owned())
        .unwrap_or_default();
    let port = u32::from(config.slurmctld_port);
    let told = core
        .run(move |transaction| {
            transaction.register_cluster(host, port);
            Ok(())
        })
        .await;
    if let Err(error) = told {
        tracing::error!("cluster not registered with accounting: {error}");
    }
}

/// Streams of agents have no end of their own: ended at once, they do not hold up the listeners at the stop.
async fn end_sessions(shared: Arc<Shared>, mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
    shared.sessions.close_all();
}

async fn watch_signals(shared: Arc<Shared>) {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        tracing::error!("signals cannot be watched");
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                notify::reloading();
                match admin::reconfigure(&shared).await {
                    Ok(warnings) => {
                        for warning in warnings {
                            tracing::warn!("{warning}");
                        }
                        tracing::info!("configuration read again");
                    }
                    Err(status) => tracing::error!("configuration not taken over: {}", status.message()),
                }
                if let Some(log) = &shared.log
                    && let Err(error) = log.reopen()
                {
                    tracing::error!("log not reopened: {error}");
                }
                notify::ready("running");
            }
        }
    }
    let _ = shared.shutdown.send(true);
}

fn hostname() -> String {
    let name = nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default();
    name.split('.').next().unwrap_or("localhost").to_owned()
}
