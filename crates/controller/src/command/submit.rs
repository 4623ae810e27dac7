//! A new job: checks, defaults, and the record.
//!
//! Every check of a submission is here, in Slurm's order as far as it can be seen from outside (`sbatch(1)`, scheduling
//! reference 7.1). A retried submission (same key) gets the id it got before.

use std::sync::Arc;

use sluice_model::array::ArraySpec;
use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::job::JobDescription;
use sluice_model::partition::PartitionState;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::{Caller, Rejection, dependency};
use crate::cluster::{ArrayMembership, BlobId, Cluster, DependencyState, Job, Partition};
use crate::effect::Effect;
use crate::event::Event;
use crate::policy::DEFAULT_QOS;
use crate::reservation::access;
use crate::transaction::Transaction;
use crate::{license, select};

/// A submission as the shell hands it in: script and environment are taken out and digested.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Request.
    pub description: JobDescription,
    /// Script.
    pub script: Option<(BlobId, Arc<Vec<u8>>)>,
    /// Environment, packed.
    pub environment: Option<(BlobId, Arc<Vec<u8>>)>,
    /// Name of the job's user.
    pub user_name: String,
    /// Name of the job's primary group.
    pub group_name: String,
    /// All groups of the user by name, for AllowGroups.
    pub group_names: Vec<String>,
    /// Account to charge when none is given.
    pub default_account: Option<String>,
    /// Who asks.
    pub caller: Caller,
}

/// Answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Id.
    pub job_id: JobId,
    /// It was there already: a retried submission.
    pub existing: bool,
    /// Texts for the user.
    pub warnings: Vec<String>,
}

/// Priority of a job without any factor: Slurm gives every job that is not held at least 1.
pub const BASE_PRIORITY: u32 = 1;

/// Accepts a job.
///
/// # Errors
/// Slurm's code for the first check that fails.
pub fn submit(
    transaction: &mut Transaction<'_>,
    submission: Submission,
) -> Result<Submitted, Rejection> {
    if let Some(known) = known(transaction.cluster, &submission)? {
        return Ok(known);
    }
    let job = prepare(transaction.cluster, &submission, transaction.now)?;
    Ok(accept(transaction, job, &submission))
}

/// The answer to a submission that is here already. A key belongs to the user who came with it first.
pub(super) fn known(
    cluster: &Cluster,
    submission: &Submission,
) -> Result<Option<Submitted>, Rejection> {
    let key = &submission.description.submission_key;
    let Some(id) = cluster
        .submissions
        .get(key)
        .copied()
        .filter(|_| !key.is_empty())
    else {
        return Ok(None);
    };
    if cluster
        .job(id)
        .is_some_and(|job| job.request.uid != submission.description.uid)
    {
        return Err(Rejection::new(ErrorCode::AccessDenied));
    }
    Ok(Some(Submitted {
        job_id: id,
        existing: true,
        warnings: Vec::new(),
    }))
}

/// Stores a record that was made of `submission`.
pub(super) fn accept(
    transaction: &mut Transaction<'_>,
    job: Job,
    submission: &Submission,
) -> Submitted {
    for (id, bytes) in [&submission.script, &submission.environment]
        .into_iter()
        .flatten()
    {
        if !transaction.cluster.blobs.contains_key(id) {
            transaction.emit(Event::BlobStored {
                id: *id,
                bytes: Arc::clone(bytes),
            });
        }
    }
    let id = job.id;
    let dependent = !job.dependency.terms.is_empty();
    transaction.emit(Event::JobSubmitted { job: Box::new(job) });
    if dependent {
        dependency::reconsider(transaction, id);
    }
    transaction.effect(Effect::JobChanged { job: id });
    transaction.wake_planner();
    Submitted {
        job_id: id,
        existing: false,
        warnings: Vec::new(),
    }
}

