//! `--gres=help` of sbatch, salloc and srun: the kinds of resources that the cluster has. Nothing is submitted.
//!
//! They come from the controller, since a machine that only submits may have no configuration. Source: sbatch(1) --gres.

use super::block_on;
use super::sacctmgr::PATIENCE;
use crate::client::Client;
use crate::client::calls::config_value;
use crate::output;
use crate::submit::options::Options;

/// Prints the list where it is asked for, and gives the exit code.
pub(super) fn asked(options: &Options) -> Option<i32> {
    if options.get("gres") != Some("help") {
        return None;
    }
    Some(block_on(async {
        let reply = match Client::connect(PATIENCE).await {
            Ok(client) => client.config().await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => {
                output::line("Valid gres options are:");
                let types = config_value(&reply, "GresTypes").unwrap_or_default();
                for name in types
                    .split(',')
                    .filter(|name| !name.is_empty() && *name != "(null)")
                {
                    output::line(format!("{name}[[:type]:count]"));
                }
                0
            }
            Err(error) => {
                let command = options.command.name();
                output::error_with_hint(format!("{command}: error: {error}"), &error);
                1
            }
        }
    }))
}
