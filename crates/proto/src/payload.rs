//! Payloads of the agent stream: MessagePack with field names of the model's orders and reports.
//!
//! These records are defined once, in the model; the stream's messages carry them as bytes with the number of the format,
//! so that the format can change. Unknown fields of a newer peer are skipped, a format or an order that is not known is an
//! error, never a guess.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_model::launch::{AgentOrder, ReportEnvelope};

use crate::v1::{AgentMessage, ControllerMessage};

/// MessagePack with field names.
pub const FORMAT_MESSAGEPACK: u32 = 1;

/// A payload that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The format's number is not known.
    #[error(
        "{what} comes in format {format}, this version reads format 1 only: update the older side"
    )]
    Format {
        /// Report or order.
        what: &'static str,
        /// What came.
        format: u32,
    },
    /// The bytes are not such a record.
    #[error("{what} cannot be read ({source}): agent and controller may run different versions")]
    Decode {
        /// Report or order.
        what: &'static str,
        /// Why.
        source: rmp_serde::decode::Error,
    },
    /// The record cannot be written.
    #[error("{what} cannot be written: {source}")]
    Encode {
        /// Report or order.
        what: &'static str,
        /// Why.
        source: rmp_serde::encode::Error,
    },
}

const REPORT: &str = "a report of an agent";
const ORDER: &str = "an order to an agent";

/// A report as a message of the stream.
///
/// # Errors
/// When it cannot be written, which no report made by this program should cause.
pub fn encode_report(report: &ReportEnvelope) -> Result<AgentMessage, PayloadError> {
    Ok(AgentMessage {
        format: FORMAT_MESSAGEPACK,
        payload: encode(REPORT, report)?,
    })
}

/// The report in a message of the stream.
///
/// # Errors
/// When format or content are not known here.
pub fn decode_report(message: &AgentMessage) -> Result<ReportEnvelope, PayloadError> {
    decode(REPORT, message.format, &message.payload)
}

/// An order as a message of the stream.
///
/// # Errors
/// When it cannot be written, which no order made by this program should cause.
pub fn encode_order(order: &AgentOrder) -> Result<ControllerMessage, PayloadError> {
    Ok(ControllerMessage {
        format: FORMAT_MESSAGEPACK,
        payload: encode(ORDER, order)?,
    })
}

/// The order in a message of the stream.
///
/// # Errors
/// When format or content are not known here.
pub fn decode_order(message: &ControllerMessage) -> Result<AgentOrder, PayloadError> {
    decode(ORDER, message.format, &message.payload)
}

fn encode<T: Serialize>(what: &'static str, record: &T) -> Result<Vec<u8>, PayloadError> {
    rmp_serde::to_vec_named(record).map_err(|source| PayloadError::Encode { what, source })
}

fn decode<T: DeserializeOwned>(
    what: &'static str,
    format: u32,
    payload: &[u8],
) -> Result<T, PayloadError> {
    if format != FORMAT_MESSAGEPACK {
        return Err(PayloadError::Format { what, format });
    }
    rmp_serde::from_slice(payload).map_err(|source| PayloadError::Decode { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::ids::{JobId, StepId};
    use sluice_model::launch::{AgentReport, SignalTarget};

    /// Another format, cut bytes and unknown orders are errors.
    #[test]
    fn refuses_what_it_does_not_know() {
        let order = AgentOrder::Signal {
            job_id: JobId(7),
            target: SignalTarget::Step(StepId::Num(0)),
            signal: 10,
        };
        let message = encode_order(&order).expect("writes");
        assert_eq!(decode_order(&message).expect("reads"), order);

        let other = ControllerMessage {
            format: 2,
            payload: message.payload.clone(),
        };
        assert!(matches!(
            decode_order(&other),
            Err(PayloadError::Format { format: 2, .. })
        ));
        let cut = ControllerMessage {
            format: 1,
            payload: message.payload[..message.payload.len() - 1].to_vec(),
        };
        assert!(matches!(
            decode_order(&cut),
            Err(PayloadError::Decode { .. })
        ));
        let unknown = ControllerMessage {
            format: 1,
            payload: b"\x81\xa7Dissolv\x80".to_vec(),
        };
        assert!(matches!(
            decode_order(&unknown),
            Err(PayloadError::Decode { .. })
        ));
    }

    /// Field names are in the bytes: a reader with more or fewer fields still understands them.
    #[test]
    fn fields_have_names() {
        let report = ReportEnvelope {
            sequence: 3,
            report: AgentReport::Drain {
                reason: "no disk".to_owned(),
            },
        };
        let message = encode_report(&report).expect("writes");
        assert_eq!(message.format, 1);
        assert!(message.payload.windows(8).any(|bytes| bytes == b"sequence"));
        assert_eq!(decode_report(&message).expect("reads"), report);
    }
}