/// Makes the record without storing it; also what `--test-only` plans with.
///
/// # Errors
/// As [`submit`].
pub fn prepare(
    cluster: &Cluster,
    submission: &Submission,
    now: UnixSeconds,
) -> Result<Job, Rejection> {
    let mut request = submission.description.clone();
    check_lengths(&request)?;
    let caller = &submission.caller;
    if request.uid != caller.uid && !caller.privileged {
        return Err(ErrorCode::AccessDenied.into());
    }
    if request.nice < 0 && !caller.privileged {
        return Err(ErrorCode::InvalidNice.into());
    }
    // A priority by hand is for operators; from others it is left out without a word, as slurmctld does.
    if !caller.privileged && request.priority.is_some_and(|priority| priority > 0) {
        request.priority = None;
    }
    if !caller.privileged {
        request.extra.remove(crate::priority::SITE_FACTOR);
    }
    if request.uid == 0 && cluster.config.auth.disable_root_jobs {
        return Err(ErrorCode::AccessDenied.into());
    }
    let array = parse_array(cluster, request.array.as_deref())?;
    let new_jobs = array.as_ref().map_or(1, |spec| spec.tasks.len());
    if cluster.jobs.len() + new_jobs.min(1) > cluster.config.jobs.max_job_count as usize {
        return Err(ErrorCode::MaxJobCount.into());
    }
    choose_partitions(cluster, &mut request)?;
    if let (Some(min), Some(limit)) = (request.time_min, request.time_limit)
        && exceeds(min, limit)
    {
        return Err(ErrorCode::InvalidTimeMinLimit.into());
    }
    if let Some(deadline) = request.deadline {
        let needed = request
            .time_min
            .or(request.time_limit)
            .and_then(TimeLimit::seconds)
            .unwrap_or(0);
        if deadline <= now || now.saturating_add(needed) > deadline {
            return Err(ErrorCode::InvalidTimeLimit.into());
        }
    }
    let state = match request
        .dependency
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        Some(text) => dependency::resolve(cluster, None, array.is_some(), text, now)?,
        None => DependencyState::default(),
    };
    if let Some(text) = &request.licenses {
        license::check(cluster, text)?;
    }
    if request.reservation.as_deref() == Some("") {
        request.reservation = None;
    }
    let charge = Charge::of(cluster, submission, &request);
    access::check_names(
        cluster,
        request.reservation.as_deref(),
        access::Applicant {
            uid: request.uid,
            user: &submission.user_name,
            groups: &submission.group_names,
            account: &charge.account,
            qos: &charge.qos,
            partitions: &request.partitions,
        },
    )?;
    check_partitions(cluster, &mut request, submission)?;
    access::check_size(cluster, &request)?;
    if request.extra.contains_key("reboot") && !caller.privileged {
        return Err(Rejection {
            notice: Some("rebooting of nodes is only allowed for admins".to_owned()),
            ..Rejection::new(ErrorCode::AccessDenied)
        });
    }
    fill_defaults(&mut request, array.is_some());
    let id = cluster.next_job_id;
    Ok(record(cluster, submission, request, array, state, id, now))
}

/// Longest text of a name or a list.
const TEXT_MAX: usize = 1024;

/// Longest path.
const PATH_LENGTH_MAX: usize = 4096;

