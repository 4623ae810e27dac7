//! Scheduler, selection, priority and preemption settings from the global keys, with the rules on their combinations.

use super::items::Items;
use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::{is_unlimited, parse_bool, parse_tres_weights};
use sluice_model::memory::MemoryMib;
use sluice_model::time::TimeLimit;

pub(crate) fn scheduling(
    values: &Values,
    cred_expire_secs: u32,
    diags: &mut Diagnostics,
) -> SchedulingSettings {
    let dependency = Items::of(values, "DependencyParameters");
    let scheduler = Items::of(values, "SchedulerParameters");
    SchedulingSettings {
        kind: if is(values, "SchedulerType", "sched/builtin") {
            SchedulerKind::Builtin
        } else {
            SchedulerKind::Backfill
        },
        parameters: scheduler_parameters(values, cred_expire_secs, diags),
        time_slice_secs: values.number("SchedulerTimeSlice"),
        select: select(values, diags),
        enforce_part_limits: enforce_part_limits(&values.string("EnforcePartLimits")),
        over_time_limit: minutes_limit(values, "OverTimeLimit"),
        resv_over_run: minutes_limit(values, "ResvOverRun"),
        dependency: DependencyParameters {
            // Older files have this item among SchedulerParameters.
            kill_invalid_depend: dependency.flag("kill_invalid_depend")
                || scheduler.flag("kill_invalid_depend"),
            disable_remote_singleton: dependency.flag("disable_remote_singleton")
                || scheduler.flag("disable_remote_singleton"),
            max_depend_depth: dependency.number("max_depend_depth", 10, (1, 10_000), diags) as u32,
        },
        memory: memory_defaults(values, diags),
    }
}

fn is(values: &Values, key: &str, word: &str) -> bool {
    values
        .text(key)
        .is_some_and(|t| t.eq_ignore_ascii_case(word))
}

fn minutes_limit(values: &Values, key: &str) -> TimeLimit {
    match values.text(key) {
        Some(t) if is_unlimited(t) => TimeLimit::Unlimited,
        _ => TimeLimit::Minutes(values.number(key)),
    }
}

fn enforce_part_limits(text: &str) -> EnforcePartLimits {
    match (text.to_ascii_uppercase().as_str(), parse_bool(text)) {
        ("ALL", _) => EnforcePartLimits::All,
        ("ANY", _) | (_, Some(true)) => EnforcePartLimits::Any,
        _ => EnforcePartLimits::No,
    }
}

/// MiB of a memory key; UNLIMITED is 0.
fn mib(values: &Values, key: &str) -> MemoryMib {
    MemoryMib(values.limit(key).unwrap_or(0))
}

fn memory_defaults(values: &Values, diags: &mut Diagnostics) -> MemoryDefaults {
    one_of_these(
        values,
        &["DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"],
        diags,
    );
    one_of_these(values, &["MaxMemPerCPU", "MaxMemPerNode"], diags);
    MemoryDefaults {
        def_mem_per_cpu: mib(values, "DefMemPerCPU"),
        def_mem_per_node: mib(values, "DefMemPerNode"),
        def_mem_per_gpu: mib(values, "DefMemPerGPU"),
        def_cpu_per_gpu: values.limit("DefCPUPerGPU"),
        max_mem_per_cpu: mib(values, "MaxMemPerCPU"),
        max_mem_per_node: mib(values, "MaxMemPerNode"),
    }
}

/// Reports keys that exclude each other.
pub(crate) fn one_of_these(values: &Values, keys: &[&str], diags: &mut Diagnostics) {
    let given: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|k| {
            values
                .given(k)
                .is_some_and(|t| t != "0" && !is_unlimited(t))
        })
        .collect();
    if let [first, rest @ ..] = given.as_slice() {
        for key in rest {
            let detail =
                Detail::pair(key, values.given(key).unwrap_or("")).hint("keep one of the two");
            diags.error(
                values.origin_of(key),
                detail,
                format!("excludes {first}, which is given too"),
            );
        }
    }
}

