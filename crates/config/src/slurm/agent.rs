//! Scripts, the agent, cgroups, health check and power saving.

use super::files::{Files, is_pattern, join};
use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics, Origin};

/// Where relative script names are looked up.
pub(crate) struct ScriptFolder<'a> {
    pub files: &'a dyn Files,
    pub folder: &'a str,
}

pub(crate) fn scripts(
    values: &Values,
    folder: &ScriptFolder<'_>,
    diags: &mut Diagnostics,
) -> ScriptSettings {
    let flags = prolog_flags(values, diags);
    let text = |key: &str| values.given(key).map(str::to_owned);
    let both = values.limit::<u32>("PrologEpilogTimeout");
    let mut list = |key: &'static str| {
        let entries: Vec<(String, Origin)> = values
            .lines(key)
            .map(|(v, o)| (v.to_owned(), o.clone()))
            .collect();
        entries
            .iter()
            .flat_map(|(path, origin)| script(key, path, origin, folder, diags))
            .collect::<Vec<_>>()
    };
    ScriptSettings {
        prolog: list("Prolog"),
        epilog: list("Epilog"),
        prolog_slurmctld: list("PrologSlurmctld"),
        epilog_slurmctld: list("EpilogSlurmctld"),
        task_prolog: text("TaskProlog"),
        task_epilog: text("TaskEpilog"),
        srun_prolog: text("SrunProlog"),
        srun_epilog: text("SrunEpilog"),
        resv_prolog: text("ResvProlog"),
        resv_epilog: text("ResvEpilog"),
        flags,
        prolog_timeout_secs: values.limit("PrologTimeout").or(both),
        epilog_timeout_secs: values.limit("EpilogTimeout").or(both),
        epilog_msg_time_us: values.number("EpilogMsgTime"),
    }
}

/// An absolute path stays a path, for the machine that runs it; a relative one is read now, so that it travels with the configuration.
fn script(
    key: &str,
    path: &str,
    origin: &Origin,
    folder: &ScriptFolder<'_>,
    diags: &mut Diagnostics,
) -> Vec<NodeScript> {
    if path.is_empty() || path.eq_ignore_ascii_case("(null)") {
        return Vec::new();
    }
    if path.starts_with('/') {
        return vec![NodeScript::Path(path.to_owned())];
    }
    let full = join(folder.folder, path);
    let mut matches = match folder.files.glob(&full) {
        Ok(matches) => matches,
        Err(why) => {
            diags.error(
                origin,
                Detail::pair(key, path),
                format!("not a valid pattern: {why}"),
            );
            return Vec::new();
        }
    };
    // Slurm runs the matches of a pattern from z to a.
    matches.sort();
    matches.reverse();
    if matches.is_empty() && is_pattern(&full) {
        diags.warn(
            origin,
            Detail::pair(key, path),
            format!("matches no file in {}", folder.folder),
        );
    }
    let prefix = if folder.folder.is_empty() {
        String::new()
    } else {
        format!("{}/", folder.folder.trim_end_matches('/'))
    };
    let read = |full: String| match folder.files.read(&full) {
        Ok(text) => Some(NodeScript::Text {
            name: full.strip_prefix(&prefix).unwrap_or(&full).to_owned(),
            text,
        }),
        Err(why) => {
            let hint = "a relative name is looked up beside slurm.conf; write the whole path for a file on the nodes";
            diags.error(
                origin,
                Detail::pair(key, path).hint(hint),
                format!("{full} cannot be read: {why}"),
            );
            None
        }
    };
    matches.into_iter().filter_map(read).collect()
}

fn prolog_flags(values: &Values, diags: &mut Diagnostics) -> PrologFlags {
    let items = values.list("PrologFlags");
    let has = |name: &str| items.iter().any(|i| i.eq_ignore_ascii_case(name));
    let mut flags = PrologFlags {
        alloc: has("Alloc"),
        contain: has("Contain"),
        defer_batch: has("DeferBatch"),
        no_hold: has("NoHold"),
        force_requeue_on_fail: has("ForceRequeueOnFail"),
        run_in_job: has("RunInJob"),
        serial: has("Serial"),
        x11: has("X11"),
    };
    flags.contain |= flags.run_in_job || flags.x11;
    flags.alloc |=
        flags.contain || flags.defer_batch || flags.no_hold || flags.force_requeue_on_fail;
    let text = values.string("PrologFlags");
    let mut fault = |message: &str| {
        diags.error(
            values.origin_of("PrologFlags"),
            Detail::pair("PrologFlags", &text).hint("drop one of the two"),
            message,
        );
    };
    if flags.no_hold && flags.contain {
        fault("NoHold does not go with Contain, X11 or RunInJob");
    }
    if flags.run_in_job && flags.serial {
        fault("RunInJob does not go with Serial");
    }
    flags
}