/// Texts longer than slurmctld takes are refused as paths that are too long, whatever they are.
fn check_lengths(request: &JobDescription) -> Result<(), Rejection> {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let partitions: usize = request.partitions.iter().map(|name| name.len() + 1).sum();
    let limits = [
        ("account", text(&request.account), TEXT_MAX),
        ("array_inx", text(&request.array), TEXT_MAX * 4),
        ("comment", text(&request.comment), TEXT_MAX),
        ("cpu-bind", text(&request.cpu_bind), TEXT_MAX * 128),
        ("dependency", text(&request.dependency), TEXT_MAX * 128),
        ("features", text(&request.constraint), TEXT_MAX),
        ("licenses", text(&request.licenses), TEXT_MAX),
        ("mail_user", text(&request.mail_user), TEXT_MAX),
        ("mem-bind", text(&request.mem_bind), TEXT_MAX * 128),
        ("name", text(&request.name), TEXT_MAX),
        ("partition", partitions.saturating_sub(1), TEXT_MAX),
        ("prefer", text(&request.prefer), TEXT_MAX),
        ("qos", text(&request.qos), TEXT_MAX),
        ("req_nodes", text(&request.required_nodes), TEXT_MAX * 64),
        ("exc_nodes", text(&request.excluded_nodes), TEXT_MAX * 64),
        ("reservation", text(&request.reservation), TEXT_MAX),
        ("std_err", text(&request.std_err), PATH_LENGTH_MAX),
        ("std_in", text(&request.std_in), PATH_LENGTH_MAX),
        ("std_out", text(&request.std_out), PATH_LENGTH_MAX),
        ("submit_line", request.submit_line.len(), TEXT_MAX * 1024),
        ("tres_bind", text(&request.gpu_bind), TEXT_MAX),
        ("wckey", text(&request.wckey), TEXT_MAX),
        ("work_dir", request.work_dir.len(), PATH_LENGTH_MAX),
    ];
    let extra = request
        .extra
        .iter()
        .map(|(name, value)| (name.as_str(), value.len(), TEXT_MAX * 8));
    for (name, length, most) in limits.into_iter().chain(extra) {
        if length > most {
            return Err(Rejection::with_text(
                ErrorCode::PathnameTooLong,
                format!(
                    "{}\n\nhint: {name} has {length} characters, the limit is {most}",
                    ErrorCode::PathnameTooLong.message()
                ),
            ));
        }
    }
    Ok(())
}

fn exceeds(a: TimeLimit, b: TimeLimit) -> bool {
    match (a.minutes(), b.minutes()) {
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
        _ => false,
    }
}

fn parse_array(cluster: &Cluster, text: Option<&str>) -> Result<Option<ArraySpec>, Rejection> {
    let Some(text) = text else { return Ok(None) };
    let invalid = |why: String| {
        Rejection::with_text(
            ErrorCode::InvalidArray,
            format!("{}\n\nhint: {why}", ErrorCode::InvalidArray.message()),
        )
    };
    let spec: ArraySpec = text.parse().map_err(|error| invalid(format!("{error}")))?;
    let size = cluster.config.jobs.max_array_size;
    if size == 0 {
        return Err(invalid(
            "job arrays are switched off here (MaxArraySize=0)".to_owned(),
        ));
    }
    match spec.tasks.last() {
        None => Err(invalid(format!("\"{text}\" names no task"))),
        Some(last) if last >= size => Err(invalid(format!(
            "the highest index is {last}, the limit is {} (MaxArraySize={size})",
            size - 1
        ))),
        Some(_) => Ok(Some(spec)),
    }
}

/// What a job is charged to: as asked for, else by default. The association may be one for its first partition.
struct Charge {
    account: String,
    association: Option<u32>,
    qos: String,
}

impl Charge {
    fn of(cluster: &Cluster, submission: &Submission, request: &JobDescription) -> Self {
        let policy = &cluster.policy;
        let user = &submission.user_name;
        let by_policy = || policy.default_account(&cluster.config.cluster_name, user);
        let account = request
            .account
            .clone()
            .or_else(|| submission.default_account.clone())
            .or_else(|| by_policy().map(str::to_owned))
            .unwrap_or_default();
        let partition = request.partitions.first().map_or("", String::as_str);
        let association = policy.association_for(&account, user, partition);
        let by_association = || association.and_then(|id| policy.default_qos(id));
        let qos = request
            .qos
            .clone()
            .or_else(|| by_association().map(str::to_owned))
            .unwrap_or_else(|| DEFAULT_QOS.to_owned());
        Self {
            account,
            association,
            qos,
        }
    }
}

