//! Reports of a small cluster: headings of a real sreport, and sums that were made by hand.

use super::*;
use crate::format::sacct::TableStyle;
use crate::format::time_style::TimeStyle;
use jiff::tz::TimeZone;
use sluice_model::ids::JobId;

/// 2026-11-30T03:00:00 UTC.
const START: UnixSeconds = UnixSeconds(1_796_007_600);

fn job(id: u32, user: &str, account: &str, cpus: u32, minutes: i64) -> JobRecord {
    let mut job = JobRecord::new(JobId(id), 0, START);
    job.cluster = "oracle".to_string();
    job.user = user.to_string();
    job.account = account.to_string();
    job.start = Some(START + 600);
    job.end = Some(START + 600 + minutes * 60);
    job.alloc_cpus = cpus;
    job.alloc_tres = format!("cpu={cpus},mem=100,node=1");
    job
}

fn facts(jobs: Vec<JobRecord>) -> Facts {
    let account = |name: &str, parent: &str| {
        let mut row = AssociationRecord::new("oracle", name, "");
        row.parent_account = parent.to_string();
        row
    };
    let cluster = ClusterRecord {
        id: 1,
        name: "oracle".to_string(),
        control_host: String::new(),
        control_port: 0,
        rpc_version: 0,
        tres: "cpu=100,mem=1000,node=4".to_string(),
        node_list: String::new(),
        classification: String::new(),
        deleted: false,
    };
    Facts {
        jobs,
        associations: vec![
            account("root", ""),
            account("science", "root"),
            account("bio", "science"),
            account("physics", "science"),
        ],
        clusters: vec![cluster],
        events: Vec::new(),
        period: Period {
            start: START,
            end: START + 7_200,
        },
        now: START + 7_200,
    }
}

fn text(kind: Kind, facts: &Facts, conditions: &Conditions) -> String {
    let report = build(
        kind,
        facts,
        conditions,
        &["cpu".to_string()],
        false,
        TimeForm::Minutes,
    )
    .expect("builds");
    report.text(
        &facts.period,
        &TimeStyle::standard(TimeZone::UTC, START),
        &TableStyle::Padded,
        true,
    )
}

fn sample() -> Facts {
    facts(vec![
        job(1, "nobody1", "physics", 2, 10),
        job(2, "nobody1", "physics", 60, 1),
        job(3, "nobody2", "bio", 1, 5),
    ])
}

const RULE: &str =
    "--------------------------------------------------------------------------------\n";

/// Headings of empty reports as a real sreport prints them.
#[test]
fn empty_reports() {
    let nothing = facts(Vec::new());
    let show = |kind| text(kind, &nothing, &Conditions::default());
    let head = |title: &str, what: &str, rest: &str| format!("{RULE}{title}\n{what}\n{RULE}{rest}");
    assert_eq!(
        show(Kind::AccountUtilizationByUser),
        head(
            "Cluster/Account/User Utilization 2026-11-30T03:00:00 - 2026-11-30T04:59:59 (7200 secs)",
            "Usage reported in CPU Minutes",
            "  Cluster         Account     Login     Proper Name     Used   Energy \n\
             --------- --------------- --------- --------------- -------- -------- \n"
        )
    );
    assert_eq!(
        show(Kind::UserUtilizationByAccount),
        head(
            "Cluster/User/Account Utilization 2026-11-30T03:00:00 - 2026-11-30T04:59:59 (7200 secs)",
            "Usage reported in CPU Minutes",
            "  Cluster     Login     Proper Name         Account     Used   Energy \n\
             --------- --------- --------------- --------------- -------- -------- \n"
        )
    );
    assert_eq!(
        show(Kind::TopUsage),
        head(
            "Top 10 Users 2026-11-30T03:00:00 - 2026-11-30T04:59:59 (7200 secs)",
            "Usage reported in CPU Minutes",
            "  Cluster     Login     Proper Name         Account     Used   Energy \n\
             --------- --------- --------------- --------------- -------- -------- \n"
        )
    );
    assert_eq!(
        show(Kind::ReservationUtilization),
        head(
            "Reservation Utilization 2026-11-30T03:00:00 - 2026-11-30T04:59:59",
            "Usage reported in TRES Minutes",
            "  Cluster      Name               Start                 End      TRES Name            Allocated                 Idle \n\
             --------- --------- ------------------- ------------------- -------------- -------------------- -------------------- \n"
        )
    );
}

/// Accounts have what is below them; users stand under their account.
#[test]
fn usage_by_account_and_user() {
    let report = text(
        Kind::AccountUtilizationByUser,
        &sample(),
        &Conditions::default(),
    );
    assert!(
        report.ends_with(
            "   oracle            root                                 85        0 \n   \
         oracle         science                                 85        0 \n   \
         oracle             bio                                  5        0 \n   \
         oracle             bio   nobody2                        5        0 \n   \
         oracle         physics                                 80        0 \n   \
         oracle         physics   nobody1                       80        0 \n"
        ),
        "{report}"
    );
    let top = text(
        Kind::TopUsage,
        &sample(),
        &Conditions {
            top_count: Some(1),
            ..Conditions::default()
        },
    );
    assert!(
        top.contains("Top 1 Users")
            && top.ends_with(
                "   oracle   nobody1                         physics       80        0 \n"
            ),
        "{top}"
    );
}

/// 100 CPUs for two hours are 12000 minutes.
#[test]
fn utilization() {
    let report = text(Kind::Utilization, &sample(), &Conditions::default());
    assert!(
        report.ends_with("   oracle       85        0        0    11915        0    12000 \n"),
        "{report}"
    );
}

/// Size classes; without accounts all stands under the root.
#[test]
fn sizes() {
    let report = text(Kind::SizesByAccount, &sample(), &Conditions::default());
    assert!(report.starts_with(&format!(
        "{RULE}Job Sizes 2026-11-30T03:00:00 - 2026-11-30T04:59:59 (7200 secs)\nTime reported in Minutes\n{RULE}  \
         Cluster   Account     0-49 CPUs   50-249 CPUs  250-499 CPUs  500-999 CPUs  >= 1000 CPUs Total Count % of cluster \n\
         --------- --------- ------------- ------------- ------------- ------------- ------------- ----------- ------------ \n"
    )), "{report}");
    assert!(report.ends_with(
        "   oracle      root            25            60             0             0             0          85      100.00% \n"
    ), "{report}");
    let flat = Conditions {
        flat: true,
        job_count: true,
        ..Conditions::default()
    };
    let report = text(Kind::SizesByAccount, &sample(), &flat);
    assert!(report.ends_with(
        "   oracle       bio             1             0             0             0             0           1       33.33% \n   \
         oracle   physics             1             1             0             0             0           2       66.67% \n"
    ), "{report}");
}

/// Names may be shortened; unknown ones are refused in Slurm's words.
#[test]
fn names() {
    assert_eq!(Kind::find("user", Some("top")), Ok(Kind::TopUsage));
    assert_eq!(Kind::find("Cluster", Some("UTIL")), Ok(Kind::Utilization));
    assert_eq!(
        Kind::find("cluster", Some("nosuch")),
        Err("Not valid report nosuch\nValid cluster reports are, \"AccountUtilizationByUser\", \"AccountUtilizationByQOS\", \"UserUtilizationByAccount\", \"UserUtilizationByWckey\", \"Utilization\", and \"WCKeyUtilizationByUser\"".to_string())
    );
}