pub(crate) fn agent(values: &Values, diags: &mut Diagnostics) -> AgentSettings {
    let plugins = values.list("TaskPlugin");
    let has_plugin = |name: &str| {
        plugins
            .iter()
            .any(|p| p.to_ascii_lowercase().trim_start_matches("task/") == name)
    };
    let params = values.list("TaskPluginParam");
    for old in params
        .iter()
        .filter(|p| ["sched", "cpusets"].contains(&p.to_ascii_lowercase().as_str()))
    {
        diags.warn(
            values.origin_of("TaskPluginParam"),
            Detail::pair("TaskPluginParam", old).hint("remove it"),
            "is obsolete and has no effect",
        );
    }
    let slurmd_parameters = values.list("SlurmdParameters");
    AgentSettings {
        return_to_service: values.number("ReturnToService"),
        proctrack: match values.string("ProctrackType").to_ascii_lowercase().as_str() {
            "proctrack/linuxproc" => ProctrackKind::LinuxProc,
            "proctrack/pgid" => ProctrackKind::Pgid,
            _ => ProctrackKind::Cgroup,
        },
        task_affinity: has_plugin("affinity"),
        task_cgroup: has_plugin("cgroup"),
        task_plugin_param: params,
        config_overrides: slurmd_parameters
            .iter()
            .any(|p| p.eq_ignore_ascii_case("config_overrides")),
        slurmd_parameters,
        health_check: HealthCheckSettings {
            program: values.given("HealthCheckProgram").map(str::to_owned),
            interval_secs: values.number("HealthCheckInterval"),
            node_state: values
                .list("HealthCheckNodeState")
                .iter()
                .map(|s| s.to_ascii_uppercase())
                .collect(),
            timeout_secs: values.number("HealthCheckTimeout"),
        },
        reboot_program: values.given("RebootProgram").map(str::to_owned),
        unkillable_step_program: values.given("UnkillableStepProgram").map(str::to_owned),
        tree_width: values.number("TreeWidth"),
        group_update_force: values.boolean("GroupUpdateForce"),
        group_update_secs: values.number("GroupUpdateTime"),
    }
}

/// cgroup.conf.
pub(crate) fn cgroup(values: &Values) -> CgroupSettings {
    CgroupSettings {
        plugin: match values.string("CgroupPlugin").to_ascii_lowercase().as_str() {
            "cgroup/v1" => CgroupPlugin::V1,
            "cgroup/v2" => CgroupPlugin::V2,
            "disabled" => CgroupPlugin::Disabled,
            _ => CgroupPlugin::Autodetect,
        },
        mountpoint: values.string("CgroupMountpoint"),
        slice: values.given("CgroupSlice").map(str::to_owned),
        constrain_cores: values.boolean("ConstrainCores"),
        constrain_devices: values.boolean("ConstrainDevices"),
        constrain_ram_space: values.boolean("ConstrainRAMSpace"),
        constrain_swap_space: values.boolean("ConstrainSwapSpace"),
        allowed_ram_space_percent: values.decimal("AllowedRAMSpace"),
        allowed_swap_space_percent: values.decimal("AllowedSwapSpace"),
        max_ram_percent: values.decimal("MaxRAMPercent"),
        max_swap_percent: values.decimal("MaxSwapPercent"),
        min_ram_space_mib: values.number("MinRAMSpace"),
        signal_children_processes: values.boolean("SignalChildrenProcesses"),
        job_id_paths: values.boolean("CgroupJobIdPaths"),
        ignore_systemd: values.boolean("IgnoreSystemd"),
        ignore_systemd_on_failure: values.boolean("IgnoreSystemdOnFailure"),
        enable_controllers: values.boolean("EnableControllers"),
        systemd_timeout_ms: values.number("SystemdTimeout"),
        raw: values.pairs(),
    }
}

pub(crate) fn power(values: &Values, actions: &[Values], diags: &mut Diagnostics) -> PowerSettings {
    let text = |key: &str| values.given(key).map(str::to_owned);
    let action = |v: &Values| {
        let action = PowerActionConfig {
            name: v.string("PowerAction"),
            location: v.string("Location").to_ascii_lowercase(),
            program: v.string("Program"),
        };
        if action.program.is_empty() {
            diags.error(
                &v.origin,
                Detail::pair("PowerAction", &action.name).hint("add Program=PATH"),
                "has no program",
            );
        }
        action
    };
    PowerSettings {
        actions: actions.iter().map(action).collect(),
        suspend_time_secs: values.seconds("SuspendTime").map(|s| s as u32),
        suspend_program: text("SuspendProgram"),
        resume_program: text("ResumeProgram"),
        resume_fail_program: text("ResumeFailProgram"),
        suspend_timeout_secs: values.number("SuspendTimeout"),
        resume_timeout_secs: values.number("ResumeTimeout"),
        suspend_rate: values.number("SuspendRate"),
        resume_rate: values.number("ResumeRate"),
        suspend_exc_nodes: text("SuspendExcNodes"),
        suspend_exc_parts: values.list("SuspendExcParts"),
        suspend_exc_states: values.list("SuspendExcStates"),
    }
}
