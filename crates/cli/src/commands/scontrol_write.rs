//! `scontrol write`: a job's script and the configuration in force as files. Source: scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_model::time::UnixSeconds;

use super::caller::now;
use super::scontrol::{Context, is_keyword, too_few, too_many};
use super::scontrol_jobs::call_failed;
use crate::client::ClientError;
use crate::client::calls::config_value;
use crate::output;

/// `write batch_script JOB [FILE|-]`, `write config [FILE]`.
pub(super) async fn write(context: &Context, words: &[String]) -> i32 {
    match words.split_first() {
        Some((what, rest)) if is_keyword(what, "batch_script", 5) => {
            write_script(context, rest).await
        }
        Some((what, rest)) if is_keyword(what, "config", 6) => match rest {
            [] => write_config(context, None).await,
            [file] => write_config(context, Some(file)).await,
            _ => too_many("write"),
        },
        Some((what, _)) => {
            output::error_line(format!("invalid write argument:{what}"));
            1
        }
        None => too_few("write"),
    }
}

/// A missing script or a file that cannot be written is told and is no failure, as in Slurm.
async fn write_script(context: &Context, words: &[String]) -> i32 {
    let Some(job) = words.first() else {
        return 0;
    };
    let script = match job.parse() {
        Ok(id) => async { context.connect().await?.batch_script(id).await }.await,
        Err(_) => Err(ClientError::Other(
            ErrorCode::InvalidJobId.message().to_string(),
        )),
    };
    let script = match script {
        Ok(script) => script,
        Err(error) => {
            output::error_line(format!("job script retrieval failed: {error}"));
            return 0;
        }
    };
    let file = words
        .get(1)
        .cloned()
        .unwrap_or_else(|| format!("slurm-{job}.sh"));
    if file == "-" {
        output::bytes_out(&script);
        return 0;
    }
    match std::fs::write(context.place.directory.join(&file), script) {
        Ok(()) => {
            output::line(format!("batch script for job {job} written to {file}"));
        }
        Err(error) => {
            let text = output::os_text(&error);
            output::error_line(format!("failed to open file `{file}`: {text}"));
        }
    }
    0
}

/// The files of the configuration in force, as one text with a time in its name.
async fn write_config(context: &Context, file: Option<&String>) -> i32 {
    let result = async {
        let client = context.connect().await?;
        let shown = client.config().await?;
        let nodes = client.nodes(Vec::new()).await?;
        let partitions = client.partitions(Vec::new()).await?;
        Ok::<_, ClientError>((shown, nodes, partitions))
    };
    let (shown, nodes, partitions) = match result.await {
        Ok(parts) => parts,
        Err(error) => return call_failed("slurm_load_ctl_conf error: ", &error),
    };
    let times = context.place.times(now());
    let stamp = sluice_model::time::format_timestamp(now(), &context.place.zone);
    let base = match file {
        Some(file) => context.place.directory.join(file),
        None => {
            let conf = config_value(&shown, "SLURM_CONF");
            std::path::PathBuf::from(conf.unwrap_or("slurm.conf"))
        }
    };
    let path = format!("{}.{stamp}", base.display());
    let text = crate::format::write_config::config_text(
        &times.point(UnixSeconds(shown.time)),
        &shown.entries,
        &nodes,
        &partitions,
    );
    match std::fs::write(&path, text) {
        Ok(()) => {
            output::line(format!("Slurm config saved to {path}"));
            0
        }
        Err(error) => {
            output::error_line(format!(
                "scontrol: error: {path} cannot be written: {error}"
            ));
            1
        }
    }
}