fn choose_partitions(cluster: &Cluster, request: &mut JobDescription) -> Result<(), Rejection> {
    // A list of nothing is no list.
    request.partitions.retain(|name| !name.is_empty());
    if request.partitions.is_empty() {
        let default = cluster
            .default_partition()
            .ok_or(ErrorCode::DefaultPartitionNotSet)?;
        request.partitions = vec![default.config.name.clone()];
    }
    let mut chosen: Vec<(u16, String)> = Vec::new();
    for name in &request.partitions {
        let mut partition = cluster.partition(name).ok_or_else(|| Rejection {
            notice: Some(format!("invalid partition specified: {name}")),
            ..Rejection::new(ErrorCode::InvalidPartitionName)
        })?;
        if !accepts(partition) {
            let alternate = partition
                .config
                .alternate
                .as_deref()
                .and_then(|name| cluster.partition(name));
            match alternate.filter(|other| accepts(other)) {
                Some(other) => partition = other,
                None => return Err(ErrorCode::PartitionNotAvail.into()),
            }
        }
        if !chosen
            .iter()
            .any(|(_, known)| *known == partition.config.name)
        {
            chosen.push((
                partition.config.priority_tier,
                partition.config.name.clone(),
            ));
        }
    }
    // Listed partitions are tried by tier (sbatch(1) --partition); the sort is stable.
    chosen.sort_by_key(|(tier, _)| std::cmp::Reverse(*tier));
    request.partitions = chosen.into_iter().map(|(_, name)| name).collect();
    Ok(())
}

fn accepts(partition: &Partition) -> bool {
    matches!(
        partition.config.state,
        PartitionState::Up | PartitionState::Down
    )
}

/// Checks the request against each partition. What is wrong whatever happens is refused. Limits of partitions are enforced as
/// EnforcePartLimits says: ALL wants none exceeded, ANY one partition whose limits are kept, and without it the job waits.
fn check_partitions(
    cluster: &Cluster,
    request: &mut JobDescription,
    submission: &Submission,
) -> Result<(), Rejection> {
    let mut first_fault: Option<Rejection> = None;
    let mut good = 0_usize;
    let mut closed = Vec::new();
    for name in &request.partitions {
        let Some(partition) = cluster.partition(name) else {
            continue;
        };
        let config = &partition.config;
        let privileged = submission.caller.privileged;
        if config.root_only && request.uid != 0 && !privileged {
            return Err(ErrorCode::AccessDenied.into());
        }
        if config.disable_root_jobs && request.uid == 0 {
            return Err(ErrorCode::AccessDenied.into());
        }
        if config.req_resv && request.reservation.is_none() {
            return Err(ErrorCode::AccessDenied.into());
        }
        if request.time_limit.is_none()
            && config.default_time.and_then(TimeLimit::minutes) == Some(0)
        {
            return Err(ErrorCode::InvalidTimeLimit.into());
        }
        let outcome = if is_open_to(config, request.uid, submission) {
            check_partition(cluster, request, partition)
        } else {
            closed.push(name.clone());
            Err(ErrorCode::PartitionGroupMissing.into())
        };
        match outcome {
            Ok(()) => good += 1,
            Err(rejection) => {
                first_fault.get_or_insert(rejection);
            }
        }
    }
    // Who may use it is not looked at again before the start.
    request.partitions.retain(|name| !closed.contains(name));
    let enforce_all =
        cluster.config.scheduling.enforce_part_limits == sluice_config::EnforcePartLimits::All;
    match first_fault {
        Some(fault) if good == 0 || enforce_all => Err(fault),
        _ => Ok(()),
    }
}

/// AllowGroups.
fn is_open_to(config: &sluice_config::PartitionConfig, uid: u32, submission: &Submission) -> bool {
    let allowed = |groups: &Vec<String>| {
        submission
            .group_names
            .iter()
            .any(|group| groups.contains(group))
    };
    uid == 0 || config.allow_groups.as_ref().is_none_or(allowed)
}