fn scheduler_parameters(
    values: &Values,
    cred_expire_secs: u32,
    diags: &mut Diagnostics,
) -> SchedulerParameters {
    let p = Items::of(values, "SchedulerParameters");
    let max_test = p.number("bf_max_job_test", 500, (1, 1_000_000), diags);
    let interval = p.signed("bf_interval", 30, (1, 10_800), diags);
    let max_rpc_cnt = p.number("max_rpc_cnt", 0, (0, 1000), diags);
    const ANY: (u64, u64) = (0, u32::MAX as u64);
    let hetjob_prio = match p
        .value("bf_hetjob_prio")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        None => p.flag("bf_hetjob_immediate").then_some(HetJobPriority::Min),
        Some("min") => Some(HetJobPriority::Min),
        Some("avg") => Some(HetJobPriority::Avg),
        Some("max") => Some(HetJobPriority::Max),
        Some(other) => {
            let item = format!("bf_hetjob_prio={other}");
            diags.error(
                values.origin_of("SchedulerParameters"),
                Detail::pair("SchedulerParameters", &item).hint("legal: min, avg, max"),
                "is not known",
            );
            None
        }
    };
    let max_array_tasks = p
        .number_if_set("max_array_tasks", (1, 4_000_001), diags)
        .map(|n| n as u32);
    SchedulerParameters {
        bf_allow_magnetic_slot: p.flag("bf_allow_magnetic_slot"),
        bf_busy_nodes: p.flag("bf_busy_nodes"),
        bf_continue: p.flag("bf_continue"),
        bf_hetjob_immediate: p.flag("bf_hetjob_immediate"),
        bf_hetjob_prio: hetjob_prio,
        bf_interval_secs: interval.map(|n| n as u32),
        bf_job_part_count_reserve: p.number("bf_job_part_count_reserve", 0, (0, 100_000), diags)
            as u32,
        bf_licenses: p.flag("bf_licenses"),
        bf_max_job_array_resv: p.number("bf_max_job_array_resv", 20, (0, 1000), diags) as u32,
        bf_max_job_assoc: p.number("bf_max_job_assoc", 0, (0, max_test), diags) as u32,
        bf_max_job_part: p.number("bf_max_job_part", 0, (0, max_test), diags) as u32,
        bf_max_job_start: p.number("bf_max_job_start", 0, (0, 10_000), diags) as u32,
        bf_max_job_test: max_test as u32,
        bf_max_job_user: p.number("bf_max_job_user", 0, (0, max_test), diags) as u32,
        bf_max_job_user_part: p.number("bf_max_job_user_part", 0, (0, max_test), diags) as u32,
        bf_max_time_secs: p.number(
            "bf_max_time",
            interval.unwrap_or(30).min(3600),
            (1, 3600),
            diags,
        ) as u32,
        bf_min_age_reserve_secs: p.number("bf_min_age_reserve", 0, (0, 2_592_000), diags) as u32,
        bf_min_prio_reserve: p.number("bf_min_prio_reserve", 0, (0, 1 << 63), diags),
        bf_node_space_size: p.number("bf_node_space_size", max_test.max(2), (2, 2_000_000), diags)
            as u32,
        bf_one_resv_per_job: p.flag("bf_one_resv_per_job"),
        bf_resolution_secs: p.number("bf_resolution", 60, (1, 3600), diags) as u32,
        bf_running_job_reserve: p.flag("bf_running_job_reserve") || p.flag("bf_licenses"),
        bf_window_minutes: p.number("bf_window", 1440, (1, 43_200), diags) as u32,
        bf_window_linear_secs: p
            .number_if_set("bf_window_linear", (1, 86_400), diags)
            .map(|n| n as u32),
        bf_yield_interval_us: p.number("bf_yield_interval", 2_000_000, (1, 10_000_000), diags)
            as u32,
        bf_yield_rpc_cnt: p.number(
            "bf_yield_rpc_cnt",
            (max_rpc_cnt / 10).max(20),
            (0, 200),
            diags,
        ) as u32,
        bf_yield_sleep_us: p.number("bf_yield_sleep", 500_000, (1, 10_000_000), diags) as u32,
        allow_zero_lic: p.flag("allow_zero_lic"),
        assoc_limit_stop: p.flag("assoc_limit_stop"),
        batch_sched_delay_secs: p.number("batch_sched_delay", 3, ANY, diags) as u32,
        build_queue_timeout_us: p.number("build_queue_timeout", 2_000_000, ANY, diags) as u32,
        correspond_after_task_cnt: p
            .number("correspond_after_task_cnt", 10, ANY, diags)
            .max(10) as u32,
        default_queue_depth: p.number("default_queue_depth", 100, ANY, diags) as u32,
        defer: p.flag("defer"),
        defer_batch: p.flag("defer_batch"),
        delay_boot_minutes: (p.seconds("delay_boot", 0, ANY, diags)
            / if p
                .value("delay_boot")
                .is_some_and(|v| v.contains([':', '-']))
            {
                60
            } else {
                1
            }) as u32,
        disable_job_shrink: p.flag("disable_job_shrink"),
        enable_hetjob_steps: !p.flag("disable_hetjob_steps"),
        enable_user_top: p.flag("enable_user_top"),
        extra_constraints: p.flag("extra_constraints"),
        ignore_constraint_validation: p.flag("ignore_constraint_validation"),
        ignore_prefer_validation: p.flag("ignore_prefer_validation"),
        max_array_tasks,
        max_rpc_cnt: max_rpc_cnt as u32,
        max_sched_time_secs: p.number("max_sched_time", 2, (1, 65_535), diags) as u32,
        max_script_size_bytes: p.number(
            "max_script_size",
            4 * 1024 * 1024,
            (0, 512 * 1024 * 1024),
            diags,
        ),
        max_submit_line_size_bytes: p.number(
            "max_submit_line_size",
            1024 * 1024,
            (0, 2 * 1024 * 1024),
            diags,
        ),
        max_switch_wait_secs: p.seconds("max_switch_wait", 300, ANY, diags) as u32,
        no_backup_scheduling: p.flag("no_backup_scheduling"),
        nohold_on_prolog_fail: p.flag("nohold_on_prolog_fail"),
        pack_serial_at_end: p.flag("pack_serial_at_end"),
        partition_job_depth: p.number("partition_job_depth", 0, ANY, diags) as u32,
        reduce_completing_frag: p.flag("reduce_completing_frag"),
        requeue_delay_secs: p.number("requeue_delay", u64::from(cred_expire_secs), ANY, diags)
            as u32,
        requeue_on_resume_failure: p.flag("requeue_on_resume_failure"),
        salloc_wait_nodes: p.flag("salloc_wait_nodes"),
        sbatch_wait_nodes: p.flag("sbatch_wait_nodes"),
        sched_interval_secs: p.signed("sched_interval", 60, ANY, diags).map(|n| n as u32),
        sched_max_job_start: p.number("sched_max_job_start", 0, ANY, diags) as u32,
        sched_min_interval_us: p.number("sched_min_interval", 2, ANY, diags),
        spec_cores_first: p.flag("spec_cores_first"),
        step_retry_count: p.number("step_retry_count", 8, (1, 65_535), diags) as u32,
        step_retry_time_secs: p.number("step_retry_time", 60, (1, 65_535), diags) as u32,
        time_min_as_soft_limit: p.flag("time_min_as_soft_limit"),
        whole_hetjob: p.flag("whole_hetjob"),
    }
}

