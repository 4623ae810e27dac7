//! sshare: shows shares of accounts and users.
//!
//! Columns are in [`crate::format::sshare`]. Source: sshare(1).

use std::time::Duration;

use sluice_model::error_code::ErrorCode;

use super::block_on;
use super::caller::{Place, uid_of, user_name};
use super::structured;
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sacct::{TableStyle, table_text};
use crate::format::sshare::{
    FIELDS, FORMAT_DEFAULT, FORMAT_LONG, FORMAT_LONG_CLASSIC, FORMAT_LONG_CLASSIC_PARTITION,
    FORMAT_LONG_PARTITION, FORMAT_PARTITION, ShareField, ShareRow, ShareView, Shares, columns,
    rows,
};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sshare.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sshare,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if options.has("helpformat") {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        output::text_out(&field_list(&names));
        return 0;
    }
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    if let Some(list) = options.get("format")
        && let Err(name) = columns(list)
    {
        output::error_line(format!(
            "sshare: error: Invalid field requested: \"{name}\""
        ));
        return 1;
    }
    let users = match users(&options, &place) {
        Ok(users) => users,
        Err(line) => {
            output::error_line(line);
            return 1;
        }
    };
    block_on(async {
        match show(&options, users.as_deref()).await {
            Ok(()) => 0,
            Err(error) => {
                let text = match error.code() {
                    Some(ErrorCode::NotSupported | ErrorCode::Disabled) => {
                        "sshare: error: Slurm accounting storage is disabled: there are no associations"
                            .to_string()
                    }
                    _ => format!("sshare: error: {error}"),
                };
                output::error_line(text);
                1
            }
        }
    })
}

/// Names in four columns, as `--helpformat` lists them.
pub(super) fn field_list(names: &[&str]) -> String {
    let mut text = String::new();
    for row in names.chunks(4) {
        let cells: Vec<String> = row.iter().map(|name| format!("{name:<19}")).collect();
        text.push_str(&cells.join(" "));
        text.push('\n');
    }
    text
}

/// How tables are printed.
pub(super) fn table_style(options: &Options) -> TableStyle {
    delimited_style(options, "|")
}

/// As [`table_style`], with a delimiter of its own.
pub(super) fn delimited_style(options: &Options, delimiter: &str) -> TableStyle {
    let delimiter = delimiter.to_string();
    match (options.has("parsable"), options.has("parsable2")) {
        (_, true) => TableStyle::Delimited {
            delimiter,
            trailing: false,
        },
        (true, _) => TableStyle::Delimited {
            delimiter,
            trailing: true,
        },
        _ => TableStyle::Padded,
    }
}

/// Whose rows are shown: `None` = everybody's.
fn users(options: &Options, place: &Place) -> Result<Option<Vec<String>>, String> {
    if options.has("all") {
        return Ok(None);
    }
    let given = options.list("user");
    if given.is_empty() {
        return Ok(Some(vec![user_name(place.uid)]));
    }
    given
        .iter()
        .map(|user| {
            uid_of(user)
                .map(user_name)
                .ok_or_else(|| format!("sshare: error: Invalid user: {user}"))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// The columns without `-o`.
fn default_columns(options: &Options, fair_tree: bool) -> &'static str {
    match (options.has("long"), options.has("partition"), fair_tree) {
        (false, false, _) => FORMAT_DEFAULT,
        (false, true, _) => FORMAT_PARTITION,
        (true, false, true) => FORMAT_LONG,
        (true, true, true) => FORMAT_LONG_PARTITION,
        (true, false, false) => FORMAT_LONG_CLASSIC,
        (true, true, false) => FORMAT_LONG_CLASSIC_PARTITION,
    }
}

async fn show(options: &Options, users: Option<&[String]>) -> Result<(), ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let shares = client.shares().await?;
    let tree = rows(shares.associations).map_err(|error| ClientError::Other(error.to_string()))?;
    let view = ShareView {
        tree: !options.has("users"),
        tres: shares.tres,
        fair_tree: shares.fair_tree,
    };
    let list = options
        .get("format")
        .unwrap_or_else(|| default_columns(options, view.fair_tree));
    let columns: Vec<(&'static ShareField, i32)> = columns(list).unwrap_or_default();
    let accounts = options.list("accounts");
    let shown: Vec<ShareRow> = tree
        .into_iter()
        .filter(|row| {
            let association = &row.association;
            let user = association.user.as_str();
            let user_fits = match user {
                "" => !options.has("users"),
                user => users.is_none_or(|users| users.iter().any(|name| name == user)),
            };
            let account_fits = accounts.is_empty() || accounts.contains(&association.account);
            user_fits && account_fits
        })
        .collect();
    if structured::wanted(options) {
        let shares = Shares {
            rows: &shown,
            view: &view,
        };
        return structured::print(&client, options, &shares).await;
    }
    let names: Vec<(String, i32)> = columns
        .iter()
        .map(|(field, width)| (field.name.to_string(), *width))
        .collect();
    let rows = shown.iter().map(|row| {
        columns
            .iter()
            .map(|(field, _)| (field.value)(row, &view))
            .collect()
    });
    let with_header = !options.has("noheader");
    output::text_out(&table_text(
        &names,
        rows,
        &table_style(options),
        with_header,
    ));
    Ok(())
}