fn check_partition(
    cluster: &Cluster,
    request: &JobDescription,
    partition: &Arc<Partition>,
) -> Result<(), Rejection> {
    let enforced =
        cluster.config.scheduling.enforce_part_limits != sluice_config::EnforcePartLimits::No;
    let normal = match select::ResourceRequest::new(request, partition, &cluster.config) {
        // MaxMemPerNode and its like are limits of the partition too.
        Err(error) if error.code == ErrorCode::InvalidTaskMemory && !enforced => return Ok(()),
        normal => normal?,
    };
    select::feasible::names_exist(cluster, &normal)?;
    match select::feasible::limit_exceeded(cluster, partition, request, &normal) {
        Some(code) if enforced => return Err(code.into()),
        // Nodes outside the partition are no limit that could be raised.
        Some(ErrorCode::RequestedNodesNotInPartition) | None => {}
        Some(_) => {
            // More time than is allowed keeps a job from every partition that allows less.
            let shortest = request.time_min;
            if shortest.is_some_and(|least| exceeds(least, partition.config.max_time)) {
                return Err(ErrorCode::InvalidTimeMinLimit.into());
            }
            return Ok(());
        }
    }
    // A held job may be changed before anything looks for nodes.
    if request.hold || request.priority == Some(0) {
        return Ok(());
    }
    select::feasible::can_ever_run(cluster, partition, &normal)?;
    Ok(())
}

fn fill_defaults(request: &mut JobDescription, is_array: bool) {
    if request.name.is_none() {
        request.name = Some(
            if request.batch {
                "sbatch"
            } else {
                "interactive"
            }
            .to_owned(),
        );
    }
    if request.batch {
        if request.std_out.is_none() {
            request.std_out = Some(
                if is_array {
                    "slurm-%A_%a.out"
                } else {
                    "slurm-%j.out"
                }
                .to_owned(),
            );
        }
        if request.std_in.is_none() {
            request.std_in = Some("/dev/null".to_owned());
        }
    }
    request.script = None;
    request.environment = Vec::new();
}

fn record(
    cluster: &Cluster,
    submission: &Submission,
    request: JobDescription,
    array: Option<ArraySpec>,
    dependency: DependencyState,
    id: JobId,
    now: UnixSeconds,
) -> Job {
    let (reason, priority) = match (request.hold, request.priority) {
        (true, _) | (false, Some(0)) => {
            let by_admin = submission.caller.privileged && submission.caller.uid != request.uid;
            (
                if by_admin {
                    Reason::JobHeldAdmin
                } else {
                    Reason::JobHeldUser
                },
                0,
            )
        }
        (false, Some(priority)) => (Reason::None, priority),
        (false, None) => (Reason::None, BASE_PRIORITY),
    };
    let array = array.map(|spec| ArrayMembership {
        array_job_id: id,
        task_id: None,
        task_count: spec.tasks.len() as u32,
        task_min: spec.tasks.first().unwrap_or(0),
        task_max: spec.tasks.last().unwrap_or(0),
        task_step: spec.tasks.step(),
        pending: spec,
    });
    let requeue = request.requeue.unwrap_or(cluster.config.jobs.job_requeue);
    let partition = request.partitions.first().cloned().unwrap_or_default();
    let Charge {
        account,
        association,
        qos,
    } = Charge::of(cluster, submission, &request);
    let qos_id = cluster.policy.tree().qos_id(&qos);
    Job {
        id,
        array,
        script: submission.script.as_ref().map(|(id, _)| *id),
        environment: submission.environment.as_ref().map(|(id, _)| *id),
        user_name: submission.user_name.clone(),
        group_name: submission.group_name.clone(),
        account,
        qos,
        partition,
        state: JobStateFull::new(JobState::Pending),
        reason,
        reason_text: None,
        priority,
        priority_is_direct: request.priority.is_some_and(|priority| priority > 0),
        submit_time: now,
        first_submit_time: now,
        begin_time: request.begin_time.filter(|begin| *begin > now),
        eligible_time: None,
        accrue_reset: None,
        start_time: None,
        end_time: None,
        suspend_time: None,
        pre_suspend_secs: 0,
        suspended_secs: 0,
        time_limit: request.time_limit,
        dependency,
        requeue,
        restarts: 0,
        run_attempt: 0,
        allocation: None,
        warned: false,
        steps: imbl::OrdMap::new(),
        next_step_id: 0,
        exit_status: WaitStatus::SUCCESS,
        derived_exit_status: WaitStatus::SUCCESS,
        kill_requester: None,
        failed_node: None,
        scheduler: None,
        admin_comment: None,
        system_comment: None,
        het: None,
        association,
        qos_id,
        charged_to: None,
        reservation: None,
        licenses: Vec::new(),
        request: Arc::new(request),
    }
}