fn select(values: &Values, diags: &mut Diagnostics) -> SelectSettings {
    let linear = is(values, "SelectType", "select/linear");
    if is(values, "SelectType", "select/cons_res") {
        let detail = Detail::pair("SelectType", "select/cons_res").hint("write select/cons_tres");
        diags.warn(
            values.origin_of("SelectType"),
            detail,
            "no longer exists; select/cons_tres is used",
        );
    }
    let items = values.list("SelectTypeParameters");
    let has = |name: &str| items.iter().any(|i| i.eq_ignore_ascii_case(name));
    let units = [
        ("CR_CPU", ConsumableUnit::Cpu),
        ("CR_Core", ConsumableUnit::Core),
        ("CR_Socket", ConsumableUnit::Socket),
    ];
    let mut chosen = Vec::new();
    for (name, unit) in units {
        for memory in [false, true] {
            let name = if memory {
                format!("{name}_Memory")
            } else {
                name.to_owned()
            };
            if has(&name) {
                chosen.push((name, unit, memory));
            }
        }
    }
    let text = values
        .given("SelectTypeParameters")
        .unwrap_or("")
        .to_owned();
    let mut fault = |message: &str, hint: &str| {
        diags.error(
            values.origin_of("SelectTypeParameters"),
            Detail::pair("SelectTypeParameters", &text).hint(hint),
            message,
        );
    };
    if chosen.len() > 1 {
        fault(
            "names more than one consumable resource",
            "keep one of CR_CPU, CR_Core, CR_Socket, each with or without _Memory",
        );
    }
    if linear && !chosen.is_empty() {
        fault(
            "does not go with select/linear, which gives out whole nodes",
            "legal with select/linear: CR_Memory",
        );
    }
    if !linear && has("CR_Memory") {
        fault(
            "CR_Memory alone goes with select/linear only",
            "write CR_CPU_Memory, CR_Core_Memory or CR_Socket_Memory",
        );
    }
    if has("CR_ONE_TASK_PER_CORE") && chosen.iter().any(|c| c.1 == ConsumableUnit::Cpu) {
        fault(
            "CR_ONE_TASK_PER_CORE does not go with CR_CPU",
            "write CR_Core or CR_Socket",
        );
    }
    let (unit, memory) = match (linear, chosen.first()) {
        (true, _) => (ConsumableUnit::Node, has("CR_Memory")),
        (false, Some((_, unit, memory))) => (*unit, *memory),
        // Options alone leave the unit at its default.
        (false, None) => (ConsumableUnit::Core, true),
    };
    let other = [
        "LL_SHARED_GRES",
        "MULTIPLE_SHARING_GRES_PJ",
        "ENFORCE_BINDING_GRES",
        "ONE_TASK_PER_SHARING_GRES",
    ];
    SelectSettings {
        kind: if linear {
            SelectKind::Linear
        } else {
            SelectKind::ConsTres
        },
        unit,
        memory,
        one_task_per_core: has("CR_ONE_TASK_PER_CORE"),
        core_default_dist_block: has("CR_CORE_DEFAULT_DIST_BLOCK"),
        lln: has("CR_LLN"),
        pack_nodes: has("CR_Pack_Nodes"),
        no_dist_topo_block: has("CR_NO_DIST_TOPO_BLOCK"),
        other: other
            .iter()
            .filter(|o| has(o))
            .map(|o| (*o).to_owned())
            .collect(),
    }
}

