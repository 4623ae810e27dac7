//! Every record survives the way over the wire: record, message, bytes, message, record.
//!
//! Values come from `filler`, which reaches every field; a record that has no line here is not tested, so each conversion
//! gets one.

mod filler;

use std::fmt::Debug;

use filler::filled;
use proptest::prelude::*;
use prost::Message;
use serde::de::DeserializeOwned;
use sluice_model::accounting::{
    AccountRecord, AssociationRecord, ClusterRecord, JobRecord, QosRecord, StepRecord, UserRecord,
};
use sluice_model::job::{JobDescription, JobInfo, JobUpdate};
use sluice_model::launch::{AgentOrder, ReportEnvelope};
use sluice_model::node::{NodeInfo, NodeUpdate};
use sluice_model::partition::PartitionInfo;
use sluice_model::reservation::{LicenseInfo, ReservationInfo, ReservationRequest};
use sluice_model::step::{StepDescription, StepInfo, StepLayout};
use sluice_proto::{ConvertError, decode_order, decode_report, encode_order, encode_report, v1};

/// Sends `record` through bytes and back.
fn over_the_wire<R, M>(record: R) -> R
where
    M: Message + Default + From<R>,
    R: TryFrom<M, Error = ConvertError>,
{
    let bytes = M::from(record).encode_to_vec();
    let message = M::decode(bytes.as_slice()).expect("prost reads what it wrote");
    R::try_from(message).expect("a record's own message converts back")
}

fn survives<R, M>(seed: u64, full: bool)
where
    M: Message + Default + From<R>,
    R: TryFrom<M, Error = ConvertError> + DeserializeOwned + Clone + PartialEq + Debug,
{
    let record: R = filled(seed, full);
    assert_eq!(over_the_wire::<R, M>(record.clone()), record);
}

macro_rules! records {
    ($($test:ident: $record:ident => $message:ident,)+) => {
        $(mod $test {
            use super::*;

            /// Every field set at once.
            #[test]
            fn full() {
                survives::<$record, v1::$message>(1, true);
            }

            proptest! {
                /// Fields set and not set in any mixture, numbers at their limits.
                #[test]
                fn any(seed: u64) {
                    survives::<$record, v1::$message>(seed, false);
                }
            }
        })+
    };
}

records! {
    job_description: JobDescription => JobDescription,
    job_info: JobInfo => JobInfo,
    job_update: JobUpdate => JobUpdate,
    step_description: StepDescription => StepDescription,
    step_layout: StepLayout => StepLayout,
    step_info: StepInfo => StepInfo,
    node_info: NodeInfo => NodeInfo,
    node_update: NodeUpdate => NodeUpdate,
    partition_info: PartitionInfo => PartitionInfo,
    reservation_info: ReservationInfo => ReservationInfo,
    reservation_request: ReservationRequest => ReservationRequest,
    license_info: LicenseInfo => LicenseInfo,
    job_record: JobRecord => JobRecord,
    step_record: StepRecord => StepRecord,
    cluster_record: ClusterRecord => ClusterRecord,
    account_record: AccountRecord => AccountRecord,
    user_record: UserRecord => UserRecord,
    association_record: AssociationRecord => AssociationRecord,
    qos_record: QosRecord => QosRecord,
}

/// What is left out of a message stays left out: defaults survive too.
#[test]
fn defaults() {
    let description = JobDescription::default();
    assert_eq!(
        over_the_wire::<_, v1::JobDescription>(description.clone()),
        description
    );
    let update = JobUpdate::default();
    assert_eq!(over_the_wire::<_, v1::JobUpdate>(update.clone()), update);
    let step = StepDescription::default();
    assert_eq!(over_the_wire::<_, v1::StepDescription>(step.clone()), step);
    let partition = PartitionInfo::default();
    assert_eq!(
        over_the_wire::<_, v1::PartitionInfo>(partition.clone()),
        partition
    );
    let node = NodeUpdate::default();
    assert_eq!(over_the_wire::<_, v1::NodeUpdate>(node.clone()), node);
}

/// An empty list clears a field, an absent one leaves it alone: the wire must keep them apart.
#[test]
fn empty_is_not_absent() {
    let update = JobUpdate {
        partitions: Some(Vec::new()),
        gres_per_node: Some(Vec::new()),
        dependency: Some(String::new()),
        nice: Some(0),
        ..JobUpdate::default()
    };
    assert_eq!(over_the_wire::<_, v1::JobUpdate>(update.clone()), update);
}

/// The error of a bad field says where it is.
#[test]
fn errors_name_the_field() {
    let info: JobInfo = filled(1, true);
    let mut message = v1::JobInfo::from(info);
    message
        .description
        .as_mut()
        .expect("a full record has one")
        .exclusive = Some(9);
    let error = JobInfo::try_from(message).expect_err("nine is no kind of exclusive");
    assert_eq!(error.path(), "JobInfo.description.exclusive");
    assert_eq!(
        error.to_string(),
        "field JobInfo.description.exclusive of the message is not usable: Exclusive has no value 9; the other side may \
         run a different version"
    );

    let step: StepDescription = filled(1, true);
    let mut message = v1::StepDescription::from(step);
    message.pty.as_mut().expect("a full record has one").columns = 65_536;
    assert_eq!(
        StepDescription::try_from(message)
            .expect_err("too wide")
            .path(),
        "StepDescription.pty.columns"
    );

    let mut message = v1::StepInfo::from(filled::<StepInfo>(1, true));
    message.time_limit = None;
    assert_eq!(
        StepInfo::try_from(message)
            .expect_err("a limit is needed")
            .path(),
        "StepInfo.time_limit"
    );
}

proptest! {
    /// Orders and reports of every kind survive the agent stream.
    #[test]
    fn agent_stream(seed: u64) {
        let order: AgentOrder = filled(seed, false);
        prop_assert_eq!(decode_order(&encode_order(&order).expect("writes")).expect("reads"), order);
        let report: ReportEnvelope = filled(seed, false);
        prop_assert_eq!(decode_report(&encode_report(&report).expect("writes")).expect("reads"), report);
    }
}