pub(crate) fn priority(values: &Values) -> PrioritySettings {
    let items = values.list("PriorityFlags");
    let has = |name: &str| items.iter().any(|i| i.eq_ignore_ascii_case(name));
    let all = has("NO_NORMAL_ALL");
    let flags = PriorityFlags {
        accrue_always: has("ACCRUE_ALWAYS"),
        calculate_running: has("CALCULATE_RUNNING"),
        depth_oblivious: has("DEPTH_OBLIVIOUS"),
        no_fair_tree: has("NO_FAIR_TREE") || has("DEPTH_OBLIVIOUS"),
        incr_only: has("INCR_ONLY"),
        max_tres: has("MAX_TRES"),
        max_tres_gres: has("MAX_TRES_GRES"),
        no_normal_assoc: all || has("NO_NORMAL_ASSOC"),
        no_normal_part: all || has("NO_NORMAL_PART"),
        no_normal_qos: all || has("NO_NORMAL_QOS"),
        no_normal_tres: all || has("NO_NORMAL_TRES"),
        small_relative_to_time: has("SMALL_RELATIVE_TO_TIME"),
    };
    use UsageResetPeriod::*;
    let periods = [
        ("NOW", Now),
        ("DAILY", Daily),
        ("WEEKLY", Weekly),
        ("MONTHLY", Monthly),
        ("QUARTERLY", Quarterly),
        ("YEARLY", Yearly),
    ];
    let reset = periods
        .iter()
        .find(|(name, _)| is(values, "PriorityUsageResetPeriod", name))
        .map_or(None, |(_, p)| *p);
    PrioritySettings {
        kind: if is(values, "PriorityType", "priority/basic") {
            PriorityKind::Basic
        } else {
            PriorityKind::Multifactor
        },
        weight_age: values.number("PriorityWeightAge"),
        weight_assoc: values.number("PriorityWeightAssoc"),
        weight_fairshare: values.number("PriorityWeightFairshare"),
        weight_job_size: values.number("PriorityWeightJobSize"),
        weight_partition: values.number("PriorityWeightPartition"),
        weight_qos: values.number("PriorityWeightQOS"),
        weight_tres: values
            .text("PriorityWeightTRES")
            .and_then(|t| parse_tres_weights(t).ok())
            .unwrap_or_default(),
        // UNLIMITED: a job never reaches the full age factor.
        max_age_secs: values.seconds("PriorityMaxAge").unwrap_or(u64::MAX),
        decay_half_life_secs: values.seconds("PriorityDecayHalfLife").unwrap_or(0),
        calc_period_secs: values
            .seconds("PriorityCalcPeriod")
            .filter(|s| *s > 0)
            .unwrap_or(300),
        usage_reset_period: reset,
        favor_small: values.boolean("PriorityFavorSmall"),
        flags,
        fair_share_dampening_factor: values.number::<u16>("FairShareDampeningFactor").max(1),
    }
}

/// Age and fair share are counted by accounting; usage that never wears away must be set back now and then.
pub(crate) fn check_priority(values: &Values, has_accounting: bool, diags: &mut Diagnostics) {
    for key in ["PriorityWeightAge", "PriorityWeightFairshare"] {
        if values.number::<u32>(key) > 0 && !has_accounting {
            let text = values.string(key);
            let detail = Detail::pair(key, &text).hint("set AccountingStorageType");
            diags.warn(
                values.origin_of(key),
                detail,
                "needs accounting; the weight is 0 without",
            );
        }
    }
    let settings = priority(values);
    let multifactor = settings.kind == PriorityKind::Multifactor;
    if multifactor
        && settings.decay_half_life_secs == 0
        && settings.usage_reset_period == UsageResetPeriod::None
    {
        let text = values.string("PriorityDecayHalfLife");
        let detail = Detail::pair("PriorityDecayHalfLife", &text)
            .hint("set PriorityUsageResetPeriod, or a half-life");
        diags.warn(
            values.origin_of("PriorityDecayHalfLife"),
            detail,
            "usage neither wears away nor is it ever set back",
        );
    }
}

/// The mode and flags in a PreemptMode list, or `None` when the list contradicts itself (which is then on record).
pub(crate) struct ModeList {
    pub mode: Option<PreemptMode>,
    pub gang: bool,
    pub priority: bool,
    pub within: bool,
}

/// Reads a PreemptMode list; at most one of OFF, CANCEL, REQUEUE, SUSPEND may be in it.
pub(crate) fn preempt_mode_list(values: &Values, diags: &mut Diagnostics) -> ModeList {
    let items = values.list("PreemptMode");
    let has = |name: &str| items.iter().any(|i| i.eq_ignore_ascii_case(name));
    let modes = [
        ("OFF", PreemptMode::Off),
        ("CANCEL", PreemptMode::Cancel),
        ("REQUEUE", PreemptMode::Requeue),
        ("SUSPEND", PreemptMode::Suspend),
        ("ON", PreemptMode::Suspend),
    ];
    let given: Vec<PreemptMode> = modes
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(_, m)| *m)
        .collect();
    if given.len() > 1 {
        let text = values.string("PreemptMode");
        diags.error(
            values.origin_of("PreemptMode"),
            Detail::pair("PreemptMode", &text)
                .hint("one of OFF, CANCEL, REQUEUE, SUSPEND, with GANG, PRIORITY or WITHIN"),
            "names more than one mode",
        );
    }
    ModeList {
        mode: given.first().copied(),
        gang: has("GANG"),
        priority: has("PRIORITY"),
        within: has("WITHIN"),
    }
}

pub(crate) fn preempt(
    values: &Values,
    select: &SelectSettings,
    diags: &mut Diagnostics,
) -> PreemptSettings {
    let kind = match values
        .text("PreemptType")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("preempt/partition_prio") => PreemptType::PartitionPrio,
        Some("preempt/qos") => PreemptType::Qos,
        _ => PreemptType::None,
    };
    let list = preempt_mode_list(values, diags);
    let mode = list.mode.unwrap_or(PreemptMode::Off);
    let text = values.string("PreemptMode");
    let mut fault = |message: &str, hint: &str| {
        diags.error(
            values.origin_of("PreemptMode"),
            Detail::pair("PreemptMode", &text).hint(hint),
            message,
        );
    };
    if mode == PreemptMode::Suspend && !list.gang {
        fault(
            "SUSPEND needs GANG, which resumes what was suspended",
            "write PreemptMode=SUSPEND,GANG",
        );
    }
    if list.gang && list.within {
        fault("GANG does not go with WITHIN", "drop one of the two");
    }
    if list.gang && list.priority {
        fault("GANG does not go with PRIORITY", "drop one of the two");
    }
    if kind == PreemptType::None && (mode != PreemptMode::Off || list.priority || list.within) {
        fault(
            "needs a PreemptType",
            "set PreemptType to preempt/partition_prio or preempt/qos, or PreemptMode to OFF (or GANG alone)",
        );
    }
    if kind != PreemptType::None && mode == PreemptMode::Off {
        let key = if values.given("PreemptMode").is_some() {
            "PreemptMode"
        } else {
            "PreemptType"
        };
        let value = values.string(key);
        let detail = Detail::pair(key, &value)
            .hint("legal with a PreemptType: CANCEL, REQUEUE, or SUSPEND,GANG");
        diags.error(
            values.origin_of(key),
            detail,
            "PreemptType is set but PreemptMode is OFF: nothing could ever be preempted",
        );
    } else if kind == PreemptType::Qos
        && mode == PreemptMode::Suspend
        && select.kind == SelectKind::Linear
    {
        fault(
            "SUSPEND with preempt/qos needs select/cons_tres",
            "change SelectType or use REQUEUE or CANCEL",
        );
    }
    if mode == PreemptMode::Suspend && !select.memory {
        let detail =
            Detail::pair("PreemptMode", &text).hint("use a SelectTypeParameters with _Memory");
        diags.warn(
            values.origin_of("PreemptMode"),
            detail,
            "suspended jobs keep their memory, but memory is not tracked",
        );
    }
    PreemptSettings {
        kind,
        mode,
        gang: list.gang,
        priority: list.priority,
        within: list.within,
        exempt_time_secs: values.seconds("PreemptExemptTime"),
        parameters: preempt_parameters(values, diags),
    }
}

fn preempt_parameters(values: &Values, diags: &mut Diagnostics) -> PreemptParameters {
    let p = Items::of(values, "PreemptParameters");
    // Older files have these among SchedulerParameters, with a prefix.
    let old = Items::of(values, "SchedulerParameters");
    PreemptParameters {
        min_exempt_priority: p
            .number_if_set("min_exempt_priority", (0, u64::from(u32::MAX)), diags)
            .map(|n| n as u32),
        reclaim_licenses: p.flag("reclaim_licenses"),
        reorder_count: p
            .number_if_set("reorder_count", (0, 1_000_000), diags)
            .or_else(|| old.number_if_set("preempt_reorder_count", (0, 1_000_000), diags))
            .unwrap_or(1) as u32,
        send_user_signal: p.flag("send_user_signal") || old.flag("preempt_send_user_signal"),
        strict_order: p.flag("strict_order") || old.flag("preempt_strict_order"),
        suspend_grace_time_secs: p.number("suspend_grace_time", 2, (0, 65_535), diags) as u32,
        youngest_first: p.flag("youngest_first") || old.flag("preempt_youngest_first"),
    }
}
